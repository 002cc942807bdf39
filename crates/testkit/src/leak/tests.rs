use std::fs::File;
use std::process::{Command, Stdio};

use super::*;

/// Whether the test has its process for itself; if not, runs it again in one where it has.
fn alone(test: &str) -> bool {
    const MARK: &str = "DAUNTLESS_TESTKIT_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", &format!("leak::tests::{test}")]).env(MARK, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// One look, with room for the threads of the test runner.
const HASTY: LeakBounds = LeakBounds {
    descriptors: 0,
    processes: 0,
    threads: 1000,
    tasks: 0,
    memory: Bytes(1 << 40),
    patience: Duration::ZERO,
};

async fn leaks(before: &LeakCheck, bounds: LeakBounds) -> String {
    before.check(bounds).await.err().map(|report| report.to_string()).unwrap_or_default()
}

/// Waits until the report says so: names of processes and threads come a moment after they do.
async fn reported(before: &LeakCheck, bounds: LeakBounds, text: &str) {
    let waiting = async {
        while !leaks(before, bounds).await.contains(text) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap();
}

#[tokio::test]
async fn an_open_file_is_named() {
    if !alone("an_open_file_is_named") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let file = File::open("/proc/version").unwrap();
    let report = leaks(&before, HASTY).await;
    assert!(report.starts_with("descriptors: "), "{report}");
    assert!(report.contains(": /proc/version"), "{report}");
    drop(file);
    before.assert_no_leak().await;
}

#[tokio::test]
async fn a_child_and_its_child_are_named_until_they_are_reaped() {
    if !alone("a_child_and_its_child_are_named_until_they_are_reaped") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "sleep 60 & read line; kill $!"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    reported(&before, HASTY, ": sh").await;
    reported(&before, HASTY, ": sleep").await;
    drop(child.stdin.take());
    reported(&before, HASTY, ": sh (ended, not reaped)").await;
    child.wait().unwrap();
    before.assert_no_leak().await;
}

#[tokio::test]
async fn a_task_that_never_ends_is_counted() {
    if !alone("a_task_that_never_ends_is_counted") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let task = tokio::spawn(std::future::pending::<()>());
    assert!(leaks(&before, HASTY).await.contains("tasks: 1, before 0, allowed growth 0"));
    task.abort();
    before.assert_no_leak().await;
}

#[tokio::test]
async fn a_thread_is_named() {
    if !alone("a_thread_is_named") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("lingering".into()).spawn(move || wait.recv()).unwrap();
    reported(&before, LeakBounds { threads: 0, ..HASTY }, ": lingering").await;
    drop(stop);
    thread.join().unwrap().unwrap_err();
    before.check(LeakBounds { threads: 0, ..LeakBounds::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_goes_by_itself_in_time_is_no_leak() {
    if !alone("what_goes_by_itself_in_time_is_no_leak") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let _detached = tokio::spawn(tokio::time::sleep(Duration::from_millis(300)));
    before.assert_no_leak().await;
}

#[test]
fn growth_up_to_the_bound_passes_and_one_more_does_not() {
    let before = LeakCheck::snapshot().unwrap();
    let mut now = before.clone();
    let bounds = LeakBounds { descriptors: 1, ..HASTY };
    now.descriptors.insert(9001, "socket:[1]".into());
    assert_eq!(now.growth_over(&before, bounds).lines, [""; 0]);
    now.descriptors.insert(9002, "socket:[2]".into());
    let report = now.growth_over(&before, bounds).to_string();
    assert!(report.ends_with("allowed growth 1\n  9001: socket:[1]\n  9002: socket:[2]"), "{report}");
}

#[tokio::test]
async fn memory_that_is_kept_is_counted() {
    if !alone("memory_that_is_kept_is_counted") {
        return;
    }
    let before = LeakCheck::snapshot().unwrap();
    let kept = vec![1_u8; 32 * 1024 * 1024];
    let report = leaks(&before, LeakBounds { memory: Bytes(16 * 1024 * 1024), ..HASTY }).await;
    assert!(report.contains("memory: "), "{report}");
    drop(kept);
}
