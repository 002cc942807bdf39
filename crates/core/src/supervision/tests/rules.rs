use expect_test::expect;

use super::*;

#[test]
fn sup_01_one_failure_too_many_stops_every_child_and_then_the_supervisor() {
    let mut world = World::new(rules(Strategy::OneForOne, 1, 60), &[worker("a"), worker("b"), worker("c")]);
    world.crash("a");
    world.pass(secs(60));
    world.crash("b");
    expect!["start a, stop c, stop a, end"].assert_eq(&world.seen());
    let Some(End::TooManyFailures { child, count, history }) = world.ended else { panic!("no such end") };
    assert_eq!((&*child, count), ("b", 2), "a failure exactly one period old counts");
    let told: Vec<_> = history.iter().map(|failed| (&*failed.child, &*failed.cause)).collect();
    assert_eq!(told, [("a", "crashed"), ("b", "crashed")]);
}

#[test]
fn sup_02_a_start_that_fails_counts_as_another_restart_and_requests_go_on_between() {
    let mut world = World::new(rules(Strategy::OneForOne, 3, 60), &[worker("a"), worker("b")]);
    world.broken.insert("a");
    world.crash("a");
    expect!["start a, wait a"].assert_eq(&world.seen());
    world.start(worker("c"));
    world.terminate("b");
    assert_eq!(world.states(), "a restarting, b down, c running");
    world.log.clear();
    world.pass(secs(1));
    expect!["start a, wait a, start a, stop c, end"].assert_eq(&world.seen());
    assert!(matches!(world.ended, Some(End::TooManyFailures { count: 4, .. })));
}

#[test]
fn sup_03_failures_count_when_they_happen_whatever_the_wait() {
    let mut world = World::new(rules(Strategy::OneForOne, 4, 10), &[worker("a")]);
    let mut failures = 0;
    while world.ended.is_none() {
        world.crash("a");
        failures += 1;
        world.pass(secs(1));
    }
    assert_eq!(failures, 5);
    let refused = World::try_new(rules(Strategy::OneForOne, 5, 1), &[]).map(drop).unwrap_err();
    assert!(matches!(refused, SpecError::Restarts(_)), "{refused}");
}

#[test]
fn sup_05_siblings_stop_in_reverse_one_after_another_and_all_are_dead_before_the_first_start() {
    let children = [worker("a"), worker("b"), with("t", Restart::Temporary), worker("c")];
    let mut world = World::new(rules(Strategy::OneForAll, 5, 60), &children);
    world.pace = Pace::Slow;
    world.crash("b");
    for id in ["c", "t", "a"] {
        assert_eq!(world.seen(), format!("stop {id}"));
        world.exit(id, ExitReason::Normal);
    }
    for id in ["a", "b", "c"] {
        assert_eq!(world.seen(), format!("start {id}"));
        world.up(id);
    }
    assert_eq!(world.states(), "a running, b running, c running");

    let mut world = World::new(rules(Strategy::RestForOne, 5, 60), &children);
    world.crash("b");
    expect!["stop c, stop t, start b, start c"].assert_eq(&world.seen());
}

#[test]
fn sup_05_a_group_starts_when_the_wait_of_the_failed_child_is_over() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut world = World::new(rules(strategy, 5, 60), &[worker("a"), worker("b"), worker("c")]);
        world.crash("b");
        world.log.clear();
        world.crash("b");
        let (stops, starts) = match strategy {
            Strategy::OneForAll => ("wait b, stop c, stop a", "start a, start b, start c"),
            _ => ("wait b, stop c", "start b, start c"),
        };
        assert_eq!(world.seen(), stops);
        world.pass(secs(1));
        assert_eq!(world.seen(), starts);
    }
}

#[test]
fn sup_05_who_asked_for_a_start_is_answered_when_the_group_is_up_again() {
    let mut world = World::new(rules(Strategy::OneForAll, 5, 60), &[worker("a")]);
    world.pace = Pace::Slow;
    world.start(worker("b"));
    world.crash("a");
    expect!["start b, stop b"].assert_eq(&world.seen());
    world.exit("b", ExitReason::Normal);
    world.up("a");
    world.up("b");
    expect!["start a, start b, ok"].assert_eq(&world.seen());
}

#[test]
fn sup_09_terminate_cancels_a_restart_for_good_and_a_late_timer_does_nothing() {
    let mut world = World::new(rules(Strategy::OneForOne, 5, 60), &[worker("a")]);
    world.crash("a");
    world.crash("a");
    world.terminate("a");
    expect!["start a, wait a, ok"].assert_eq(&world.seen());
    world.restart("a");
    expect!["start a, ok"].assert_eq(&world.seen());
    world.terminate("a");
    world.log.clear();
    world.pass(secs(60));
    assert_eq!((world.seen(), world.states()), (String::new(), "a down".into()));
}

#[test]
fn sup_09_terminate_during_a_start_stops_it_and_answers_everyone() {
    let mut world = World::new(rules(Strategy::OneForOne, 5, 60), &[]);
    world.pace = Pace::Slow;
    world.start(worker("a"));
    world.terminate("a");
    world.terminate("a");
    world.exit("a", failed("aborted"));
    expect!["start a, stop a, child `a` was terminated before it ran, ok, ok"].assert_eq(&world.seen());
}

#[test]
fn sup_09_an_event_of_an_earlier_incarnation_changes_nothing() {
    let mut world = World::new(rules(Strategy::OneForOne, 5, 60), &[worker("a")]);
    world.crash("a");
    let before = world.machine.clone();
    let child = world.key("a");
    world.on(SupervisorEvent::Exited { child, incarnation: 1, reason: failed("late") });
    world.on(SupervisorEvent::Started { child, incarnation: 1 });
    world.on(SupervisorEvent::TimerFired { child, timer: 99 });
    world.on(SupervisorEvent::TimerFired { child: ChildKey(99), timer: 1 });
    assert_eq!(world.machine, before);
}

#[test]
fn sup_10_a_used_id_is_refused_by_what_its_owner_is_doing() {
    let mut world =
        World::new(rules(Strategy::OneForOne, 5, 60), &[worker("up"), worker("down"), worker("due")]);
    world.terminate("down");
    world.crash("due");
    world.crash("due");
    world.log.clear();
    let before = world.machine.clone();
    for id in ["up", "down", "due"] {
        world.start(worker(id));
    }
    assert_eq!(world.machine, before);
    expect![[r#"
        child `up` is already running
        child `down` is known and down: restart it or delete it first
        child `due` is being restarted: ask again, or terminate it first"#]]
    .assert_eq(&world.log.join("\n"));
}

#[test]
fn sup_10_a_failed_start_of_an_added_child_leaves_nothing() {
    for strategy in [Strategy::OneForOne, Strategy::Dynamic, Strategy::OneForAll] {
        let mut world = World::new(rules(strategy, 5, 60), &[]);
        let before = world.machine.clone();
        world.broken.insert("a");
        world.start(worker("a"));
        expect!["start a, child `a` did not start: no start"].assert_eq(&world.seen());
        assert_eq!(world.machine, before);
    }
}

#[test]
fn sup_11_a_child_that_does_not_start_at_the_beginning_takes_those_before_it_down() {
    let children = [worker("a"), worker("b"), worker("c"), worker("d")];
    let mut world = World::try_new(rules(Strategy::OneForOne, 5, 60), &children).unwrap();
    world.broken.insert("c");
    world.on(SupervisorEvent::Begun);
    expect!["start a, start b, start c, stop b, stop a, end"].assert_eq(&world.seen());
    let Some(End::StartFailed { failed }) = world.ended else { panic!("no such end") };
    assert_eq!(&*failed.child, "c");
}

#[test]
fn sup_11_a_child_that_crashes_before_all_are_up_is_restarted_first() {
    let mut world = World::try_new(rules(Strategy::OneForOne, 5, 60), &[worker("a"), worker("b")]).unwrap();
    world.pace = Pace::Slow;
    world.on(SupervisorEvent::Begun);
    world.up("a");
    world.crash("a");
    world.up("b");
    world.up("a");
    expect!["start a, start b, start a, ready"].assert_eq(&world.seen());
}

#[test]
fn a_child_added_while_the_first_ones_start_is_not_forgotten() {
    let mut world = World::try_new(rules(Strategy::OneForOne, 5, 60), &[worker("a"), worker("b")]).unwrap();
    world.pace = Pace::Slow;
    world.on(SupervisorEvent::Begun);
    world.start(worker("c"));
    world.up("a");
    world.up("b");
    world.up("c");
    expect!["start a, start b, start c, ready, ok"].assert_eq(&world.seen());
}

#[test]
fn sup_13_combinations_that_otp_refuses_are_refused() {
    let auto = |strategy, auto_shutdown| SupervisorRules { auto_shutdown, ..rules(strategy, 5, 60) };
    let any = auto(Strategy::OneForOne, AutoShutdown::AnySignificant);
    let never = auto(Strategy::OneForOne, AutoShutdown::Never);
    let refusal =
        |rules: &SupervisorRules, child| World::try_new(rules.clone(), &[child]).map(drop).unwrap_err();
    let told = [
        refusal(&any, significant("a", Restart::Permanent)),
        refusal(&never, significant("a", Restart::Transient)),
        refusal(&auto(Strategy::Dynamic, AutoShutdown::AllSignificant), worker("a")),
    ];
    expect![[r#"
        child `a` is permanent and always restarted, so it cannot be significant; make it transient or temporary
        child `a` is significant, but its supervisor never shuts down by itself; set `auto_shutdown`
        a dynamic supervisor lives without children, so it cannot shut down by itself; use another strategy"#]]
    .assert_eq(&told.map(|error| error.to_string()).join("\n"));

    let mut world = World::new(never, &[]);
    world.start(significant("a", Restart::Temporary));
    assert_eq!((world.counts(), world.log.len()), ([0; 4], 1), "also when it is added later");
}

#[test]
fn sup_13_any_ends_with_the_first_and_all_with_the_last_significant_child() {
    let children =
        [significant("a", Restart::Transient), worker("bystander"), significant("b", Restart::Temporary)];
    let world = |auto_shutdown| {
        World::new(SupervisorRules { auto_shutdown, ..rules(Strategy::OneForOne, 5, 60) }, &children)
    };
    let mut any = world(AutoShutdown::AnySignificant);
    any.crash("b");
    expect!["stop bystander, stop a, end"].assert_eq(&any.seen());
    assert_eq!(any.ended, Some(End::Significant { child: "b".into() }));

    let mut all = world(AutoShutdown::AllSignificant);
    all.exit("a", ExitReason::Normal);
    assert_eq!(all.seen(), "");
    all.exit("b", ExitReason::Killed);
    expect!["stop bystander, end"].assert_eq(&all.seen());
}

#[test]
fn sup_13_a_restart_or_a_stop_by_the_supervisor_does_not_count() {
    let rules =
        SupervisorRules { auto_shutdown: AutoShutdown::AnySignificant, ..rules(Strategy::RestForOne, 5, 60) };
    let children =
        [worker("first"), significant("a", Restart::Transient), significant("b", Restart::Temporary)];
    let mut world = World::new(rules, &children);
    world.crash("a");
    world.crash("first");
    world.terminate("a");
    assert!(!world.machine.is_ending());
    assert_eq!(world.states(), "first running, a down");
}

#[test]
fn sup_14_a_hundred_thousand_finished_temporary_children_leave_nothing() {
    for strategy in [Strategy::OneForOne, Strategy::Dynamic, Strategy::RestForOne] {
        let mut world = World::new(rules(strategy, 5, 60), &[]);
        let before = world.machine.clone();
        for n in 0..100_000_u32 {
            world.start(with("t", Restart::Temporary));
            world.exit("t", if n % 2 == 0 { ExitReason::Normal } else { failed("") });
            world.log.clear();
        }
        assert_eq!(world.machine, before);
        assert!(world.names.is_empty());
    }
}

#[test]
fn sup_16_the_first_restart_is_immediate_and_each_child_waits_for_itself() {
    let mut world = World::new(rules(Strategy::OneForOne, 9, 60), &[worker("a"), worker("b")]);
    world.crash("a");
    world.crash("a");
    world.crash("b");
    expect!["start a, wait a, start b"].assert_eq(&world.seen());
    world.pass(secs(1));
    let child = world.key("a");
    world.on(SupervisorEvent::Healthy { child });
    world.pass(secs(60));
    world.log.clear();
    world.crash("a");
    expect!["start a"].assert_eq(&world.seen());
}

#[test]
fn sup_17_a_query_tells_when_a_child_comes_back() {
    let mut world = World::new(rules(Strategy::OneForOne, 9, 60), &[worker("a")]);
    world.crash("a");
    world.crash("a");
    let info = world.machine.children().next().unwrap();
    assert_eq!(info.state, ChildState::Restarting { at: Some(world.timers[0].0) });
    assert_eq!(info.starts, 2);
}

#[test]
fn sup_18_a_child_that_does_not_stop_holds_nobody_up_under_one_for_one() {
    let mut world = World::new(rules(Strategy::OneForOne, 5, 60), &[worker("stuck"), worker("a")]);
    world.pace = Pace::Slow;
    world.terminate("stuck");
    world.crash("a");
    world.up("a");
    world.terminate("a");
    expect!["stop stuck, start a, stop a"].assert_eq(&world.seen());
}

#[test]
fn a_shutdown_answers_whoever_still_waits_and_takes_no_more_requests() {
    let mut world = World::new(rules(Strategy::OneForOne, 5, 60), &[worker("a"), worker("b")]);
    world.pace = Pace::Slow;
    world.start(worker("new"));
    world.terminate("a");
    world.on(SupervisorEvent::ShutdownRequested);
    world.start(worker("late"));
    world.terminate("b");
    for id in ["a", "new", "b"] {
        world.exit(id, ExitReason::Normal);
    }
    expect![[r#"
        start new
        stop a
        the supervisor is shutting down
        the supervisor is shutting down
        ok
        stop new
        the supervisor is shutting down
        stop b
        end"#]]
    .assert_eq(&world.log.join("\n"));
    assert_eq!(world.ended, Some(End::Requested));
}

#[test]
fn the_first_reason_to_end_is_the_one_that_is_told() {
    let mut world = World::new(rules(Strategy::OneForOne, 0, 60), &[worker("a"), worker("b")]);
    world.pace = Pace::Slow;
    world.crash("a");
    world.on(SupervisorEvent::ShutdownRequested);
    world.crash("b");
    assert!(matches!(world.ended, Some(End::TooManyFailures { .. })));
}

#[test]
fn two_children_of_one_name_are_refused() {
    let refused = World::try_new(rules(Strategy::OneForOne, 5, 60), &[worker("a"), worker("a")]);
    assert_eq!(refused.map(drop).unwrap_err(), SpecError::DuplicateId { id: "a".into() });
}
