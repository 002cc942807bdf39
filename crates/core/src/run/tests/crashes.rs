//! The process that drives a run may come to its end after every event. Another goes on.

use proptest::prelude::*;

use super::properties::{ARGUMENTS, NAMES, SHAPE, child_end, verdict};
use super::snapshots::{restored, snapshot};
use super::*;

/// A world that carries out what a run wants, one thing at a time, and keeps its books.
#[derive(Clone)]
struct World {
    machine: RunMachine,
    now: Timestamp,
    events: Vec<Recorded>,
    /// What is under way and will be answered.
    due: Vec<RunEffect>,
    /// Calls that have their observation.
    answered: BTreeSet<CallKey>,
    /// Attempts that were under way in a process that came to its end, in order.
    lost: Vec<(CallKey, Arc<str>, CallKey)>,
    lost_requests: u32,
    /// Failed attempts of calls under way, since they were last sent out.
    failed: BTreeMap<CallKey, u32>,
    /// Those of processes that came to their end.
    failed_before: u32,
    /// Calls whose tool said that they did not happen, until they are lost again.
    not_happened: BTreeSet<CallKey>,
    /// Every child that was ever started. It outlives the process.
    children: BTreeMap<RunId, (CallKey, u32)>,
    told_to_stop: BTreeSet<RunId>,
    ends: u32,
    /// Whether rounds of calls are gone from the conversation.
    shortened: bool,
    /// Whether each event is also given to a machine that was restored from a snapshot before it.
    restores: bool,
    /// Where a recovery begins.
    snapshot: Option<Snapshot>,
}

/// What chance has the world do next.
type Choice = (usize, usize, usize);

impl World {
    fn start(spec: RunSpec, attendance: Attendance) -> Self {
        let tools = spec.toolbox.names().map(Arc::from).collect();
        let mut world = Self {
            machine: RunMachine::new(RunId::from_u128(1), Arc::new(spec)),
            now: Timestamp::ZERO,
            events: Vec::new(),
            due: Vec::new(),
            answered: BTreeSet::new(),
            lost: Vec::new(),
            lost_requests: 0,
            failed: BTreeMap::new(),
            failed_before: 0,
            not_happened: BTreeSet::new(),
            children: BTreeMap::new(),
            told_to_stop: BTreeSet::new(),
            ends: 0,
            shortened: false,
            restores: true,
            snapshot: None,
        };
        world.feed(RunEvent::RunStarted {
            agent: "a".into(),
            goal: "Do it.".into(),
            limits: RunLimits { turns: 12, tool_calls: 40, ..RunLimits::default() },
            history: History::default(),
            repairs: Vec::new(),
            attendance,
            tools,
            lineage: None,
        });
        world
    }

    fn feed(&mut self, event: RunEvent) {
        assert!(self.machine.waits_for(&event), "{event:?}");
        self.events.push(Recorded { at: self.now, event: event.clone() });
        let restored = self.restores.then(|| {
            let snapshot = snapshot(&self.machine, u64::try_from(self.events.len()).unwrap() - 1);
            let mut restored = restored(&self.machine, &snapshot).unwrap();
            assert_eq!(restored, self.machine);
            if snapshot.seq % 5 == 1 {
                self.snapshot = Some(snapshot);
            }
            (restored.on(self.now, event.clone()), restored)
        });
        let effects = self.machine.on(self.now, event);
        if let Some((same_effects, same_machine)) = restored {
            assert_eq!((&same_effects, &same_machine), (&effects, &self.machine));
        }
        for effect in effects {
            self.take(effect);
        }
        history_is_valid(self.machine.history());
    }

    fn take(&mut self, effect: RunEffect) {
        match &effect {
            RunEffect::CallModel { turn, .. } => {
                let replied = self.events.iter().any(
                    |Recorded { event, .. }| matches!(event, RunEvent::ModelReplied { turn: of, .. } if of == turn),
                );
                assert!(!replied, "turn {turn} is asked for again");
            }
            RunEffect::Dispatch { call, tool, key_of, .. } => self.may_dispatch(*call, tool, *key_of),
            RunEffect::Verify(Verification { call, tool, .. }) => {
                assert!(!self.answered.contains(call), "{call}");
                assert!(self.lost.iter().any(|(lost, by, _)| (lost, by) == (call, tool)), "{call}");
            }
            RunEffect::Delegate(Delegation { call, attempt, run, lineage, .. }) => {
                assert!(!self.answered.contains(call), "{call} is given to another run again");
                assert_eq!((lineage.parent, lineage.depth()), (self.machine.run(), 2));
                let known = self.children.insert(*run, (*call, *attempt));
                assert!(known.is_none_or(|known| known == (*call, *attempt)), "one run for each try");
            }
            RunEffect::CancelChild { call, run, .. } => {
                assert!(self.children.contains_key(run), "{call}");
                self.told_to_stop.insert(*run);
                if self.due.iter().any(|due| child_of(due) == Some(*run)) {
                    return;
                }
            }
            RunEffect::Park { call, .. } => assert!(!self.answered.contains(call), "{call}"),
            RunEffect::Report(Progress::InputRequested(Question { call, .. })) => {
                assert!(!self.answered.contains(call), "{call}");
            }
            RunEffect::Report(Progress::CallEnded { call, .. }) => {
                assert!(self.answered.insert(*call), "{call} is answered twice");
                return;
            }
            RunEffect::Report(Progress::ContextTrimmed { trim, .. }) => {
                self.shortened |= !matches!(trim, Trim::Shortened { .. });
                return;
            }
            RunEffect::CancelModel { .. } => return self.due.retain(|due| !is_request(due)),
            RunEffect::End => {
                self.ends += 1;
                return;
            }
            RunEffect::StartTimer { timer: RunTimer::Settle, .. } | RunEffect::Summarise { .. } => {}
            RunEffect::StartTimer { .. } | RunEffect::CancelCall { .. } | RunEffect::Report(_) => return,
        }
        self.due.push(effect);
    }

    /// Whether nothing is done twice by this dispatch.
    fn may_dispatch(&self, call: CallKey, tool: &Arc<str>, key_of: CallKey) {
        assert!(!self.answered.contains(&call), "{call} of `{tool}` is asked for again");
        for (of, lost, key) in self.lost.iter().filter(|(of, ..)| *of == call) {
            match self.machine.spec.toolbox.get(lost).unwrap().effect {
                Effect::ReadOnly | Effect::Idempotent => {}
                Effect::Keyed => assert_eq!((tool, key_of), (lost, *key), "{of}"),
                Effect::Verifiable if self.not_happened.contains(of) => {}
                Effect::Verifiable | Effect::Once => panic!("{of} may have happened, and is done again"),
            }
        }
    }

    /// The process lets go of the run in good order, and after a while another takes it. The bits of
    /// `begun` say what of that which was due had been begun.
    fn suspend(&mut self, begun: usize, after: Duration) {
        let failed: u32 = self.failed.values().sum();
        self.forget_answered();
        let (mut calls, mut model, mut fresh) = (Vec::new(), false, Vec::new());
        for (n, due) in std::mem::take(&mut self.due).into_iter().enumerate() {
            let is_begun = begun >> (n % 8) & 1 == 1;
            match &due {
                RunEffect::Dispatch { call, .. } | RunEffect::Verify(Verification { call, .. })
                    if is_begun =>
                {
                    calls.push(*call);
                }
                RunEffect::Dispatch { call, .. } => {
                    self.failed_before += self.failed.remove(call).unwrap_or_default();
                    fresh.push(due);
                    continue;
                }
                RunEffect::Verify(_) => {
                    fresh.push(due);
                    continue;
                }
                due if is_request(due) && is_begun => model = true,
                due if is_request(due) => {
                    fresh.push(due.clone());
                    continue;
                }
                _ => {}
            }
            self.due.push(due);
        }
        let RunTotals { model_attempts, tool_attempts, .. } = *self.machine.totals();
        let lost = (self.lost.len(), self.lost_requests);
        let begins_again = !matches!(self.machine.phase, Phase::Settling { .. });
        self.feed(RunEvent::Suspended { calls, model });
        self.crash(after);
        let totals = self.machine.totals();
        assert_eq!(totals.model_attempts, model_attempts + self.lost_requests - lost.1);
        let lost_calls = u32::try_from(self.lost.len() - lost.0).unwrap();
        let charged = tool_attempts + lost_calls + failed;
        assert_eq!(totals.tool_attempts, charged, "only what was under way is charged");
        if begins_again && self.now < self.machine.deadline() {
            for effect in fresh {
                // Which tools are on offer changes with the time.
                let is_due = self.due.iter().any(|due| is_same(due, &effect))
                    || is_request(&effect) && self.due.iter().any(is_request);
                assert!(is_due, "{effect:?} was not begun, and is forgotten");
            }
        }
    }

    /// The process comes to its end, and after a while another reads the journal.
    fn crash(&mut self, after: Duration) {
        let (run, spec) = (self.machine.run(), Arc::clone(&self.machine.spec));
        let mut recovery = Recovery::begin(run, Arc::clone(&spec), self.snapshot.as_ref());
        let tail = self.events.iter().skip(usize::try_from(recovery.seq()).unwrap());
        tail.for_each(|event| recovery.fold(event.clone()).unwrap());
        let recovered = recovery.finish().unwrap();
        assert_eq!(RunMachine::recover(run, spec, self.events.clone()).unwrap(), recovered);
        assert_eq!((&recovered, recovered.at()), (&self.machine, self.machine.at()));
        self.machine = recovered;
        self.now = self.now + after;
        let in_time = self.now < self.machine.deadline();
        for due in std::mem::take(&mut self.due) {
            match due {
                RunEffect::Dispatch { call, tool, key_of, .. } => {
                    self.failed_before += self.failed.remove(&call).unwrap_or_default();
                    self.not_happened.remove(&call);
                    self.lost.push((call, tool, key_of));
                }
                due if is_request(&due) && in_time => self.lost_requests += 1,
                _ => {}
            }
        }
        self.feed(RunEvent::Interrupted {});
        let waits_for_children = self.due.iter().any(|due| child_of(due).is_some());
        assert!(in_time || self.machine.outcome().is_some() || waits_for_children, "its time is over");
    }

    /// Forgets the waits and questions of calls that a run which winds down has answered itself.
    fn forget_answered(&mut self) {
        let answered = &self.answered;
        self.due.retain(|due| match due {
            RunEffect::Report(Progress::InputRequested(Question { call, .. }))
            | RunEffect::Park { call, .. } => !answered.contains(call),
            _ => true,
        });
    }

    /// One thing that is under way is answered, or somebody wants the run to stop.
    fn step(&mut self, (which, how, what): Choice) {
        self.now = self.now + Duration::from_millis(100);
        self.forget_answered();
        if how == 99 {
            return match what % 2 {
                0 => self.feed(RunEvent::CancelRequested { by: "a test".into() }),
                _ => self.feed(RunEvent::TimerFired { timer: RunTimer::WallClock }),
            };
        }
        if how == 97 {
            let [back, index] = [what % 3, which % 4].map(|n| u32::try_from(n).unwrap());
            let call = CallKey { turn: self.machine.turn.saturating_sub(back), index };
            let record = CallRecord { attempts: 1, ..record_of(what % 8) };
            let by = ResolvedBy::Late { epoch: 1 };
            return self.feed(RunEvent::OutcomeResolved { call, record, by });
        }
        let is_timer = |due: &RunEffect| matches!(due, RunEffect::StartTimer { .. });
        let answers = self.due.iter().filter(|due| !is_timer(due)).count();
        assert!(!self.due.is_empty(), "the run waits for something that nobody does: {:?}", self.machine);
        let choice = if answers == 0 { 0 } else { which % answers };
        self.due.sort_by_key(is_timer);
        let due = self.due.remove(choice);
        let event = self.answer(due.clone(), how, what);
        match &event {
            RunEvent::AttemptFailed { call, .. } => {
                *self.failed.entry(*call).or_default() += 1;
                self.due.push(due);
            }
            RunEvent::CallEnded { call, .. } => drop(self.failed.remove(call)),
            RunEvent::CallVerified { call, verdict: VerifyVerdict::Answered(Verified::NotHappened) } => {
                self.not_happened.insert(*call);
            }
            _ => {}
        }
        self.feed(event);
    }

    fn answer(&self, due: RunEffect, how: usize, what: usize) -> RunEvent {
        match due {
            RunEffect::CallModel { turn, model, .. } => match how {
                0..=69 => RunEvent::ModelReplied { turn, model, reply: calls(how, what), attempts: 1 },
                70..=79 => {
                    let failure = Failure::unavailable("Down.");
                    RunEvent::ModelFailed { turn, model, failure, attempts: 3 }
                }
                80..=83 => {
                    let failure = Failure::too_large("Too long.");
                    RunEvent::ModelFailed { turn, model, failure, attempts: 1 }
                }
                84..=89 => RunEvent::ModelReplied { turn, model, reply: ModelReply::text(""), attempts: 2 },
                _ => {
                    RunEvent::ModelReplied { turn, model, reply: ModelReply::text("{\"q\":1}"), attempts: 1 }
                }
            },
            RunEffect::Summarise { turn, model, .. } => {
                let reply = ModelReply::text(if how < 50 { "It was found." } else { "" });
                RunEvent::SummaryReplied { turn, model, reply, attempts: 1 }
            }
            RunEffect::Dispatch { call, asked, tool, attempts_made, .. } => {
                let by = (asked != tool).then_some(tool);
                let failed = self.failed.get(&call).copied().unwrap_or_default();
                if (85..95).contains(&how) {
                    let (attempt, wait) = (attempts_made + failed + 1, Duration::from_millis(50));
                    let failure = Failure::unavailable("Down.");
                    return RunEvent::AttemptFailed { call, by, attempt, failure, wait };
                }
                let record = record_of(if how < 90 { what % 8 } else { 0 });
                RunEvent::CallEnded { call, record: CallRecord { attempts: failed + 1, by, ..record } }
            }
            RunEffect::Verify(Verification { call, .. }) => {
                let verdict = match how % 4 {
                    0 => VerifyVerdict::Answered(Verified::Happened(ToolOutput::text("It was done."))),
                    1 => VerifyVerdict::Answered(Verified::CannotTell),
                    2 => VerifyVerdict::Answered(Verified::NotHappened),
                    _ => VerifyVerdict::Failed(Failure::unavailable("Down.")),
                };
                RunEvent::CallVerified { call, verdict }
            }
            RunEffect::Delegate(Delegation { run, .. }) | RunEffect::CancelChild { run, .. } => {
                let (call, attempt) = self.children[&run];
                let how = if self.told_to_stop.contains(&run) {
                    7
                } else if how < 90 {
                    what % 8
                } else {
                    0
                };
                RunEvent::ChildEnded { call, attempt, outcome: child_end(how) }
            }
            RunEffect::Park { call, .. } => RunEvent::TimerFired { timer: RunTimer::Unpark(call) },
            RunEffect::Report(Progress::InputRequested(Question { call, .. })) => {
                RunEvent::InputGiven { call, text: "so".into() }
            }
            RunEffect::StartTimer { timer, .. } => RunEvent::TimerFired { timer },
            other => panic!("{other:?} is not answered"),
        }
    }

    /// Goes on as chance has it, and then well, until the run is over.
    fn play_out(&mut self, chances: &[Choice], mut each: impl FnMut(&Self)) {
        let well = [(0, 98, 0)].into_iter().cycle();
        for choice in chances.iter().copied().chain(well).take(1000) {
            if self.machine.outcome().is_some() {
                return self.books();
            }
            each(self);
            self.step(choice);
        }
        panic!("the run never ends");
    }

    /// The books agree with what the run says of itself.
    fn books(&self) {
        assert_eq!(self.ends, 1, "exactly one stop reason");
        let (mut requests, mut attempts, mut asked, mut children) = (self.lost_requests, 0, 0, 0);
        for Recorded { event, .. } in &self.events {
            match event {
                RunEvent::ModelReplied { attempts, reply, .. } => {
                    requests += attempts;
                    asked += reply.calls.len();
                }
                RunEvent::ModelFailed { attempts, .. } | RunEvent::SummaryReplied { attempts, .. } => {
                    requests += attempts;
                }
                RunEvent::CallEnded { record, .. } => attempts += record.attempts,
                RunEvent::ChildEnded { .. } => children += 1,
                _ => {}
            }
        }
        let totals = self.machine.totals();
        assert_eq!(totals.model_attempts, requests);
        let lost = u32::try_from(self.lost.len()).unwrap();
        assert_eq!(totals.children, children, "what each child used is counted once");
        assert_eq!(totals.tool_attempts, attempts + lost + self.failed_before);
        let messages = self.machine.history().messages().iter();
        let in_history = messages.map(|message| match message {
            Message::Assistant { calls, .. } => calls.len(),
            _ => 0,
        });
        let (in_history, tool_calls) =
            (in_history.sum::<usize>(), usize::try_from(totals.tool_calls).unwrap());
        assert!(in_history <= tool_calls && tool_calls <= asked);
        if !self.shortened {
            assert_eq!(in_history, tool_calls, "every call is in the history, answered");
        }
    }
}

/// How a call ended, but for the attempts.
fn record_of(how: usize) -> CallRecord {
    let verdict = match verdict(how) {
        Ok(text) => CallVerdict::Succeeded(ToolOutput::text(text)),
        Err(failure) => CallVerdict::Failed(failure),
    };
    CallRecord { verdict, attempts: 1, waited: Duration::ZERO, stopped_by: None, out_for: None, by: None }
}

/// Whether two effects ask for the same, after however many attempts.
fn is_same(one: &RunEffect, other: &RunEffect) -> bool {
    match (one, other) {
        (
            RunEffect::Dispatch { call, tool, key_of, .. },
            RunEffect::Dispatch { call: call2, tool: tool2, key_of: key_of2, .. },
        ) => (call, tool, key_of) == (call2, tool2, key_of2),
        _ => one == other,
    }
}

fn child_of(effect: &RunEffect) -> Option<RunId> {
    match effect {
        RunEffect::Delegate(Delegation { run, .. }) | RunEffect::CancelChild { run, .. } => Some(*run),
        _ => None,
    }
}

fn is_request(effect: &RunEffect) -> bool {
    matches!(effect, RunEffect::CallModel { .. } | RunEffect::Summarise { .. })
}

/// A reply with up to four calls.
fn calls(how: usize, what: usize) -> ModelReply {
    let call =
        |n: usize| (NAMES[(what / 7 + n * 5) % NAMES.len()], ARGUMENTS[(what + n * how) % ARGUMENTS.len()]);
    asking(&(0..=how % 4).map(call).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn dur_04_a_run_goes_on_after_a_crash_at_any_event_with_one_answer_for_each_call(
        chances in prop::collection::vec((0..8usize, 0..100usize, 0..1000usize), 1..40),
        window in prop::option::of(1500..20_000u64),
        shaped in any::<bool>(),
        attended in any::<bool>(),
        begun in any::<u16>().prop_map(usize::from),
    ) {
        let attendance = if attended { Attendance::Attended } else { Attendance::Unattended };
        let scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |spec| {
            spec.answer = shaped.then(|| SHAPE.clone());
            Arc::make_mut(&mut spec.model).context_window = window.map(Tokens);
            delegation::link_up(spec);
        });
        let mut world = World::start((*scene.machine.spec).clone(), attendance);
        let mut worlds = Vec::new();
        world.play_out(&chances, |world| worlds.push(World { restores: world.events.len() % 4 == 0, ..world.clone() }));
        worlds.push(world);
        for (n, mut world) in worlds.into_iter().enumerate() {
            if world.machine.outcome().is_some() {
                let ended = world.machine.clone();
                world.crash(Duration::from_secs(1));
                prop_assert_eq!(&world.machine, &ended);
                prop_assert!(world.due.is_empty(), "an ended run is owed nothing");
                continue;
            }
            match n % 6 {
                0 => world.crash(Duration::ZERO),
                1 => (0..7).for_each(|_| if world.machine.outcome().is_none() {
                    world.crash(Duration::from_secs(1));
                }),
                2 => {
                    world.crash(Duration::from_secs(1));
                    for choice in chances.iter().rev().take(2) {
                        if world.machine.outcome().is_none() {
                            world.step(*choice);
                        }
                    }
                    world.crash(Duration::from_secs(1));
                }
                3 => world.crash(Duration::from_secs(4000)),
                4 => {
                    world.suspend(begun, Duration::from_secs(1));
                    for choice in chances.iter().rev().take(2) {
                        if world.machine.outcome().is_none() {
                            world.step(*choice);
                        }
                    }
                    if world.machine.outcome().is_none() {
                        world.suspend(begun / 256, Duration::from_secs(1));
                    }
                    if world.machine.outcome().is_none() {
                        world.crash(Duration::from_secs(1));
                    }
                }
                _ => world.suspend(begun, Duration::from_secs(4000)),
            }
            world.play_out(chances.get(n..).unwrap_or_default(), |_| {});
        }
    }
}
