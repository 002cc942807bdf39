use super::{Counts, LIBTEST, NEXTEST, Runner, STEPS};

fn count(runner: Runner, lines: &[&str]) -> Counts {
    let mut counts = Counts::default();
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    counts.add(runner, &lines);
    counts
}

#[test]
fn the_summary_of_nextest_is_counted() {
    let line =
        "     Summary [   0.213s] 9 tests run: 7 passed (1 slow, 2 flaky), 1 failed, 1 timed out, 3 skipped";
    assert_eq!(count(Runner::Nextest, &[line]), Counts { passed: 7, failed: 2 });
}

#[test]
fn a_run_that_was_cut_short_is_counted() {
    let line = "     Summary [   1.000s] 4/9 tests run: 3 passed, 1 exec failed, 5 skipped";
    assert_eq!(count(Runner::Nextest, &[line]), Counts { passed: 3, failed: 1 });
}

#[test]
fn one_test_is_counted() {
    assert_eq!(
        count(Runner::Nextest, &["     Summary [   0.1s] 1 test run: 1 passed, 0 skipped"]),
        Counts { passed: 1, failed: 0 }
    );
}

#[test]
fn doc_tests_add_up_over_crates() {
    let lines = [
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.52s",
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
    ];
    assert_eq!(count(Runner::Libtest, &lines), Counts { passed: 4, failed: 2 });
}

#[test]
fn what_a_failed_test_printed_is_not_counted() {
    let lines = [
        "    Starting 2 tests across 1 binary",
        "        FAIL [   0.080s] (1/2) a tests::bad",
        "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.08s",
        "    Summary [ 1.0s] 9 tests run: 9 passed, 0 skipped",
        "────────────",
        "     Summary [   0.084s] 2 tests run: 1 passed, 1 failed, 0 skipped",
        "        FAIL [   0.080s] (1/2) a tests::bad",
        "error: test run failed",
    ];
    assert_eq!(count(Runner::Nextest, &lines), Counts { passed: 1, failed: 1 });
}

#[test]
fn a_build_that_failed_counts_nothing() {
    let lines = ["error: could not compile `a`", ""];
    assert_eq!(count(Runner::Nextest, &lines), Counts::default());
    assert_eq!(count(Runner::Libtest, &lines), Counts::default());
}

#[test]
fn a_failed_step_can_be_repeated_by_hand() {
    let docs = STEPS.iter().find(|step| step.env.is_some()).expect("a step with an environment");
    assert_eq!(docs.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --lib --no-deps --locked");
}

#[test]
fn every_step_that_resolves_dependencies_keeps_the_lock_file() {
    for step in STEPS.iter().chain([&NEXTEST, &LIBTEST]) {
        let resolves = !["cargo fmt", "cargo xtask"].iter().any(|own| step.line.starts_with(own));
        assert_eq!(step.line.contains("--locked"), resolves, "{step}");
    }
}
