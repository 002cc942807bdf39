//! What a worker costs that starts on a large journal.

use std::time::Duration;

use crate::cast::run;
use crate::child::Process;
use crate::rig::Rig;

/// A tenth of a percent of the statement's size in PostgreSQL, where the server has the bytes, and
/// two percent in a file. `cargo xtask bench journal --start-gigabytes 10` has all of it.
pub(crate) async fn dur_19_a_worker_starts_on_a_large_journal_at_once(rig: &Rig) {
    let megabytes = if matches!(rig, Rig::Sqlite(_)) { 200 } else { 10 };
    let store = rig.open().await;
    for n in 1..=40 {
        crate::cast::create(&store, n).await;
    }
    rig.fill(run(1), megabytes).await;
    let mut process = Process::start(&rig.address(), "ready");
    let said = process.says().unwrap();
    let [_, claims, ready_ms, peak_kib] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!(claims, "32");
    let ready = Duration::from_millis(ready_ms.parse().unwrap());
    assert!(ready < Duration::from_secs(2), "ready after {ready:?}");
    let peak_kib: u64 = peak_kib.parse().unwrap();
    assert!(peak_kib < 100 << 10, "{megabytes} MB of journal and a worker of {peak_kib} KiB");
}
