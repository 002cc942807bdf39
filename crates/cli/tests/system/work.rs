//! Runs of a journal, driven by workers and by hand: what survives, what is given back, and what an
//! operator is asked.

use std::process::Child;
use std::time::{Duration, Instant};

use super::{Folder, Ran, ended};

/// Two turns: a call that takes a while, and the answer. The instructions tell two agents apart.
fn configure(folder: &Folder, instructions: &str, more: &str) {
    folder.write(
        "script.toml",
        "[[turns]]\ncalls = [{ tool = \"slow\", arguments = {} }]\n[[turns]]\ntext = \"done\"\n",
    );
    folder.write(
        "dauntless.toml",
        &format!(
            "{more}\n[model]\nprovider = \"scripted\"\nname = \"m\"\nscript = \"script.toml\"\n\
             [agents.clerk]\ninstructions = \"{instructions}\"\ntools = [\"slow\"]\n\
             [tools.slow]\ndescription = \"Takes its time.\"\neffect = \"once\"\n\
             parameters = {{ type = \"object\", properties = {{}} }}\n\
             command.argv = [\"sh\", \"-c\", \"echo x >> begun; sleep 1\"]\n"
        ),
    );
}

const JOURNAL: &str = "journal = \"sqlite:j.db\"";

fn submit(folder: &Folder) -> String {
    let ran = folder.run(&["submit", "go"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    ran.out.trim().to_owned()
}

fn begun(folder: &Folder) -> usize {
    std::fs::read_to_string(folder.0.join("begun")).unwrap_or_default().lines().count()
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < super::PATIENCE, "it does not come to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_durable_run_answers_like_any_other_and_is_kept() {
    let folder = Folder::new();
    configure(&folder, "Work.", JOURNAL);
    let ran = folder.run(&["run", "--durable", "go"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "done\n"));
    let id = ran.err.trim().rsplit(' ').next().unwrap().to_owned();
    let shown = folder.run(&["show", &id]).out;
    assert!(shown.contains("completed") && shown.contains("1.0 slow: ok"), "{shown}");
    let again = folder.run(&["resume", &id]);
    assert_eq!(again.code, Some(33), "{again:?}");
    assert!(again.err.contains("is over already: completed"), "{again:?}");
}

#[test]
fn a_durable_run_that_is_killed_goes_on_and_its_write_is_not_repeated() {
    let folder = Folder::new();
    configure(&folder, "Work.", JOURNAL);
    let mut run = folder.command(&["run", "--durable", "go"]).spawn().unwrap();
    until(|| begun(&folder) == 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let runs = folder.run(&["runs"]).out;
    let id = runs.lines().last().unwrap().split(' ').next().unwrap().to_owned();
    assert!(runs.contains("call 1.0 of slow"), "{runs}");
    let resumed = folder.run(&["resume", &id]);
    assert_eq!((resumed.code, &*resumed.out, begun(&folder)), (Some(0), "done\n", 1));
    let shown = folder.run(&["show", &id]).out;
    assert!(shown.contains("1 interruption"), "{shown}");
}

#[test]
fn ctrl_c_lets_go_of_a_durable_run_and_says_how_it_goes_on() {
    let folder = Folder::new();
    configure(&folder, "Work.", JOURNAL);
    let run = folder.command(&["run", "--durable", "go"]).spawn().unwrap();
    until(|| begun(&folder) == 1);
    signal(&run, "-INT");
    let ran = Ran::wait(run);
    assert_eq!((ran.code, &*ran.out), (Some(130), ""), "{ran:?}");
    let advice = ran.err.lines().last().unwrap();
    let id = advice.rsplit("dauntless resume ").next().unwrap().split('`').next().unwrap();
    let resumed = folder.run(&["resume", id]);
    assert_eq!((resumed.code, &*resumed.out, begun(&folder)), (Some(0), "done\n", 1), "{advice}");
    let shown = folder.run(&["show", id]).out;
    assert!(shown.contains("1.0 slow: ok") && shown.contains("suspended in good order"), "{shown}");
}

#[test]
fn a_worker_gives_its_runs_back_when_it_is_told_to_stop_and_another_goes_on() {
    let folder = Folder::new();
    configure(&folder, "Work.", JOURNAL);
    let id = submit(&folder);
    let worker = folder.command(&["work", "--name", "first"]).spawn().unwrap();
    until(|| begun(&folder) == 1);
    signal(&worker, "-TERM");
    let stopped = Ran::wait(worker);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.err.contains("was given back, for another worker to go on with"), "{stopped:?}");
    let mut second = folder.command(&["work", "--name", "second"]).spawn().unwrap();
    until(|| folder.run(&["show", &id]).out.contains("completed"));
    signal(&second, "-TERM");
    assert_eq!((ended(&mut second), begun(&folder)), (Some(0), 1));
}

#[test]
fn two_workers_of_one_name_are_refused_by_name() {
    let folder = Folder::new();
    configure(&folder, "Work.", JOURNAL);
    submit(&folder);
    let mut worker = folder.command(&["work", "--name", "w"]).spawn().unwrap();
    until(|| begun(&folder) == 1);
    let refused = folder.run(&["work", "--name", "w"]);
    assert_eq!(refused.code, Some(75));
    assert!(refused.err.contains("a worker named `w` is alive"), "{refused:?}");
    signal(&worker, "-TERM");
    assert_eq!(ended(&mut worker), Some(0));
}

#[test]
fn dur_22_a_changed_agent_is_pinned_adopted_or_asked_about() {
    for policy in ["pin", "adopt", "ask"] {
        let folder = Folder::new();
        let journal = format!("[journal]\nurl = \"sqlite:j.db\"\non_config_change = \"{policy}\"\n");
        configure(&folder, "Work.", &journal);
        let id = submit(&folder);
        configure(&folder, "Work well.", &journal);
        let resumed = folder.run(&["resume", &id]);
        let shown = |folder: &Folder| folder.run(&["show", &id]).out;
        match policy {
            "pin" => {
                assert_eq!(&*resumed.out, "done\n", "{resumed:?}");
                assert!(!shown(&folder).contains("configured otherwise"));
            }
            "adopt" => {
                assert_eq!(&*resumed.out, "done\n", "{resumed:?}");
                assert!(shown(&folder).contains("the policy `adopt` chose"));
            }
            _ => {
                assert_eq!(resumed.code, Some(33), "{resumed:?}");
                assert!(resumed.err.contains(&format!("dauntless resume {id} --adopt")), "{resumed:?}");
                assert!(folder.run(&["runs"]).out.contains("is configured otherwise"));
                let kept = folder.run(&["resume", &id, "--keep"]);
                assert_eq!((kept.code, &*kept.out), (Some(0), "done\n"), "{kept:?}");
                assert!(shown(&folder).contains("the operator chose"));
            }
        }
        assert_eq!(begun(&folder), 1);
    }
}

#[test]
fn a_run_that_nobody_can_drive_is_paused_with_the_reason_and_can_be_cancelled() {
    let folder = Folder::new();
    let journal = "[journal]\nurl = \"sqlite:j.db\"\non_config_change = \"adopt\"\n";
    configure(&folder, "Work.", journal);
    let id = submit(&folder);
    let mut run = folder.command(&["resume", &id]).spawn().unwrap();
    until(|| begun(&folder) == 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let without = std::fs::read_to_string(folder.0.join("dauntless.toml")).unwrap();
    folder.write("dauntless.toml", &without.replace("tools = [\"slow\"]", "tools = []"));
    let resumed = folder.run(&["resume", &id]);
    assert_eq!(resumed.code, Some(33), "{resumed:?}");
    assert!(resumed.err.contains("no longer has that tool"), "{resumed:?}");
    assert!(folder.run(&["runs"]).out.contains("no longer has that tool"));
    assert_eq!(folder.run(&["cancel", &id]).code, Some(0));
    folder.run(&["resume", &id]);
    let shown = folder.run(&["show", &id]).out;
    assert!(shown.contains("cancelled"), "{shown}");
    assert_eq!(folder.run(&["resume", &id]).code, Some(33), "it is over");
}
