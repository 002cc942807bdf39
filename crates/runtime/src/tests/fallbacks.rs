//! Tools that are withdrawn or replaced, and models that are replaced, in runs.

use super::*;

/// Answers with the names of the tools it is offered, after its turns.
struct Sees {
    spec: Arc<ModelSpec>,
    turns: Vec<&'static [&'static str]>,
    offered: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Model for Sees {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        let names: Vec<&str> = request.tools.iter().map(|spec| &*spec.name).collect();
        self.offered.lock().unwrap().push(names.join(" "));
        let calls = self.turns.get(ctx.turn as usize - 1).copied().unwrap_or_default();
        let raw = |name: &&str| RawCall {
            id: (*name).into(),
            name: (*name).into(),
            arguments: format!("{{\"n\":{}}}", ctx.turn).into(),
            garbled: None,
        };
        let reply = match calls.is_empty() {
            true => ModelReply::text("done"),
            false => ModelReply::calls(calls.iter().map(raw).collect()),
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

#[tokio::test(start_paused = true)]
async fn an_optional_tool_is_not_shown_while_its_breaker_is_open() {
    let offered = Arc::default();
    let spec = ModelSpec {
        name: "m".into(),
        provider: "test".into(),
        price: Price::default(),
        output_tokens_max: None,
        context_window: None,
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    let turns: Vec<&[&str]> = vec![&["news"], &["news"], &["wait"], &["wait"], &["news"]];
    let model = Sees { spec: Arc::new(spec), turns, offered: Arc::clone(&offered) };
    let runtime = Runtime::builder().model(model).seed(7).build().await.unwrap();
    let works = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&works);
    let news = FaultyTool::builder("news")
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Observe)
        .behave(move |ctx, _| match ctx.call.turn {
            1 | 2 => Behaviour::Fail(Failure::connection_failed("Refused.")),
            _ => {
                switch.fetch_add(1, Ordering::Relaxed);
                Behaviour::ok("back")
            }
        });
    let wait = reads("wait", [Behaviour::ok("waited").after(Duration::from_secs(4))]);
    let (outcome, _) = run_accounted(&runtime, &Agent::new("a").tool(news).tool(wait)).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!(
        *offered.lock().unwrap(),
        ["news wait", "news wait", "wait", "wait", "news wait", "news wait"],
        "three and two failures open it for about five seconds"
    );
    assert_eq!(works.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_down_hands_its_calls_to_its_fallback() {
    let journal = Memory::default();
    let runtime = Runtime::builder()
        .model(calls_then_done(&["price"]))
        .journal(journal.handle())
        .build()
        .await
        .unwrap();
    let price = FaultyTool::builder("price")
        .effect(Effect::ReadOnly)
        .fallback("archive")
        .behave(|_, _| Behaviour::Fail(Failure::unavailable("Down.")));
    let archive = reads("archive", [Behaviour::Fail(Failure::unavailable("Busy.")), Behaviour::ok("3 EUR")]);
    let agent = Agent::new("a").tool(price.clone()).tool(archive.clone());
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!((price.invocations(), archive.invocations()), (3, 2));
    assert_eq!(ended_code(&events, "price"), None);
    let facts = journal.read(outcome.run, 0, 100).await.unwrap();
    let ends: Vec<_> = facts
        .iter()
        .filter_map(|fact| match &fact.event {
            RunEvent::CallEnded { record, .. } => Some((record.by.as_deref(), record.attempts)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(None, 3), (Some("archive"), 2)]);
    let bad = Agent::new("b").tool(price);
    let error = runtime.submit(&bad, "go").await.err().unwrap().to_string();
    assert!(error.contains("its fallback `archive` is not a tool of this agent"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_down_is_replaced_by_its_fallback() {
    let down =
        Scripted::new((0..2).map(|_| Turn::new().fail_times(Failure::unavailable("Down."), 9).text("never")));
    let runtime = runtime(down).await;
    let spare = Scripted::replies(["from the spare"]);
    let agent = Agent::new("a").fallback_model(Arc::new(spare), [Bucket::Transient]);
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert_eq!((outcome.answer(), outcome.totals.turns), (Some("from the spare"), 1));
    assert_eq!(outcome.totals.model_attempts, 4);
    let retried = events.iter().filter(|event| matches!(event, Progress::ModelRetried { .. })).count();
    assert_eq!(retried, 3, "two retries, then the other model");
    assert_eq!(runtime.statuses().await.len(), 2);
}
