use expect_test::expect;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

use super::*;

/// What happened to a child, in words.
fn fate(restart: Restart, strategy: Strategy, ending: impl FnOnce(&mut World)) -> &'static str {
    let mut world = World::new(rules(strategy, 5, 60), &[with("a", restart)]);
    ending(&mut world);
    match (world.ended.as_ref(), &*world.states()) {
        (Some(_), _) => "escalated",
        (None, "") => "forgotten",
        (None, "a down") => "down",
        (None, "a running") => "restarted",
        (None, "a restarting") => "waiting",
        (None, other) => panic!("{other}"),
    }
}

#[test]
fn sup_04_restart_types_by_endings() {
    type Ending = fn(&mut World);
    let terminal = |world: &mut World| world.exit("a", ExitReason::Terminal { cause: "revoked".into() });
    let endings: [(&str, Ending); 9] = [
        ("normal stop", |world| world.exit("a", ExitReason::Normal)),
        ("gave up in order", |world| world.exit("a", ExitReason::GaveUp { cause: "".into() })),
        ("stop by supervisor", |world| world.terminate("a")),
        ("kill by a third party", |world| world.exit("a", ExitReason::Killed)),
        ("panic or error", |world| world.crash("a")),
        ("terminal error", terminal),
        ("task cancelled", |world| world.exit("a", ExitReason::Cancelled)),
        ("restart does not start", |world| {
            world.broken.insert("a");
            world.exit("a", ExitReason::Killed);
        }),
        ("killed during backoff", |world| {
            world.exit("a", ExitReason::Killed);
            if world.machine.key("a").is_some() {
                world.terminate("a");
            }
        }),
    ];
    let mut table = String::new();
    for (name, ending) in endings {
        table += &format!("{name:24}");
        for restart in [Restart::Permanent, Restart::Transient, Restart::Temporary] {
            table += &format!("{:11}", fate(restart, Strategy::OneForOne, ending));
        }
        table = table.trim_end().to_owned() + "\n";
    }
    expect![[r#"
        normal stop             restarted  down       forgotten
        gave up in order        restarted  down       forgotten
        stop by supervisor      down       down       forgotten
        kill by a third party   restarted  restarted  forgotten
        panic or error          restarted  restarted  forgotten
        terminal error          escalated  escalated  forgotten
        task cancelled          restarted  restarted  forgotten
        restart does not start  waiting    waiting    forgotten
        killed during backoff   down       down       forgotten
    "#]]
    .assert_eq(&table);
    assert_eq!(fate(Restart::Transient, Strategy::Dynamic, endings[0].1), "forgotten");
    assert_eq!(fate(Restart::Permanent, Strategy::Dynamic, endings[2].1), "forgotten");
    assert_eq!(fate(Restart::Permanent, Strategy::Dynamic, endings[4].1), "restarted");
}

#[derive(Clone, Debug)]
enum Step {
    Exit(u8, u8),
    Started(u8),
    BreakStarts(u8, bool),
    Terminate(u8),
    Restart(u8),
    Delete(u8),
    Start(u8, u8),
    Pass(u16),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let child = 0_u8..4;
    let step = prop_oneof![
        4 => (child.clone(), 0_u8..6).prop_map(|(child, reason)| Step::Exit(child, reason)),
        6 => child.clone().prop_map(Step::Started),
        1 => (child.clone(), any::<bool>()).prop_map(|(child, broken)| Step::BreakStarts(child, broken)),
        1 => child.clone().prop_map(Step::Terminate),
        1 => child.clone().prop_map(Step::Restart),
        1 => child.clone().prop_map(Step::Delete),
        1 => (child, 0_u8..3).prop_map(|(child, restart)| Step::Start(child, restart)),
        2 => (0_u16..40_000).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..80)
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn restart_of(n: u8) -> Restart {
    [Restart::Permanent, Restart::Transient, Restart::Temporary][usize::from(n % 3)]
}

/// A child ends if it can; one that was told to stop does so for its own reason as well.
fn exit(world: &mut World, name: &str, reason: u8) {
    let Some(key) = world.machine.key(name).filter(|key| world.alive.contains_key(key)) else { return };
    let stops = world.machine.children().find(|child| child.key == key).unwrap().state;
    let reason = match reason {
        0 => ExitReason::Normal,
        1 => ExitReason::Killed,
        2 => ExitReason::Cancelled,
        3 if stops == ChildState::Stopping => ExitReason::Terminal { cause: "".into() },
        _ => failed("crashed"),
    };
    world.exit(name, reason);
}

fn take(world: &mut World, step: &Step) {
    let name = |n: &u8| NAMES[usize::from(*n)];
    match step {
        Step::Exit(child, reason) => exit(world, name(child), *reason),
        Step::Started(child) => {
            if let Some(key) = world.machine.key(name(child)).filter(|key| world.alive.contains_key(key)) {
                let incarnation = world.alive[&key];
                world.on(SupervisorEvent::Started { child: key, incarnation });
            }
        }
        Step::BreakStarts(child, true) => drop(world.broken.insert(name(child))),
        Step::BreakStarts(child, false) => drop(world.broken.remove(name(child))),
        Step::Terminate(child) => world.terminate(name(child)),
        Step::Restart(child) => world.restart(name(child)),
        Step::Delete(child) => world.delete(name(child)),
        Step::Start(child, restart) => world.start(with(name(child), restart_of(*restart))),
        Step::Pass(ms) => world.pass(Duration::from_millis(u64::from(*ms))),
    }
}

proptest! {
    /// Whatever happens: no child runs twice (the world asserts it), every request is answered once,
    /// and from any state the world can get to, everything comes to rest: all that shall run runs,
    /// and a shutdown ends.
    #[test]
    fn nothing_is_lost_whatever_the_order(strategy in 0_usize..4, kinds in any::<[u8; 3]>(), steps in steps()) {
        let strategy =
            [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Dynamic][strategy];
        let children: Vec<_> =
            NAMES.iter().zip(kinds).map(|(name, kind)| with(name, restart_of(kind))).collect();
        let mut world = World::try_new(rules(strategy, 30, 900), &children).unwrap();
        world.pace = Pace::Slow;
        world.on(SupervisorEvent::Begun);
        let requests_from = world.next;
        for step in &steps {
            take(&mut world, step);
        }
        world.broken.clear();
        for _ in 0..40 {
            for (n, name) in (0..).zip(NAMES) {
                take(&mut world, &Step::Started(n));
                let stops = world.machine.children().any(|child| &*child.id == name && child.state == ChildState::Stopping);
                if stops { world.exit(name, ExitReason::Normal); }
            }
            world.pass(secs(31));
        }
        if world.ended.is_none() {
            let restless = world.machine.children().find(|child| {
                !matches!(child.state, ChildState::Running | ChildState::Down)
            });
            prop_assert_eq!(restless, None);
        }
        let answers = world.log.iter().filter(|line| {
            !["start ", "stop ", "wait ", "ready", "end"].iter().any(|word| line.starts_with(word))
        });
        prop_assert_eq!(answers.count() as u64, world.next - requests_from);
        world.pace = Pace::Prompt;
        world.on(SupervisorEvent::ShutdownRequested);
        prop_assert!(world.ended.is_some());
        prop_assert_eq!(world.counts(), [0; 4]);
    }

    /// The decision about one failure against the rules as one would write them on a napkin.
    #[test]
    fn it_decides_as_the_table_says(
        strategy in 0_usize..4,
        kinds in proptest::collection::vec(0_u8..3, 1..5),
        victim in any::<prop::sample::Index>(),
        abnormal in any::<bool>(),
    ) {
        let strategy =
            [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Dynamic][strategy];
        let ids: Vec<String> = (0..kinds.len()).map(|n| format!("c{n}")).collect();
        let children: Vec<_> =
            ids.iter().zip(&kinds).map(|(id, kind)| with(id, restart_of(*kind))).collect();
        let mut world = World::new(rules(strategy, 5, 60), &children);
        let victim = victim.index(kinds.len());
        world.exit(&ids[victim], if abnormal { failed("x") } else { ExitReason::Normal });

        let restarts = match restart_of(kinds[victim]) {
            Restart::Permanent => true,
            Restart::Transient => abnormal,
            Restart::Temporary => false,
        };
        let concerned = |n: usize| n == victim || match strategy {
            Strategy::OneForAll => true,
            Strategy::RestForOne => n > victim,
            Strategy::OneForOne | Strategy::Dynamic => false,
        };
        let mut expected = Vec::new();
        for (n, id) in ids.iter().enumerate() {
            let kind = restart_of(kinds[n]);
            expected.push(match (restarts && concerned(n), n == victim, kind) {
                (true, _, Restart::Temporary) => continue,
                (true, ..) => format!("{id} running 2"),
                (false, false, _) => format!("{id} running 1"),
                (false, true, Restart::Temporary) => continue,
                (false, true, _) if strategy == Strategy::Dynamic => continue,
                (false, true, _) => format!("{id} down 1"),
            });
        }
        let real: Vec<_> = world.machine.children().map(|child| {
            let state = if child.state == ChildState::Down { "down" } else { "running" };
            format!("{} {state} {}", child.id, child.starts)
        }).collect();
        prop_assert_eq!(real, expected);
    }
}
