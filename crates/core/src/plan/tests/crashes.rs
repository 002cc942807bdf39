//! Whatever the plan, the order of ends and the crashes, it comes to its one end.

use super::*;

fn plans() -> impl Strategy<Value = Plan> {
    let leaf = prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(Plan::agent);
    let rule = || prop::sample::select(vec![accepted(), Rule::Equals("fine".into())]);
    let joins = vec![Join::All, Join::FirstSuccess, Join::Quorum(1), Join::BestEffort];
    leaf.prop_recursive(3, 20, 3, move |part| {
        prop_oneof![
            prop::collection::vec(part.clone(), 1..4).prop_map(Plan::Sequence),
            (prop::collection::vec(part.clone(), 1..4), prop::sample::select(joins.clone()), 1..4u32)
                .prop_map(|(of, join, at_once)| Plan::Parallel(Parallel { of, join, at_once })),
            (part.clone(), rule(), part.clone(), part.clone())
                .prop_map(|(by, rule, then, otherwise)| Plan::route_by(by, [(rule, then)], otherwise)),
            (part.clone(), rule(), 1..4u32).prop_map(|(body, rule, max)| body.until(rule, max)),
            (part.clone(), part, rule(), 1..4u32)
                .prop_map(|(produce, evaluate, rule, max)| produce.improved_by(evaluate, rule, max)),
        ]
    })
}

/// A world in which children outlive the process of their parent.
struct World {
    scene: Scene,
    /// Every child that was ever started, by its id.
    children: BTreeMap<RunId, u32>,
    /// Those whose end is owed, and whether they were told to stop.
    due: BTreeMap<u32, bool>,
    ends: u32,
    settles: bool,
}

impl World {
    fn feed(&mut self, event: RunEvent) {
        let Scene { machine, now, events, .. } = &mut self.scene;
        events.push(Recorded { at: *now, event: event.clone() });
        for effect in machine.on(*now, event) {
            match effect {
                RunEffect::Delegate(Delegation { call, run, limits, .. }) => {
                    let known = self.children.insert(run, call.turn);
                    assert!(known.is_none_or(|known| known == call.turn), "one run for each step");
                    assert!(limits.tokens.0 > 0);
                    self.due.entry(call.turn).or_default();
                }
                RunEffect::CancelChild { call, .. } => {
                    self.due.entry(call.turn).and_modify(|stops| *stops = true);
                }
                RunEffect::StartTimer { timer: RunTimer::Settle, .. } => self.settles = true,
                RunEffect::End => self.ends += 1,
                _ => {}
            }
        }
    }

    fn crash(&mut self) {
        let (run, spec) = (self.scene.machine.run(), Arc::clone(&self.scene.machine.spec));
        let recovered = PlanMachine::recover(run, spec, self.scene.events.clone()).unwrap();
        assert_eq!(recovered, self.scene.machine);
        let owed: BTreeSet<u32> = std::mem::take(&mut self.due).into_keys().collect();
        self.feed(RunEvent::Interrupted {});
        let found: BTreeSet<u32> = self.due.keys().copied().collect();
        assert_eq!(found, owed, "everything that was under way is found again, and nothing else");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_ends_once_and_starts_every_step_once_whatever_happens(
        plan in plans(),
        chances in prop::collection::vec((0..100usize, 0..5usize, prop::bool::weighted(0.3)), 0..80),
    ) {
        let limits = RunLimits { children: 60, ..RunLimits::default() };
        let redactor = Redactor::new([], &[]).unwrap();
        let spec = Arc::new(PlanSpec { name: "report".into(), plan, agents: faces(), redactor });
        let machine = PlanMachine::new(RunId::from_u128(1), spec);
        let scene = Scene { machine, now: Timestamp::ZERO, events: Vec::new(), seen: Vec::new() };
        let (children, due) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World { scene, children, due, ends: 0, settles: false };
        world.feed(started(limits));
        let well = [(0, 0, false)].into_iter().cycle();
        for (which, how, crashes) in chances.into_iter().chain(well).take(400) {
            if world.scene.machine.outcome().is_some() {
                break;
            }
            world.scene.now = world.scene.now + Duration::from_millis(10);
            if crashes {
                world.crash();
            }
            if which == 99 {
                world.feed(RunEvent::CancelRequested { by: "a test".into() });
                continue;
            }
            prop_assert!(!world.due.is_empty(), "it waits for something that nobody does");
            let (step, stops) = world.due.iter().nth(which % world.due.len()).map(|(a, b)| (*a, *b)).unwrap();
            world.due.remove(&step);
            let event = match how {
                _ if stops => ended(step, StopReason::Cancelled { by: "its parent".into() }, None),
                0 | 1 => ended(step, StopReason::Completed, Some("Accepted.")),
                2 => ended(step, StopReason::Completed, Some("fine")),
                3 => ended(step, StopReason::LimitReached(LimitKind::Turns), Some("Half.")),
                _ => ended(step, StopReason::EmptyResponse, None),
            };
            world.feed(event);
        }
        prop_assert_eq!(world.ends, 1, "exactly one stop reason");
        prop_assert!(world.due.is_empty(), "nobody is left behind");
        let totals = world.scene.machine.totals();
        prop_assert_eq!(usize::try_from(totals.children).unwrap(), world.children.len());
        prop_assert!(totals.children <= 60);
    }
}
