use dauntless_contract::{BoxFuture, Effect, Failure, Progress, ToolCtx, ToolOutput, ToolSpec};

use super::*;
use crate::FaultyTool;

/// Small enough for every check; `cargo xtask simulate` runs more.
#[test]
fn tst_05_a_thousand_seeds_break_no_rule_and_every_tool_serves_again() {
    let totals = Simulation::builder().build().run_all(0..1000, 2).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(totals.seeds, 1000);
    assert!(totals.runs > 1000 && totals.attempts > 5000, "{totals:?}");
}

#[test]
fn tst_01_one_seed_gives_one_history() {
    let simulation = Simulation::builder().build();
    for seed in 0..150 {
        let history = || simulation.play(seed).0.transcript();
        assert_eq!(history(), history(), "seed {seed}");
    }
}

#[test]
fn faults_strike_and_are_survived_in_most_worlds() {
    let simulation = Simulation::builder().build();
    let (mut panicked, mut hung, mut failed, mut opened) = (0, 0, 0, 0);
    for seed in 0..60 {
        for entry in simulation.play(seed).0.entries {
            match entry.fact {
                Fact::AttemptEnded { end: AttemptEnd::Panicked, .. } => panicked += 1,
                Fact::AttemptEnded { end: AttemptEnd::Dropped, .. } => hung += 1,
                Fact::AttemptEnded { end: AttemptEnd::Failed(_), .. } => failed += 1,
                Fact::Saw { progress, .. } if matches!(*progress, Progress::BreakerOpened { .. }) => {
                    opened += 1
                }
                _ => {}
            }
        }
    }
    assert!(panicked > 20 && hung > 50 && failed > 100 && opened > 20, "{panicked} {hung} {failed} {opened}");
}

#[test]
fn an_agent_of_ones_own_runs_with_faults_around_its_tools() {
    let simulation = Simulation::builder()
        .agent("Find it.", || Agent::new("own").tool(FaultyTool::builder("find").attempts([])))
        .arguments("find", json!({}))
        .build();
    let totals = simulation.run_all(0..30, 1).unwrap_or_else(|found| panic!("{found}"));
    assert!(totals.attempts > 30, "{totals:?}");
}

/// Never works, and says that it was not asked.
struct Full(Arc<ToolSpec>);

impl Tool for Full {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async { Err(Failure::overloaded("Full.")) })
    }
}

#[test]
fn tst_02_a_seed_that_breaks_a_rule_says_what_was_done_and_how_to_repeat_it() {
    let mut spec = ToolSpec::new("full", "Has no room.", json!({"type": "object"}));
    spec.effect = Effect::ReadOnly;
    let spec = Arc::new(spec);
    let simulation = Simulation::builder()
        .runs(1)
        .agent("Go.", move || Agent::new("own").tool(Full(Arc::clone(&spec))))
        .arguments("full", json!({}))
        .build();
    let found = simulation.run_all(0..10, 2).unwrap_err();
    let text = found.to_string();
    for part in [
        &format!("seed {} breaks a rule 1 times", found.seed),
        "a tool serves again when the faults have ended (TST-5): full answers overloaded: Full.",
        "── start run 1",
        "── end the faults",
        &format!("replay it: this simulation with `.run({})`", found.seed),
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}
