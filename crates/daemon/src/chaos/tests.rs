use std::time::Duration;

use dauntless_contract::{Effect, FailureCode, OnExhausted, Outcome};
use dauntless_models::{Scripted, Turn};
use dauntless_runtime::{Agent, Runtime};
use dauntless_testkit::{Behaviour, CallAccounting, FaultyTool};
use dauntless_tools::FaultKind;
use expect_test::expect;
use serde_json::json;
use tokio::time::Instant;

use super::*;

fn plan(rate: f64, kinds: &[&str], after_effect_ratio: f64) -> ChaosPlan {
    let kinds = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
    ChaosPlan { rate, kinds, after_effect_ratio, ..ChaosPlan::default() }
}

fn tool(name: &str, effect: Effect, behaviour: Behaviour) -> FaultyTool {
    FaultyTool::builder(name)
        .effect(effect)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| policy.attempt_timeout = Duration::from_secs(5))
        .attempts([behaviour])
}

/// A run that calls the tool so often, one call a turn.
async fn run(
    chaos: &mut ChaosTools,
    tool: &FaultyTool,
    plan: ChaosPlan,
    calls: u32,
) -> (Outcome, ChaosReport) {
    let name = tool.spec().name.to_string();
    let wrapped = chaos.wrap(Arc::new(tool.clone()), plan);
    let turns = (1..=calls).map(|n| Turn::new().call(&*name, json!({ "n": n })));
    let model = Scripted::new(turns.chain([Turn::new().text("done")]));
    let agent = Agent::new("tester").shared_model(Arc::new(model)).tools([wrapped]);
    let runtime = Runtime::builder().seed(1).agent(&agent).build().await.unwrap();
    let (mut books, mut report) = (CallAccounting::default(), ChaosReport::default());
    let stream = runtime.stream(&agent, "Work.").await.unwrap();
    let outcome = stream
        .watch(|event| {
            books.see(event);
            report.see(event);
        })
        .await;
    books.assert_balanced();
    runtime.shutdown(Duration::from_secs(1)).await;
    (outcome, report)
}

fn injected(chaos: &ChaosTools, name: &str) -> BTreeMap<FaultKind, u32> {
    chaos.tools[name].injected()
}

#[tokio::test(start_paused = true)]
async fn an_injected_hang_ends_by_the_timeout_of_its_attempt() {
    let (mut chaos, order) = (ChaosTools::new(1), tool("order", Effect::ReadOnly, Behaviour::ok("found")));
    let start = Instant::now();
    let (outcome, _) = run(&mut chaos, &order, plan(1.0, &["hang"], 0.0), 1).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!((outcome.totals.tool_attempts, outcome.totals.failed_calls), (3, 1));
    assert!((15..20).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(injected(&chaos, "order"), BTreeMap::from([(FaultKind::Hang, 3)]));
    assert_eq!(order.invocations(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_injected_panic_costs_one_attempt_and_nothing_else() {
    let mut recovered = 0;
    for seed in 1..=8 {
        let (mut chaos, order) =
            (ChaosTools::new(seed), tool("order", Effect::ReadOnly, Behaviour::ok("found")));
        let (outcome, _) = run(&mut chaos, &order, plan(0.4, &["panic"], 0.0), 1).await;
        assert!(outcome.is_completed(), "{outcome:?}");
        let panics = injected(&chaos, "order").values().sum::<u32>();
        assert_eq!(outcome.totals.tool_attempts, panics + u32::try_from(order.invocations()).unwrap());
        recovered += u32::from(panics > 0 && outcome.totals.failed_calls == 0);
    }
    assert!(recovered > 0, "some call went on after its panic");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_has_happened_and_is_not_repeated() {
    for kind in ["unavailable", "timeout", "connection_failed", "tool_error", "panic", "hang"] {
        let refund = tool("refund", Effect::Once, Behaviour::ok("refunded").after_effect());
        let mut chaos = ChaosTools::new(1);
        let (outcome, _) = run(&mut chaos, &refund, plan(1.0, &[kind], 1.0), 2).await;
        assert_eq!(
            (outcome.totals.tool_attempts, outcome.totals.failed_calls),
            (2, 2),
            "{kind}: {outcome:?}"
        );
        assert_eq!(refund.ledger().total(), 2, "{kind}");
        refund.ledger().assert_at_most_once();
    }
}

#[tokio::test(start_paused = true)]
async fn injected_faults_open_the_breaker_as_real_ones_do() {
    let (mut chaos, order) = (ChaosTools::new(1), tool("order", Effect::ReadOnly, Behaviour::ok("found")));
    let (outcome, _) = run(&mut chaos, &order, plan(1.0, &["unavailable"], 0.0), 4).await;
    assert_eq!(outcome.totals.failed_calls, 4);
    // The fifth failure in a row opened it, and what followed was refused.
    assert_eq!(
        injected(&chaos, "order"),
        BTreeMap::from([(FaultKind::Failure(FailureCode::Unavailable), 5)])
    );
}

#[tokio::test(start_paused = true)]
async fn the_report_tells_what_was_injected_and_what_became_of_it() {
    let (mut chaos, order) = (ChaosTools::new(3), tool("order", Effect::ReadOnly, Behaviour::ok("found")));
    let (_, report) = run(&mut chaos, &order, plan(0.4, &["unavailable", "not_found"], 0.5), 12).await;
    expect![[r#"
        Chaos, seed 3:
          runs completed        1 of 1
          faults injected       unavailable ×2, not_found ×2
          recovered in place    2 calls
          shown to the model    2 calls
          model turns           13 (a loop without a harness: 15, 2 of them wasted)
          order                 12 calls: 2 recovered, 2 shown to the model; injected: unavailable ×2, not_found ×2
    "#]]
    .assert_eq(&report.table(&chaos));
}

#[test]
fn the_banner_puts_together_what_is_alike_and_names_every_tool() {
    let wrap = |chaos: &mut ChaosTools, name, plan| {
        drop(chaos.wrap(Arc::new(tool(name, Effect::Once, Behaviour::ok("done"))), plan));
    };
    let mut chaos = ChaosTools::new(7);
    assert_eq!(chaos.banner(), "chaos is on (seed 7), and no tool is affected");
    wrap(&mut chaos, "order", plan(0.3, &["panic"], 0.0));
    wrap(&mut chaos, "stock", plan(0.3, &["hang"], 1.0));
    let latency = Duration::from_millis(100)..=Duration::from_secs(2);
    wrap(&mut chaos, "disk", ChaosPlan { latency: latency.clone(), ..plan(0.0, &[], 0.0) });
    wrap(&mut chaos, "mail", ChaosPlan { latency, ..plan(0.125, &["hang"], 0.0) });
    expect!["chaos is on (seed 7): `disk`: each attempt waits 100ms to 2s first; `mail`: 12.5 % of the attempts fail on purpose, and each attempt waits 100ms to 2s first; `order`, `stock`: 30 % of the attempts fail on purpose"].assert_eq(&chaos.banner());
}
