use expect_test::expect;

use super::*;

fn empty(strategy: Strategy, intensity: u32) -> World {
    World::new(rules(strategy, intensity, 3600), &[])
}

fn two(strategy: Strategy, intensity: u32) -> World {
    World::new(rules(strategy, intensity, 3600), &[worker("child1"), worker("child2")])
}

fn gave_up(world: &World) -> bool {
    matches!(world.ended, Some(End::TooManyFailures { .. }))
}

#[test]
fn otp_sup_start_normal() {
    let mut world = World::try_new(rules(Strategy::OneForOne, 2, 3600), &[]).unwrap();
    world.on(SupervisorEvent::Begun);
    world.on(SupervisorEvent::ShutdownRequested);
    expect!["ready, end"].assert_eq(&world.seen());
    assert_eq!(world.ended, Some(End::Requested));
}

#[test]
fn otp_sup_start_fail() {
    let mut world = World::try_new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]).unwrap();
    world.broken.insert("child1");
    world.on(SupervisorEvent::Begun);
    assert!(matches!(world.ended, Some(End::StartFailed { .. })));
}

#[test]
fn otp_sup_start_child_returns_error() {
    let mut world = empty(Strategy::OneForOne, 2);
    world.broken.insert("child1");
    world.start(worker("child1"));
    expect!["start child1, child `child1` did not start: no start"].assert_eq(&world.seen());
    assert_eq!(world.states(), "");
}

#[test]
fn otp_sup_start_child_returns_error_simple() {
    let mut world = empty(Strategy::Dynamic, 2);
    world.broken.insert("child1");
    world.start(worker("child1"));
    assert_eq!(world.states(), "");
}

#[test]
fn otp_sup_start_restart_child_returns_error() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]);
    world.terminate("child1");
    world.broken.insert("child1");
    world.log.clear();
    world.restart("child1");
    expect!["start child1, child `child1` did not start: no start"].assert_eq(&world.seen());
    assert_eq!(world.states(), "child1 down");
}

#[test]
fn otp_sup_start_map() {
    let worker = worker("child1");
    assert_eq!((worker.restart, worker.shutdown), (Restart::Permanent, Shutdown::Within(secs(5))));
    assert_eq!(ChildRules::supervisor("child3").shutdown, Shutdown::Infinite);
}

#[test]
fn otp_sup_flags() {
    assert!(World::try_new(rules(Strategy::OneForOne, 2, 0), &[]).is_err(), "a period of zero");
    assert_eq!(SupervisorRules::default().strategy, Strategy::OneForOne);
}

#[test]
fn otp_sup_stop() {
    // The three ways to stop, told apart to the shell: `sup_stop_infinity`, `_timeout`, `_brutal_kill`.
    let brutal = ChildRules { shutdown: Shutdown::Brutal, ..worker("child3") };
    let children = [ChildRules::supervisor("child1"), worker("child2"), brutal];
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &children);
    world.on(SupervisorEvent::ShutdownRequested);
    expect!["kill child3, stop child2, await child1, end"].assert_eq(&world.seen());
}

#[test]
fn otp_child_adm() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]);
    world.terminate("child1");
    assert_eq!((world.states(), world.counts()), ("child1 down".into(), [1, 0, 0, 1]));
    world.terminate("child1");
    world.restart("child1");
    world.restart("child1");
    world.delete("child1");
    world.terminate("child1");
    world.delete("child1");
    world.restart("child1");
    world.delete("child1");
    world.terminate("child1");
    assert_eq!(world.counts(), [0, 0, 0, 0]);
    world.start(worker("child2"));
    world.start(worker("child2"));
    expect![[r#"
        stop child1
        ok
        ok
        start child1
        ok
        child `child1` is already running
        child `child1` is running: terminate it first
        stop child1
        ok
        ok
        there is no child `child1`
        there is no child `child1`
        there is no child `child1`
        start child2
        ok
        child `child2` is already running"#]]
    .assert_eq(&world.log.join("\n"));
}

#[test]
fn otp_child_adm_simple() {
    let mut world = empty(Strategy::Dynamic, 2);
    for id in ["1", "2"] {
        world.start(worker(id));
    }
    assert_eq!(world.counts(), [2, 2, 0, 2]);
    world.log.clear();
    world.delete("1");
    world.restart("1");
    world.terminate("1");
    world.terminate("1");
    expect![[r#"
        a dynamic supervisor forgets a child that is down: start `1` anew
        a dynamic supervisor forgets a child that is down: start `1` anew
        stop 1
        ok
        there is no child `1`"#]]
    .assert_eq(&world.log.join("\n"));
    assert_eq!(world.counts(), [1, 1, 0, 1]);
}

#[test]
fn otp_permanent_normal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]);
    world.exit("child1", ExitReason::Normal);
    assert_eq!((world.states(), world.counts()), ("child1 running".into(), [1, 1, 0, 1]));
}

#[test]
fn otp_transient_normal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[with("child1", Restart::Transient)]);
    world.exit("child1", ExitReason::Normal);
    assert_eq!((world.states(), world.counts()), ("child1 down".into(), [1, 0, 0, 1]));
}

#[test]
fn otp_temporary_normal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[with("child1", Restart::Temporary)]);
    world.exit("child1", ExitReason::Normal);
    assert_eq!(world.counts(), [0; 4]);
}

fn shutdown() -> ExitReason {
    ExitReason::GaveUp { cause: "its own children failed".into() }
}

#[test]
fn otp_permanent_shutdown() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]);
    world.exit("child1", shutdown());
    assert_eq!(world.counts(), [1, 1, 0, 1]);
}

#[test]
fn otp_transient_shutdown() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[with("child1", Restart::Transient)]);
    for _ in 0..2 {
        world.exit("child1", shutdown());
        assert_eq!((world.states(), world.counts()), ("child1 down".into(), [1, 0, 0, 1]));
        world.restart("child1");
    }
}

#[test]
fn otp_temporary_shutdown() {
    let mut world = empty(Strategy::OneForOne, 2);
    for _ in 0..2 {
        world.start(with("child1", Restart::Temporary));
        world.exit("child1", shutdown());
        assert_eq!(world.counts(), [0; 4]);
    }
}

#[test]
fn otp_permanent_abnormal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[worker("child1")]);
    world.crash("child1");
    assert_eq!(world.counts(), [1, 1, 0, 1]);
}

#[test]
fn otp_transient_abnormal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[with("child1", Restart::Transient)]);
    world.crash("child1");
    assert_eq!(world.counts(), [1, 1, 0, 1]);
}

#[test]
fn otp_temporary_abnormal() {
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &[with("child1", Restart::Temporary)]);
    world.crash("child1");
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_temporary_bystander() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut world =
            World::new(rules(strategy, 2, 300), &[worker("child1"), with("child2", Restart::Temporary)]);
        world.exit("child1", ExitReason::Normal);
        assert_eq!(world.states(), "child1 running");
    }
}

#[test]
fn otp_multiple_restarts() {
    let mut world = World::new(rules(Strategy::OneForOne, 1, 1), &[worker("child1")]);
    for _ in 0..4 {
        world.crash("child1");
        world.pass(Duration::from_millis(2100));
        assert_eq!(world.states(), "child1 running");
    }
    world.terminate("child1");
    world.delete("child1");
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_one_for_one() {
    let mut world = two(Strategy::OneForOne, 2);
    world.crash("child1");
    expect!["start child1"].assert_eq(&world.seen());
    world.crash("child2");
    world.crash("child1");
    assert!(gave_up(&world));
}

#[test]
fn otp_one_for_one_escalation() {
    let mut world = two(Strategy::OneForOne, 4);
    world.broken.insert("child1");
    world.crash("child1");
    world.pass(secs(60));
    assert!(gave_up(&world));
    assert!(world.seen().ends_with("start child1, stop child2, end"));
}

#[test]
fn otp_one_for_all() {
    let mut world = two(Strategy::OneForAll, 2);
    world.crash("child1");
    expect!["stop child2, start child1, start child2"].assert_eq(&world.seen());
    world.crash("child2");
    world.pass(secs(1));
    world.crash("child1");
    assert!(gave_up(&world));
}

#[test]
fn otp_one_for_all_escalation() {
    let mut world = two(Strategy::OneForAll, 4);
    world.broken.insert("child2");
    world.crash("child1");
    world.pass(secs(60));
    assert!(gave_up(&world));
}

#[test]
fn otp_one_for_all_other_child_fails_restart() {
    let mut world = two(Strategy::OneForAll, 3);
    world.broken.insert("child2");
    world.crash("child1");
    expect!["stop child2, start child1, start child2, stop child1, start child1, start child2, wait child2, stop child1"]
        .assert_eq(&world.seen());
    world.broken.clear();
    world.pass(secs(1));
    expect!["start child1, start child2"].assert_eq(&world.seen());
}

#[test]
fn otp_simple_one_for_one() {
    let mut world = empty(Strategy::Dynamic, 2);
    world.start(worker("1"));
    world.start(worker("2"));
    world.crash("1");
    assert_eq!(world.states(), "1 running, 2 running");
    world.crash("2");
    world.crash("1");
    assert!(gave_up(&world));
}

#[test]
fn otp_simple_one_for_one_shutdown() {
    let mut world = empty(Strategy::Dynamic, 2);
    for id in ["1", "2", "3"] {
        world.start(worker(id));
    }
    world.log.clear();
    world.pace = Pace::Slow;
    world.on(SupervisorEvent::ShutdownRequested);
    expect!["stop 1, stop 2, stop 3"].assert_eq(&world.seen());
    for id in ["2", "1", "3"] {
        world.exit(id, ExitReason::Normal);
    }
    expect!["end"].assert_eq(&world.seen());
}

#[test]
fn otp_simple_one_for_one_escalation() {
    let mut world = empty(Strategy::Dynamic, 4);
    world.start(worker("1"));
    world.start(worker("2"));
    world.broken.insert("1");
    world.crash("1");
    world.pass(secs(60));
    assert!(gave_up(&world));
}

#[test]
fn otp_rest_for_one() {
    let children = [worker("child1"), worker("child2"), worker("child3")];
    let mut world = World::new(rules(Strategy::RestForOne, 2, 3600), &children);
    world.crash("child2");
    expect!["stop child3, start child2, start child3"].assert_eq(&world.seen());
    world.crash("child3");
    world.pass(secs(1));
    world.crash("child2");
    assert!(gave_up(&world));
}

#[test]
fn otp_rest_for_one_escalation() {
    let mut world = two(Strategy::RestForOne, 4);
    world.broken.insert("child2");
    world.crash("child1");
    world.pass(secs(60));
    assert!(gave_up(&world));
}

#[test]
fn otp_rest_for_one_other_child_fails_restart() {
    let mut world = two(Strategy::RestForOne, 3);
    world.broken.insert("child2");
    world.crash("child1");
    world.broken.clear();
    world.pass(secs(1));
    let seen = world.seen();
    assert_eq!(seen.matches("start child1").count(), 1, "{seen}");
    assert_eq!(world.states(), "child1 running, child2 running");
}

#[test]
fn otp_tree() {
    let children = [
        ChildRules::supervisor("supchild1"),
        ChildRules::supervisor("supchild2"),
        ChildRules { restart: Restart::Transient, ..ChildRules::supervisor("supchild3") },
    ];
    let mut top = World::new(rules(Strategy::OneForAll, 4, 3600), &children);
    top.terminate("supchild3");
    assert_eq!(top.counts(), [3, 2, 3, 0]);
    top.exit("supchild2", shutdown());
    assert_eq!(top.counts(), [3, 3, 3, 0], "a group restart takes those that were down along");
}

#[test]
fn otp_count_children() {
    let mut world = empty(Strategy::Dynamic, 2);
    for n in 0..1000 {
        world.start(with(&n.to_string(), Restart::Temporary));
    }
    assert_eq!(world.counts(), [1000, 1000, 0, 1000]);
    for n in 0..1000 {
        world.exit(&n.to_string(), ExitReason::Killed);
    }
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_count_children_supervisor() {
    let mut world = empty(Strategy::Dynamic, 2);
    for n in 0..10 {
        world.start(ChildRules { restart: Restart::Temporary, ..ChildRules::supervisor(n.to_string()) });
    }
    assert_eq!(world.counts(), [10, 10, 10, 0]);
}

#[test]
fn otp_count_restarting_children() {
    let mut world = empty(Strategy::Dynamic, 20);
    for id in ["1", "2", "3"] {
        world.start(worker(id));
    }
    world.broken.extend(["1", "2"]);
    world.crash("1");
    assert_eq!(world.counts(), [3, 2, 0, 3]);
    world.crash("2");
    assert_eq!(world.counts(), [3, 1, 0, 3]);
    world.broken.clear();
    world.pass(secs(1));
    assert_eq!(world.counts(), [3, 3, 0, 3]);
}

#[test]
fn otp_do_not_save_child_specs_for_temporary_children() {
    for reason in [ExitReason::Normal, ExitReason::Killed, failed("abnormal")] {
        let mut world = empty(Strategy::OneForOne, 2);
        world.start(with("child", Restart::Temporary));
        world.exit("child", reason);
        world.log.clear();
        world.restart("child");
        expect!["there is no child `child`"].assert_eq(&world.seen());
    }
}

#[test]
fn otp_do_not_save_start_parameters_for_temporary_children() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Dynamic] {
        let mut world = empty(strategy, 2);
        world.start(with("child", Restart::Temporary));
        world.terminate("child");
        assert!(world.names.is_empty(), "the shell was told to forget it");
    }
}

#[test]
fn otp_simple_one_for_one_scale_many_temporary_children() {
    let mut world = empty(Strategy::Dynamic, 2);
    for n in 0..10_000 {
        world.start(with(&n.to_string(), Restart::Temporary));
    }
    for n in 0..10_000 {
        world.terminate(&n.to_string());
    }
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_hanging_restart_loop() {
    let mut world = World::new(rules(Strategy::OneForOne, 8, 60), &[worker("child1")]);
    world.broken.insert("child1");
    world.crash("child1");
    world.log.clear();
    world.restart("child1");
    world.delete("child1");
    world.start(worker("child1"));
    world.start(worker("child2"));
    world.terminate("child1");
    expect![[r#"
        child `child1` is being restarted: ask again, or terminate it first
        child `child1` is being restarted: ask again, or terminate it first
        child `child1` is being restarted: ask again, or terminate it first
        start child2
        ok
        ok"#]]
    .assert_eq(&world.log.join("\n"));
    world.pass(secs(20));
    assert_eq!(world.states(), "child1 down, child2 running");
}

#[test]
fn otp_hanging_restart_loop_rest_for_one() {
    let children = [worker("child1"), worker("child2"), worker("child3")];
    let mut world = World::new(rules(Strategy::RestForOne, 8, 60), &children);
    world.broken.insert("child2");
    world.crash("child2");
    assert_eq!(world.states(), "child1 running, child2 restarting, child3 restarting");
    world.terminate("child2");
    world.pass(secs(20));
    assert_eq!(world.states(), "child1 running, child2 down, child3 running");
}

#[test]
fn otp_hanging_restart_loop_simple() {
    let mut world = empty(Strategy::Dynamic, 8);
    world.start(worker("1"));
    world.broken.insert("1");
    world.crash("1");
    world.terminate("1");
    world.pass(secs(60));
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_order_of_children() {
    let ids: Vec<String> = (1..=5).map(|n| format!("id{n}")).collect();
    let children: Vec<_> = ids.iter().map(|id| worker(id)).collect();
    let mut world = World::new(rules(Strategy::OneForOne, 2, 3600), &children);
    let order = world.states();
    world.crash("id3");
    assert_eq!(world.states(), order);
    world.terminate("id3");
    world.delete("id3");
    world.start(worker("id3"));
    let ids: Vec<_> = world.machine.children().map(|child| child.id.to_string()).collect();
    assert_eq!(ids, ["id1", "id2", "id4", "id5", "id3"]);
}

#[test]
fn otp_scale_start_stop_many_children() {
    let mut world = empty(Strategy::OneForOne, 2);
    for n in 0..10_000 {
        world.start(worker(&n.to_string()));
    }
    for n in 0..10_000 {
        world.terminate(&n.to_string());
        world.delete(&n.to_string());
    }
    assert_eq!(world.counts(), [0; 4]);
}

#[test]
fn otp_significant_bystander() {
    // The end of a significant child that a group restart caused is not an end of its own.
    let rules = SupervisorRules {
        auto_shutdown: AutoShutdown::AnySignificant,
        ..rules(Strategy::OneForAll, 2, 3600)
    };
    let mut world = World::new(rules, &[worker("child1"), significant("child2", Restart::Temporary)]);
    world.crash("child1");
    assert_eq!(world.states(), "child1 running");
}
