//! Runs outlive their workers: real processes, killed and stopped in the middle of calls. This is the
//! short form of `cargo xtask crash kill`.

use std::path::PathBuf;

use dauntless_tests::kill::Plan;
use dauntless_tests::kill::ledger::Point;
use dauntless_tests::store::Kind;

/// Strikes often enough to hit every point, and holds what came of the runs against the rules.
fn dur_08(store: Kind) {
    let name = format!("dauntless-kill-{}-{}", store.as_str(), std::process::id());
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_dauntless")),
        folder: std::env::temp_dir().join(name),
        store,
        strikes: 8,
        seed: u64::from(std::process::id()),
        workers: 3,
        // One of each shape.
        runs: 5,
        turns: 12,
    };
    let report = plan.carry_out().unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.below() > 0, "no run asked for another: {report}");
    for point in Point::ALL {
        assert!(report.hits(point) > 0, "no worker was struck {}: {report}", point.as_str());
    }
}

#[test]
fn dur_08_no_death_of_a_worker_repeats_or_loses_anything_in_a_file() {
    dur_08(Kind::Sqlite);
}

#[test]
fn dur_08_no_death_of_a_worker_repeats_or_loses_anything_in_a_database() {
    dur_08(Kind::Postgres);
}
