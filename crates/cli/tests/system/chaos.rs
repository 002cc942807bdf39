//! Faults on purpose: off unless asked for, and then told from the first line to the last.

use dauntless_contract::Progress;
use dauntless_testkit::CallAccounting;

use super::{Folder, Ran};

const SCRIPT: &str = r#"
[[turns]]
calls = [{ tool = "disk", arguments = {} }]

[[turns]]
text = "It said {{last}}."
"#;

fn folder(chaos: &str) -> Folder {
    let folder = Folder::new();
    folder.write("script.toml", SCRIPT);
    let text = "[model]\nprovider = \"scripted\"\nscript = \"script.toml\"\n\
                [agents.janitor]\ninstructions = \"Work.\"\ntools = [\"disk\"]\n\
                [tools.disk]\ndescription = \"Show the disk.\"\neffect = \"read_only\"\non_exhausted = \"observe\"\n\
                timeout = \"200ms\"\nretry = { base = \"1ms\" }\n\
                [tools.disk.command]\nargv = [\"printf\", \"full\"]\n";
    folder.write("dauntless.toml", &format!("{text}{chaos}"));
    folder
}

fn ran(folder: &Folder, arguments: &[&str]) -> Ran {
    let mut command = folder.command(arguments);
    command.env("DAUNTLESS_LOG", "off");
    Ran::of(command)
}

#[test]
fn a_section_alone_changes_nothing() {
    folder("[chaos]\nrate = 1.0\n").run(&["run", "How full?"]).assert(0, "It said full.\n", "");
}

#[test]
fn a_session_under_chaos_says_so_first_and_reports_last() {
    let folder = folder("[chaos]\nkinds = [\"unavailable\"]\n");
    let session = || ran(&folder, &["run", "--chaos=0.4", "--chaos-seed=2", "--repeat=3", "How full?"]);
    let told = session();
    told.assert(
        0,
        "It said full.\nIt said full.\nIt said full.\n",
        "dauntless: chaos is on (seed 2): `disk`: 40 % of the attempts fail on purpose\n\
         Chaos, seed 2:\n  \
         runs completed        3 of 3\n  faults injected       unavailable ×1\n  \
         recovered in place    1 call\n  shown to the model    0 calls\n  \
         model turns           6 (a loop without a harness: 7, 1 of them wasted)\n  \
         disk                  3 calls: 1 recovered, 0 shown to the model; injected: unavailable ×1\n",
    );
    assert_eq!(session().err, told.err, "the same seed, the same session");
}

#[test]
fn what_strikes_is_in_the_file_and_the_events_stay_pure() {
    let folder = folder("[chaos]\nenabled = true\nrate = 1.0\nkinds = [\"hang\"]\n");
    let ran = ran(&folder, &["run", "--json", "How full?"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events: Vec<Progress> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    CallAccounting::of_progress(&events).assert_balanced();
    assert!(!ran.out.contains("chaos"), "the model and the events are not told: {}", ran.out);
    assert!(
        ran.err.contains(
            "  disk                  1 call: 0 recovered, 1 shown to the model; injected: hang ×3\n"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn the_log_has_a_line_for_each_tool_that_is_affected() {
    let folder = folder("");
    let ran = folder.run(&["run", "--chaos=0.0001", "How full?"]);
    let line = ran.err.lines().next().unwrap();
    assert!(
        line.contains("WARN") && line.contains("chaos is on") && line.contains("tool=\"disk\""),
        "{ran:?}"
    );
}

#[test]
fn a_call_by_hand_and_a_rehearsal_say_it_too() {
    let folder = folder("[chaos]\nenabled = true\nrate = 1.0\nkinds = [\"not_found\"]\n");
    let by_hand = ran(&folder, &["tools", "call", "disk"]);
    assert_eq!(by_hand.code, Some(30), "{by_hand:?}");
    assert!(by_hand.err.starts_with("dauntless: chaos is on (seed 1): `disk`: 100 % "), "{by_hand:?}");
    let rehearsed = ran(&folder, &["rehearse", "terminal", "--chaos=0"]);
    assert_eq!(rehearsed.code, Some(10), "{rehearsed:?}");
    assert_eq!(
        rehearsed.err,
        "dauntless: chaos is on (seed 1), and no tool is affected\nChaos, seed 1:\n  \
         runs completed        0 of 1 (else tool_terminal ×1)\n  faults injected       none\n  \
         recovered in place    0 calls\n  shown to the model    0 calls\n  \
         model turns           2 (a loop without a harness: 3, 1 of them wasted)\n"
    );
}

#[test]
fn a_rate_that_is_none_is_a_mistake_on_the_command_line() {
    let ran = folder("").run(&["run", "--chaos=30", "How full?"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("use a number from 0 to 1, like 0.3"), "{ran:?}");
}

#[test]
fn a_session_ends_as_its_first_run_that_did_not_complete() {
    let folder = folder("[chaos.tools.disk]\nkinds = [\"unauthenticated\"]\n");
    let ran = ran(&folder, &["run", "--chaos=1", "--repeat=2", "How full?"]);
    assert_eq!((ran.code, &*ran.out), (Some(10), ""), "{ran:?}");
    assert!(ran.err.contains("  runs completed        0 of 2 (else tool_terminal ×2)\n"), "{ran:?}");
}
