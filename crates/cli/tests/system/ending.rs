//! Ends that come from outside: signals and closed pipes. No process of a tool survives any of them.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::{Duration, Instant};

use dauntless_testkit::{Call, Reply, Script, StrictProvider};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use super::{Folder, Ran, ended, provider, written};

/// A command that does not end when asked, and says where it is.
fn stubborn(stop_grace: &str) -> String {
    format!(
        "[tools.stubborn]\ndescription = \"Never ends.\"\neffect = \"read_only\"\n[tools.stubborn.command]\n\
         argv = [\"sh\", \"-c\", \"trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done\"]\n\
         stop_grace = \"{stop_grace}\"\n"
    )
}

fn asks_for_it() -> StrictProvider {
    provider(Script::by_turn([Reply::calls([Call::new("stubborn", &json!({}))]), Reply::text("never")]))
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(pid(&child.id().to_string()), signal).unwrap();
}

/// A process that was killed may take a moment to be gone, where somebody else has to reap it.
fn assert_gone(process: Pid) {
    let start = Instant::now();
    while test_kill_process(process).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(2), "the tool's process is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_first_signal_cancels_politely_and_the_tool_ends_too() {
    for (kind, code, by) in
        [(Signal::INT, 130, "Ctrl-C"), (Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")]
    {
        let (folder, provider) = (Folder::new(), asks_for_it());
        folder.configure(&provider, &stubborn("100ms"));
        let child = folder.command(&["run", "Work."]).spawn().unwrap();
        let tool = pid(&written(&folder.0.join("pid")));
        signal(&child, kind);
        let ran = Ran::wait(child);
        assert_eq!((ran.code, &*ran.out), (Some(code), ""), "{ran:?}");
        assert!(ran.err.starts_with(&format!("dauntless: the run stopped: cancelled by {by}\n")), "{ran:?}");
        assert_gone(tool);
    }
}

#[test]
fn the_second_signal_ends_everything_at_once() {
    let (folder, provider) = (Folder::new(), asks_for_it());
    folder.configure(&provider, &stubborn("30s"));
    let mut child = folder.command(&["run", "Work."]).spawn().unwrap();
    let tool = pid(&written(&folder.0.join("pid")));
    signal(&child, Signal::INT);
    // The outcome is told at once; only the tool's process holds up the end.
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "dauntless: the run stopped: cancelled by Ctrl-C\n");
    let asked = Instant::now();
    signal(&child, Signal::INT);
    assert_eq!(ended(&mut child), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_gone(tool);
}

#[test]
fn a_call_by_hand_is_cancelled_like_a_run() {
    let (folder, provider) = (Folder::new(), asks_for_it());
    folder.configure(&provider, &stubborn("100ms"));
    let child = folder.command(&["tools", "call", "stubborn"]).spawn().unwrap();
    let tool = pid(&written(&folder.0.join("pid")));
    signal(&child, Signal::INT);
    Ran::wait(child).assert(130, "", "dauntless: the call was cancelled by Ctrl-C\n");
    assert_gone(tool);
}

#[test]
fn whoever_stops_reading_the_events_cancels_the_run() {
    let (folder, provider) = (Folder::new(), asks_for_it());
    // The tool fails again and again, so that there are events to write.
    let flaky = "[tools.stubborn]\ndescription = \"Fails.\"\neffect = \"read_only\"\nretry = { attempts = 50, \
                 base = \"20ms\", cap = \"20ms\" }\nbreaker = { consecutive_failures = 100, min_calls = 100 }\n\
                 budget = { capacity = 100.0 }\n[tools.stubborn.command]\nargv = [\"false\"]\n\
                 exit_codes = { 1 = \"unavailable\" }\n";
    folder.configure(&provider, flaky);
    let mut child = folder.command(&["run", "--json", "Work."]).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(ended(&mut child), Some(20), "{err}");
    assert_eq!(err, "dauntless: the run stopped: cancelled by the reader of the events, who went away\n");
}

#[test]
fn an_answer_that_nobody_reads_is_no_failure() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("done"))));
    folder.configure(&provider, "");
    for arguments in [&["run", "Work."][..], &["config", "schema"], &["completions", "bash"]] {
        let mut child = folder.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        Ran::wait(child).assert(0, "", "");
    }
}
