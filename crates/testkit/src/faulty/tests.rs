use dauntless_contract::{FailureCode, NeverCancelled, Timestamp};

use super::*;
use crate::tests::panic_of;

fn ctx(index: u32, attempt: u32) -> ToolCtx {
    ToolCtx {
        run: RunId::from_u128(1),
        call: CallKey { turn: 1, index },
        attempt,
        deadline: Timestamp::MAX,
        idempotency_key: format!("call-{index}").into(),
        cancel: Arc::new(NeverCancelled),
    }
}

async fn invoke(tool: &FaultyTool, index: u32, attempt: u32) -> Result<ToolOutput, Failure> {
    tool.call(ctx(index, attempt), Json::empty_object()).await
}

#[test]
fn a_declaration_passes_the_check_of_every_provider() {
    let tool = FaultyTool::builder("lookup")
        .effect(Effect::Keyed)
        .on_exhausted(OnExhausted::Observe)
        .polling()
        .resilience(|policy| policy.concurrency = 2)
        .attempts([]);
    let spec = tool.spec();
    assert_eq!(spec.check(), Ok(()));
    assert_eq!((spec.effect, spec.on_exhausted, spec.polling), (Effect::Keyed, OnExhausted::Observe, true));
    assert_eq!(spec.resilience.concurrency, 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_follow_the_list_call_by_call() {
    let busy = Failure::rate_limited("busy");
    let tool = FaultyTool::builder("t")
        .attempts([Behaviour::Fail(busy.clone()), Behaviour::ok("late").after(Duration::from_secs(9))]);
    let start = tokio::time::Instant::now();
    assert_eq!(invoke(&tool, 0, 1).await, Err(busy.clone()));
    assert_eq!(invoke(&tool, 1, 1).await, Err(busy));
    for attempt in [2, 3] {
        assert_eq!(invoke(&tool, 0, attempt).await, Ok(ToolOutput::text("late")));
    }
    assert_eq!(start.elapsed(), Duration::from_secs(18));
    let run = RunId::from_u128(1);
    let expected = [
        ((run, CallKey { turn: 1, index: 0 }), vec![1, 2, 3]),
        ((run, CallKey { turn: 1, index: 1 }), vec![1]),
    ];
    assert_eq!(tool.attempts(), BTreeMap::from(expected));
    assert_eq!(tool.invocations(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_closure_sees_the_attempt_and_the_arguments() {
    let tool = FaultyTool::builder("t")
        .behave(|ctx, arguments| Behaviour::ok(format!("{} {arguments}", ctx.attempt)));
    let arguments = Json::parse(r#"{"n":1}"#).unwrap();
    assert_eq!(tool.call(ctx(0, 3), arguments.clone()).await, Ok(ToolOutput::text(r#"3 {"n":1}"#)));
    assert_eq!(tool.arguments(), [arguments]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_is_no_longer_running_but_its_effect_stays() {
    let tool = FaultyTool::builder("t").attempts([Behaviour::Hang.after_effect()]);
    let minute = Duration::from_secs(60);
    let both = async { tokio::join!(invoke(&tool, 0, 1), invoke(&tool, 0, 2)) };
    assert!(tokio::time::timeout(minute, both).await.is_err());
    assert_eq!((tool.running(), tool.max_running()), (0, 2));
    assert_eq!(tool.ledger().count("call-0"), 2);
    assert!(panic_of(|| tool.ledger().assert_at_most_once()).contains("call-0: 2 times"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_panic_and_ends_the_attempt() {
    let tool = FaultyTool::builder("t").attempts([Behaviour::Panic("index out of range".into())]);
    let task = tokio::spawn({
        let tool = tool.clone();
        async move { invoke(&tool, 0, 1).await }
    });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "index out of range");
    assert_eq!((tool.running(), tool.invocations()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn every_code_can_be_injected() {
    for code in FailureCode::ALL {
        let failure = Failure::new(code, "asked for");
        let tool = FaultyTool::builder("t").attempts([Behaviour::Fail(failure.clone())]);
        assert_eq!(invoke(&tool, 0, 1).await, Err(failure));
    }
}
