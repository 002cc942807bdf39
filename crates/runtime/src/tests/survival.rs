//! What is kept of a call so that it survives the end of its process, and how it goes on after it.

use dauntless_core::resilience::CallEnd;

use super::bench::Bench;
use super::*;
use crate::ports::{ToolReply, Wanted};

fn down() -> Behaviour {
    Behaviour::Fail(Failure::unavailable("Down.").effect(EffectState::None))
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_in_the_journal_before_its_call_ends() {
    let journal = Memory::default();
    let model = calls_then_done(&["price"]);
    let runtime = Runtime::builder().model(model).journal(journal.handle()).build().await.unwrap();
    let price = FaultyTool::builder("price").effect(Effect::ReadOnly).fallback("archive");
    let archive = reads("archive", [down(), Behaviour::ok("3 EUR")]);
    let agent = Agent::new("a").tool(price.attempts([down()])).tool(archive);
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    let facts = journal.read(outcome.run, 0, 100).await.unwrap();
    let mut waits = Vec::new();
    let seen: Vec<_> = facts
        .iter()
        .filter_map(|fact| match &fact.event {
            RunEvent::AttemptFailed { by, attempt, failure, wait, .. } => {
                waits.push(*wait);
                Some(format!("{by:?} {attempt} {}", failure.code))
            }
            RunEvent::CallEnded { record, .. } => Some(format!("ended after {}", record.attempts)),
            _ => None,
        })
        .collect();
    assert_eq!(
        seen,
        [
            "None 1 unavailable",
            "None 2 unavailable",
            "ended after 3",
            "Some(\"archive\") 1 unavailable",
            "ended after 2",
        ]
    );
    let told = events.iter().filter_map(|event| match event {
        Progress::AttemptFailed { wait, .. } => Some(*wait),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), waits);
    assert_eq!(outcome.totals.tool_attempts, 5, "the journal adds nothing to the count");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_another_process_began_goes_on_counting() {
    let mut bench = Bench::new(reads("find", [down()])).await;
    let (_, end) = bench.ask(1, Wanted::Call, 2);
    let CallEnd { attempts, stopped_by, .. } = end.await.unwrap();
    assert_eq!((attempts, stopped_by), (1, Some(StoppedBy::MaxAttempts)));
    assert_eq!(bench.tool.attempts().into_values().collect::<Vec<_>>(), [[3]]);
}

#[tokio::test(start_paused = true)]
async fn the_books_hold_where_the_tool_crashes_on_such_a_call() {
    let mut bench = Bench::new(reads("find", [Behaviour::Hang])).await;
    let (_, end) = bench.ask(1, Wanted::Call, 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.handle.kill();
    let CallEnd { attempts, result, .. } = end.await.unwrap();
    assert_eq!((attempts, result.unwrap_err().code), (1, FailureCode::Crashed));
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_asked_whether_a_call_happened_without_being_called() {
    let ledger = EffectLedger::in_memory();
    let tool = FaultyTool::builder("file").effect(Effect::Verifiable).ledger(ledger.clone()).attempts([]);
    let mut bench = Bench::new(tool).await;
    let said = async |bench: &mut Bench| bench.ask(1, Wanted::Verdict, 0).1.await.unwrap().result.unwrap();
    assert_eq!(said(&mut bench).await, ToolReply::Verdict(Verified::NotHappened));
    ledger.record("key");
    assert_eq!(said(&mut bench).await, ToolReply::Verdict(Verified::happened("done")));
    assert_eq!(bench.tool.invocations(), 0);
}

/// Cannot be reached at the first two questions, and then gives a secret away.
struct Slow(Arc<ToolSpec>, AtomicUsize);

impl Tool for Slow {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(std::future::ready(Err(Failure::tool_error("Not asked for."))))
    }

    fn verify(&self, _: ToolCtx, _: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        let said = match self.1.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(Failure::unavailable("Down.").effect(EffectState::Unknown)),
            _ => Ok(Verified::happened("Bearer abcdefghijklmnopqrstuvwxyz0123456789")),
        };
        Box::pin(std::future::ready(said))
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_tried_again_like_a_call_that_changes_nothing_and_its_answer_is_redacted() {
    let spec = ToolSpec {
        effect: Effect::Verifiable,
        ..ToolSpec::new("file", "Files an issue.", json!({ "type": "object" }))
    };
    let runtime = runtime(Scripted::replies(["x"])).await;
    let agent = Agent::new("a").tool(Slow(Arc::new(spec), AtomicUsize::new(0)));
    let handle = runtime.crew(&agent).await.unwrap().tools.values().next().unwrap().clone();
    let mut bench = Bench::on(runtime, reads("unused", []), handle);
    let end = bench.ask(1, Wanted::Verdict, 0).1.await.unwrap();
    assert_eq!(end.attempts, 3);
    let Ok(ToolReply::Verdict(Verified::Happened(output))) = end.result else { panic!("{:?}", end.result) };
    assert!(!output.text.contains("abcdefghij"), "{}", output.text);
}
