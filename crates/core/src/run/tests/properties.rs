//! Whatever comes in whatever order, a run keeps its promises.

use proptest::prelude::*;

use super::*;

/// Something that may happen, true or stale.
#[derive(Clone, Debug)]
enum Step {
    Says(&'static str),
    Refuses,
    Gives(u32),
    CutsOff,
    Asks(Vec<(usize, usize)>),
    Ends { index: u32, how: usize, stale: bool },
    ModelFails,
    RejectsTool(usize),
    Overflows,
    Summarises(bool),
    Timer(RunTimer),
    Unparks(u32),
    ChildEnds { index: u32, attempt: u32, how: usize },
    Cancels,
    Suspends(u8, bool),
    AttemptFails(u32, u32),
    Resolves { back: u32, index: u32, how: usize },
    Hears(u32),
    Waits(u64),
}

pub(super) const NAMES: [&str; 17] = [
    "find",
    "pay",
    "news",
    "poll",
    "nope",
    "price",
    "transfer",
    "stock",
    "book",
    "mail",
    "give",
    "ask_user",
    "file",
    "researcher",
    "writer",
    "coder",
    "clerk",
];
pub(super) const ARGUMENTS: [&str; 8] = [
    "{}",
    r#"{"q":"a"}"#,
    r#"{"q":7}"#,
    "{\"q\":",
    "",
    r#"{"question":"Which?"}"#,
    r#"{"goal":"Go."}"#,
    r#"{"goal":"Stay."}"#,
];
const TEXTS: [&str; 4] =
    ["{\"q\":1}", "The answer.", "", r#"<tool_call>{"name":"find","arguments":{}}</tool_call>"#];

pub(super) static SHAPE: LazyLock<AnswerShape> = LazyLock::new(|| {
    let schema = json!({ "type": "object", "required": ["q"] }).into();
    AnswerShape::compile(&AnswerSpec::new(Arc::new(AnswerSchema { name: "q".into(), schema }))).unwrap()
});

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = prop::collection::vec((0..NAMES.len(), 0..ARGUMENTS.len()), 1..6).prop_map(Step::Asks);
    let end = (0..6u32, 0..8usize, prop::bool::weighted(0.1)).prop_map(|(index, how, stale)| Step::Ends {
        index,
        how,
        stale,
    });
    let step = prop_oneof![
        2 => prop::sample::select(&TEXTS[1..]).prop_map(Step::Says),
        1 => Just(Step::Says(TEXTS[0])),
        1 => Just(Step::CutsOff),
        10 => ask,
        30 => end,
        5 => (0..6u32).prop_map(Step::Unparks),
        5 => (0..6u32).prop_map(Step::Gives),
        12 => (0..6u32, 1..4u32, 0..8usize)
            .prop_map(|(index, attempt, how)| Step::ChildEnds { index, attempt, how }),
        1 => prop_oneof![
            Just(Step::Refuses),
            Just(Step::ModelFails),
            (0..NAMES.len()).prop_map(Step::RejectsTool),
            Just(Step::Cancels),
            (any::<u8>(), any::<bool>()).prop_map(|(calls, model)| Step::Suspends(calls, model)),
            Just(Step::Timer(RunTimer::WallClock)),
            Just(Step::Timer(RunTimer::Settle)),
        ],
        1 => Just(Step::Overflows),
        3 => any::<bool>().prop_map(Step::Summarises),
        3 => (0..5000u64).prop_map(Step::Waits),
        3 => (0..40u32).prop_map(Step::Hears),
        3 => (0..6u32, 1..4u32).prop_map(|(index, attempt)| Step::AttemptFails(index, attempt)),
        6 => (0..4u32, 0..6u32, 0..8usize).prop_map(|(back, index, how)| Step::Resolves { back, index, how }),
    ];
    prop::collection::vec(step, 1..80)
}

const LONG: &str = include_str!("properties.rs");

pub(super) fn verdict(how: usize) -> Result<&'static str, Failure> {
    match how {
        0 => Ok("fine"),
        1 => Ok(LONG),
        2 => Err(Failure::not_found("Not there.")),
        3 => Err(Failure::unavailable("Down.")),
        4 => Err(Failure::crashed("Broke.")),
        5 => Err(Failure::outcome_unknown("Perhaps.")),
        6 => Err(Failure::cancelled("Stopped.").effect(EffectState::Unknown)),
        _ => Err(Failure::unauthenticated("Key refused.")),
    }
}

/// How a child may end.
pub(super) fn child_end(how: usize) -> Box<Outcome> {
    let failed = |code| StopReason::ModelFailed { code, attempts: 2 };
    let (reason, text) = match how {
        0 | 1 => (StopReason::Completed, Some("Done.")),
        2 => (StopReason::EmptyResponse, None),
        3 => (StopReason::LimitReached(LimitKind::Turns), Some("Half.")),
        4 => (failed(FailureCode::Unauthenticated), Some("401")),
        5 => (failed(FailureCode::Unavailable), None),
        6 => (StopReason::ModelRefusal, Some("No.")),
        _ => (StopReason::Cancelled { by: "its parent".into() }, None),
    };
    let mut outcome = delegation::outcome(reason, text, 300);
    outcome.totals.effects = u32::from(how % 4 == 1);
    outcome
}

fn take(scene: &mut Scene, step: Step) {
    match step {
        Step::ChildEnds { index, attempt, how } => {
            let call = CallKey { turn: scene.turn, index };
            scene.on(RunEvent::ChildEnded { call, attempt, outcome: child_end(how) })
        }
        Step::Says(text) => scene.says(text),
        Step::Refuses => scene.reply(ModelReply { refusal: Some("No.".into()), ..ModelReply::text("") }),
        Step::CutsOff => scene.reply(ModelReply { finish: Finish::Length, ..ModelReply::text("Half") }),
        Step::Asks(calls) => {
            let calls: Vec<_> =
                calls.into_iter().map(|(name, text)| (NAMES[name], ARGUMENTS[text])).collect();
            scene.asks(&calls)
        }
        Step::Ends { index, how, stale: false } => {
            scene.out_for = (how % 2 == 1).then(|| Duration::from_secs(1));
            scene.ends(index, verdict(how))
        }
        Step::Ends { index, how, stale: true } => {
            let turn = scene.turn;
            scene.turn = turn.saturating_sub(1);
            scene.ends(index, verdict(how));
            scene.turn = turn;
            scene
        }
        Step::Gives(index) => {
            let call = CallKey { turn: scene.turn, index };
            scene.on(RunEvent::InputGiven { call, text: "so".into() })
        }
        Step::ModelFails => {
            let (turn, model) = (scene.turn, scene.model);
            let failure = Failure::unavailable("Down.");
            scene.on(RunEvent::ModelFailed { turn, model, failure, attempts: 3 })
        }
        Step::RejectsTool(name) => {
            let (turn, model) = (scene.turn, scene.model);
            let failure = Failure::invalid_arguments("No.").rejects_tool(NAMES[name]);
            scene.on(RunEvent::ModelFailed { turn, model, failure, attempts: 1 })
        }
        Step::Overflows => {
            let (turn, model) = (scene.turn, scene.model);
            let failure = Failure::too_large("Too long.");
            scene.on(RunEvent::ModelFailed { turn, model, failure, attempts: 1 })
        }
        Step::Summarises(works) => scene.summarises(works.then_some("It was found.")),
        Step::Timer(timer) => scene.on(RunEvent::TimerFired { timer }),
        Step::Unparks(index) => scene.unparks(index),
        Step::Cancels => scene.on(RunEvent::CancelRequested { by: "a test".into() }),
        Step::Suspends(calls, model) => {
            let turn = scene.turn;
            let calls = (0..8).filter(|index| calls >> index & 1 == 1).map(|index| CallKey { turn, index });
            scene.on(RunEvent::Suspended { calls: calls.collect(), model })
        }
        Step::AttemptFails(index, attempt) => {
            let call = CallKey { turn: scene.turn, index };
            let (by, failure) = (scene.by.get(&call).cloned(), Failure::unavailable("Down."));
            let wait = Duration::from_millis(50);
            scene.on(RunEvent::AttemptFailed { call, by, attempt, failure, wait })
        }
        Step::Resolves { back, index, how } => {
            let call = CallKey { turn: scene.turn.saturating_sub(back), index };
            scene.resolves(call, verdict(how))
        }
        Step::Hears(letter) => scene.hears(letter, "writer", &format!("message {letter}")),
        Step::Waits(ms) => scene.wait(Duration::from_millis(ms)),
    };
}

/// Plays what a world that behaves would do, until the run is over.
fn play_out(scene: &mut Scene) {
    for _ in 0..600 {
        if scene.machine.outcome().is_some() {
            return;
        }
        for index in 0..6 {
            scene.unparks(index).ends(index, Ok("late but fine"));
            take(scene, Step::Gives(index));
            for attempt in 1..=4 {
                take(scene, Step::ChildEnds { index, attempt, how: 0 });
            }
        }
        scene.summarises(None).says("{\"q\":1}");
        scene.on(RunEvent::TimerFired { timer: RunTimer::Settle });
    }
    panic!("the run never ends: {:?}", scene.seen);
}

/// Replays the run and looks at each dispatch with the calls before it that may have happened.
fn nothing_is_done_twice(scene: &Scene) {
    let mut machine = RunMachine::new(scene.machine.run(), Arc::clone(&scene.machine.spec));
    let (mut open, mut unsure) = (BTreeMap::new(), BTreeMap::new());
    let mut known = BTreeSet::new();
    for (at, event) in &scene.events {
        if let RunEvent::OutcomeResolved { call, record, .. } = event
            && unsure.values().any(|first| first == call)
            && !matches!(&record.verdict, CallVerdict::Failed(failure) if failure.effect == EffectState::Unknown)
            && known.insert(*call)
            && matches!(&record.verdict, CallVerdict::Failed(failure) if failure.effect == EffectState::None)
        {
            unsure.retain(|what: &String, first| {
                first != call || what.starts_with("transfer") || what.starts_with("book")
            });
        }
        if let RunEvent::CallEnded {
            call,
            record: CallRecord { verdict: CallVerdict::Failed(failure), by, .. },
        } = event
            && let Some((tool, arguments)) = open.get(call)
            && by.as_ref().unwrap_or(tool) == tool
            && failure.effect == EffectState::Unknown
        {
            unsure.entry(format!("{tool} {arguments}")).or_insert(*call);
            open.remove(call);
        }
        if let RunEvent::CallEnded { call, .. } = event {
            open.remove(call);
        }
        for effect in machine.on(*at, event.clone()) {
            let RunEffect::Dispatch { call, tool, arguments, key_of, .. } = effect else { continue };
            let first = unsure.get(&format!("{tool} {arguments}")).copied();
            match &*tool {
                "pay" | "give" | "mail" | "file" => assert_eq!(first, None, "{call} {tool} {arguments}"),
                "transfer" | "book" => assert!(key_of == call || first == Some(key_of), "{call} {key_of}"),
                _ => assert_eq!(key_of, call),
            }
            open.insert(call, (tool, arguments));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_run_keeps_its_promises_under_any_order_of_events(
        steps in steps(),
        window in prop::option::of(1500..20_000u64),
        shaped in any::<bool>(),
        attended in any::<bool>(),
    ) {
        let limits = RunLimits { turns: 20, tool_calls: 60, ..RunLimits::default() };
        let attendance = if attended { Attendance::Attended } else { Attendance::Unattended };
        let mut scene = Scene::attended(limits, PanicPolicy::Observe, attendance, |spec| {
            spec.answer = shaped.then(|| SHAPE.clone());
            Arc::make_mut(&mut spec.model).context_window = window.map(Tokens);
            delegation::link_up(spec);
        });
        for step in steps {
            take(&mut scene, step);
            scene.history_is_valid();
        }
        play_out(&mut scene);
        scene.replay_is_equal();
        nothing_is_done_twice(&scene);

        let told = scene.seen.iter().filter(|line| line.starts_with("nudge ")).flat_map(|line| line.lines());
        let told: Vec<&str> = told.filter(|line| line.starts_with(r#"{"from":"writer""#)).collect();
        prop_assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), told.len(), "no message is told twice");

        let lines = |start: &'static str| scene.seen.iter().filter(move |line| line.starts_with(start));
        prop_assert_eq!(lines("end ").count(), 1, "exactly one stop reason");
        prop_assert!(scene.seen.last().unwrap().starts_with("end "), "nothing after the end");
        let run: BTreeSet<&str> = lines("run ").filter_map(|line| line.split(' ').nth(1)).collect();
        prop_assert_eq!(run.len(), lines("run ").count(), "no call is dispatched twice but after it was parked");
        if scene.seen.iter().any(|line| line.starts_with("trim Summarised") || line.starts_with("trim Dropped")) {
            return Ok(());
        }
        let asked = scene.machine.history().messages().iter().map(|message| match message {
            Message::Assistant { calls, .. } => calls.len(),
            _ => 0,
        });
        let (totals, asked) = (scene.machine.totals(), asked.sum::<usize>());
        let counted = usize::try_from(totals.tool_calls).unwrap();
        // One that was given up counts with all that it held, other children and calls included.
        let is_given_up = usize::try_from(totals.children).unwrap() > lines("child ").count();
        prop_assert!(
            if is_given_up { asked < counted } else { asked == counted },
            "every call that was asked for is in the history, answered: {} of {}", asked, counted
        );
    }
}
