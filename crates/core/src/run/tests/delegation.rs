//! Calls that other runs work on.

use super::*;
use crate::plan::Join;
use crate::tree::{Allowance, Hears, Link, LinkKind, OnFailure, delegate_spec, digest};

fn links() -> Vec<Link> {
    let own = RunLimits::default;
    let link = |agent: &str, change: fn(&mut Link)| {
        let mut link = Link::new(agent, own());
        change(&mut link);
        link
    };
    vec![
        link("researcher", |_| {}),
        link("writer", |link| link.policy.on_failure = OnFailure::Observe),
        link("coder", |link| {
            link.policy.retries = 1;
            link.policy.fallback = Some("writer".into());
        }),
        link("critic", |link| {
            link.hears = Hears::Conversation;
            link.allowance = Allowance { tokens: Some(Tokens(500)), ..Allowance::default() };
        }),
        link("clerk", |link| link.kind = LinkKind::Handoff),
    ]
}

static CREW: LazyLock<Toolbox> = LazyLock::new(|| {
    let agents =
        links().into_iter().map(|link| Arc::new(delegate_spec(link.agent, "Works on a goal.", None)));
    let (toolbox, bad) = toolbox(&AGENT, tools().into_iter().chain(agents).collect());
    assert!(bad.is_empty(), "{bad:?}");
    toolbox
});

pub(super) fn link_up(spec: &mut RunSpec) {
    spec.toolbox = CREW.clone();
    spec.links = Links::new(links());
}

fn crew() -> Scene {
    crew_with(LIMITS.clone(), |_| {})
}

static LIMITS: LazyLock<RunLimits> =
    LazyLock::new(|| RunLimits { tokens: Tokens(12_000), ..RunLimits::default() });

fn crew_with(limits: RunLimits, change: impl FnOnce(&mut RunSpec)) -> Scene {
    Scene::changed(limits, PanicPolicy::Observe, |spec| {
        link_up(spec);
        change(spec);
    })
}

pub(super) fn outcome(reason: StopReason, text: Option<&str>, used: u64) -> Box<Outcome> {
    let mut totals = RunTotals { turns: 2, cost: MicroUsd(used), ..RunTotals::default() };
    totals.usage.prompt = Tokens(used);
    Box::new(Outcome {
        run: RunId::from_u128(99),
        reason,
        text: text.map(Into::into),
        explanation: None,
        totals,
        elapsed: Duration::from_secs(1),
    })
}

impl Scene {
    fn child(&mut self, index: u32, attempt: u32, outcome: Box<Outcome>) -> &mut Self {
        let call = CallKey { turn: self.turn, index };
        self.on(RunEvent::ChildEnded { call, attempt, outcome })
    }

    fn child_says(&mut self, index: u32, text: &str) -> &mut Self {
        self.child(index, 1, outcome(StopReason::Completed, Some(text), 100))
    }

    fn stop_reason(&self) -> String {
        self.machine.outcome().expect("it has ended").reason.to_string()
    }
}

const GOAL: &str = r#"{"goal":"Find it."}"#;

fn goal(n: u32) -> String {
    format!(r#"{{"goal":"Part {n}."}}"#)
}

fn model_failed(code: FailureCode) -> StopReason {
    StopReason::ModelFailed { code, attempts: 3 }
}

fn keyless() -> Box<Outcome> {
    outcome(model_failed(FailureCode::Unauthenticated), Some("HTTP 401: token expired"), 0)
}

#[test]
fn a_child_works_on_a_call_and_its_answer_is_told_as_data() {
    let mut scene = crew();
    scene.asks(&[("researcher", GOAL), ("find", "{}")]).ends(1, Ok("\"found\""));
    scene.child_says(0, "It is in the \"attic\".").says("In the attic.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.1 find {}
        child 1.0 researcher `Find it.` with 6000 tokens
        ask 2 All
        end completed `In the attic.`
    "#]]);
    assert_eq!(scene.observation(1), json!({ "agent": "researcher", "answer": "It is in the \"attic\"." }));
    let totals = scene.machine.totals();
    assert_eq!((totals.children, totals.turns, totals.usage.prompt), (1, 4, Tokens(100)), "it rolls up");
}

#[test]
fn siblings_start_together_with_equal_shares_and_answer_in_call_order() {
    let mut scene = crew();
    let goals = [goal(0), goal(1), goal(2)];
    scene.asks(&[("researcher", &*goals[0]), ("writer", &*goals[1]), ("researcher", &*goals[2])]);
    scene.child_says(2, "C").child_says(0, "A").child_says(1, "B");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        child 1.0 researcher `Part 0.` with 3000 tokens
        child 1.1 writer `Part 1.` with 3000 tokens
        child 1.2 researcher `Part 2.` with 3000 tokens
        ask 2 All
    "#]]);
    assert_eq!([2, 1, 0].map(|back| scene.observation(back)["answer"].clone()), ["A", "B", "C"]);
}

#[test]
fn no_more_children_run_at_once_than_there_are_places() {
    let limits = RunLimits { children_at_once: 2, ..LIMITS.clone() };
    let mut scene = crew_with(limits, |_| {});
    let goals = [goal(0), goal(1), goal(2)];
    scene.asks(&[("writer", &*goals[0]), ("writer", &*goals[1]), ("writer", &*goals[2])]);
    scene.child_says(1, "B").child_says(0, "A").child_says(2, "C");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        child 1.0 writer `Part 0.` with 3000 tokens
        child 1.1 writer `Part 1.` with 3000 tokens
        child 1.2 writer `Part 2.` with 4450 tokens
        ask 2 All
    "#]]);
}

#[test]
fn one_child_at_its_limit_leaves_its_siblings_alone_and_tells_what_it_had() {
    let mut scene = crew();
    let goals = [goal(0), goal(1)];
    scene.asks(&[("researcher", &*goals[0]), ("researcher", &*goals[1])]);
    scene.child(0, 1, outcome(StopReason::LimitReached(LimitKind::Tokens), Some("Half of it."), 4000));
    scene.child_says(1, "All of it.").says("Done.");
    assert_eq!(scene.stop_reason(), "completed");
    let told = scene.observation(1);
    assert_eq!((&told["error"], &told["so_far"]), (&json!("partial"), &json!("Half of it.")));
    assert_eq!(scene.machine.totals().failed_calls, 1, "the report shows it");
}

#[test]
fn a_terminal_end_ends_the_parent_by_name_and_its_text_is_no_answer() {
    let mut scene = crew();
    let goals = [goal(0), goal(1)];
    scene.asks(&[("researcher", &*goals[0]), ("writer", &*goals[1]), ("pay", "{}")]).child(0, 1, keyless());
    let cancelled = StopReason::Cancelled { by: "its parent".into() };
    scene.child(1, 1, outcome(cancelled, None, 10)).ends(2, Ok("paid"));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.2 pay {}
        child 1.0 researcher `Part 0.` with 4000 tokens
        child 1.1 writer `Part 1.` with 4000 tokens
        cancel 1.2 Waiting
        cancel child 1.1
        timer Settle 35s
        end child_failed: researcher (run 00000000-0000-0000-0000-000000000063): model_failed: unauthenticated after 3 attempts
    "#]]);
    let told = scene.observation(2);
    assert_eq!(
        (&told["error"], &told["so_far"]),
        (&json!("unauthenticated"), &json!("HTTP 401: token expired"))
    );
    assert_eq!(scene.observation(1)["error"], "cancelled");
}

#[test]
fn a_terminal_end_is_an_observation_where_the_link_says_so() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL)]).child(0, 1, keyless()).says("I could not have it written.");
    assert_eq!(scene.stop_reason(), "completed");
    assert_eq!(scene.observation(0)["error"], "unauthenticated");
}

#[test]
fn a_fresh_child_and_then_the_fallback_have_a_try() {
    let mut scene = crew();
    scene.asks(&[("coder", GOAL)]);
    scene.child(0, 1, outcome(StopReason::EmptyResponse, None, 1000));
    scene.child(0, 1, outcome(StopReason::Completed, Some("late"), 1000));
    scene.child(0, 2, outcome(StopReason::MalformedOutput, None, 1000));
    scene.child(0, 3, outcome(StopReason::Completed, Some("Written."), 500));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        child 1.0 coder `Find it.` with 6000 tokens
        child 1.0 try 2 coder `Find it.` with 5500 tokens
        child 1.0 try 3 writer `Find it.` with 5000 tokens
        ask 2 All
    "#]]);
    assert_eq!(scene.observation(0), json!({ "agent": "writer", "answer": "Written." }));
    assert_eq!(scene.machine.totals().children, 3);
}

#[test]
fn a_child_that_may_have_changed_something_is_not_followed_by_another() {
    let mut scene = crew();
    let mut failed = outcome(StopReason::EmptyResponse, None, 0);
    failed.totals.effects = 1;
    scene.asks(&[("coder", GOAL)]).child(0, 1, failed).asks(&[("coder", GOAL)]);
    let told = scene.observation(0);
    assert_eq!((&told["error"], &told["effect"]), (&json!("repeated_failure"), &json!("unknown")));
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("child ")).count(), 1);
}

#[test]
fn a_named_slice_and_the_conversation_are_given_where_the_link_says_so() {
    let mut scene = crew();
    scene.asks(&[("critic", GOAL)]);
    assert_eq!(
        scene.seen.last().unwrap(),
        "child 1.0 critic `Find it.` with 500 tokens with the conversation"
    );
}

#[test]
fn the_same_goal_in_a_circle_is_refused_with_its_chain() {
    let mut scene = crew();
    let above = Ancestor { agent: "researcher".into(), goal: digest("find it") };
    let parent = RunId::from_u128(5);
    let lineage = Some(Lineage { parent, root: parent, path: vec![above] });
    let Some((at, RunEvent::RunStarted { agent, goal, limits, history, repairs, attendance, tools, .. })) =
        scene.events.pop()
    else {
        panic!("it was started")
    };
    scene.machine = RunMachine::new(RunId::from_u128(1), Arc::clone(&scene.machine.spec));
    scene.now = at;
    scene.on(RunEvent::RunStarted { agent, goal, limits, history, repairs, attendance, tools, lineage });
    scene.asks(&[("researcher", GOAL), ("writer", GOAL)]).child_says(1, "Found.");
    let told = scene.observation(1);
    assert_eq!(told["error"], "conflict");
    assert_eq!(
        told["message"],
        "`researcher` was not asked: it is already at work on this goal and waits for you \
         (`researcher` → `a` → `researcher`)."
    );
    scene.replay_is_equal();
}

#[test]
fn the_deepest_run_is_not_offered_other_agents_and_is_told_so_when_it_asks_all_the_same() {
    let mut scene = crew_with(RunLimits { depth: 1, ..LIMITS.clone() }, |_| {});
    scene.asks(&[("writer", GOAL)]).says("Alone, then.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 Without(["clerk", "coder", "critic", "researcher", "writer"])
        ask 2 Without(["clerk", "coder", "critic", "researcher", "writer"])
        end completed `Alone, then.`
    "#]]);
    assert_eq!(
        scene.observation(0)["message"],
        "No other agent was asked: it would go beyond this run's limit of 1 level of runs."
    );
}

#[test]
fn the_number_of_children_is_bounded_over_the_whole_tree() {
    let mut scene = crew_with(RunLimits { children: 4, ..LIMITS.clone() }, |_| {});
    let goals = [goal(0), goal(1)];
    scene.asks(&[("writer", &*goals[0])]);
    let mut ended = outcome(StopReason::Completed, Some("Done."), 10);
    ended.totals.children = 2;
    scene.child(0, 1, ended).asks(&[("writer", &*goals[0]), ("writer", &*goals[1])]).child_says(0, "Done.");
    assert_eq!(
        scene.observation(0)["message"],
        "No other agent was asked: it would go beyond this run's limit of 4 runs below this one."
    );
    assert!(scene.seen.last().unwrap().starts_with("ask 3 Without"), "none is left to ask");
}

#[test]
fn a_budget_that_is_used_up_exactly_refuses_the_child() {
    let mut scene = crew();
    let goals = [goal(0), goal(1)];
    scene.asks(&[("writer", &*goals[0]), ("find", "{}")]);
    scene.child(0, 1, outcome(StopReason::LimitReached(LimitKind::Tokens), None, 12_000));
    scene.ends(1, Ok("1"));
    assert_eq!(scene.stop_reason(), "limit_reached: tokens");
}

#[test]
fn a_cancel_goes_down_and_waits_for_every_child() {
    let mut scene = crew_with(RunLimits { children_at_once: 2, ..LIMITS.clone() }, |_| {});
    let goals = [goal(0), goal(1), goal(2)];
    scene.asks(&[("writer", &*goals[0]), ("researcher", &*goals[1]), ("writer", &*goals[2])]);
    scene.on(RunEvent::CancelRequested { by: "ann".into() });
    let cancelled = || outcome(StopReason::Cancelled { by: "its parent".into() }, None, 5);
    scene.child(1, 1, cancelled());
    assert!(scene.machine.outcome().is_none(), "one is still at work");
    scene.child(0, 1, cancelled());
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        child 1.0 writer `Part 0.` with 3000 tokens
        child 1.1 researcher `Part 1.` with 3000 tokens
        cancel child 1.0
        cancel child 1.1
        timer Settle 20s
        end cancelled by ann
    "#]]);
    assert_eq!(scene.observation(0)["message"], "`writer` had not started when the run was stopped.");
    assert_eq!(scene.machine.totals().usage.prompt, Tokens(10));
}

#[test]
fn a_child_that_never_ends_meets_its_deadline_and_counts_as_having_used_all_it_held() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL)]).wait(Duration::from_secs(100));
    let call = CallKey { turn: 1, index: 0 };
    scene.on(RunEvent::TimerFired { timer: RunTimer::Child(call) });
    assert!(!scene.seen.last().unwrap().starts_with("cancel"), "a timer that is early changes nothing");
    scene.wait(Duration::from_secs(3200)).on(RunEvent::TimerFired { timer: RunTimer::Child(call) });
    assert_eq!(scene.observation(0)["error"], "timeout");
    assert_eq!(scene.machine.totals().usage.total(), Tokens(6000));
    let before = scene.machine.clone();
    scene.turn = 1;
    scene.child_says(0, "At last.");
    assert_eq!(scene.machine, before);
    scene.replay_is_equal();
}

#[test]
fn a_child_that_a_cancelled_run_waits_for_no_longer_counts_as_having_used_all_it_held() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL), ("pay", "{}")]).on(RunEvent::CancelRequested { by: "ann".into() });
    scene.on(RunEvent::TimerFired { timer: RunTimer::Settle });
    let totals = scene.machine.outcome().expect("it has ended").totals;
    assert_eq!((totals.usage.total(), totals.tool_calls), (Tokens(6000), 2 + 499));
    assert_eq!((totals.children, totals.effects), (50, 2), "what it may have done is counted as well");
    scene.replay_is_equal();
}

#[test]
fn a_run_that_breaks_tells_its_children_to_stop() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL)]);
    let effects = scene.machine.fail(scene.now, "test", "It broke.");
    assert!(matches!(effects.first(), Some(RunEffect::CancelChild { .. })), "{effects:?}");
    assert_eq!(scene.machine.totals().children, 50);
}

#[test]
fn after_a_crash_children_are_found_again_and_nothing_about_them_is_unknown() {
    let mut scene = crew();
    let goals = [goal(0), goal(1)];
    scene.asks(&[("writer", &*goals[0]), ("researcher", &*goals[1])]).child_says(1, "B");
    for _ in 0..9 {
        scene.wait(Duration::from_secs(1)).on(RunEvent::Interrupted {});
        assert_eq!(scene.seen.last().unwrap(), "child 1.0 writer `Part 0.` with 4000 tokens");
    }
    scene.child_says(0, "A").says("Both.");
    assert_eq!(scene.stop_reason(), "completed");
    assert_eq!(scene.machine.totals().children, 2);
    scene.replay_is_equal();
}

#[test]
fn a_crash_while_a_cancelled_run_waits_cancels_its_children_again() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL)]).on(RunEvent::CancelRequested { by: "ann".into() });
    scene.on(RunEvent::Interrupted {});
    // Whoever drives the run now hears of its end only where it looks for it.
    let again = ["child 1.0 writer `Find it.` with 6000 tokens", "cancel child 1.0", "timer Settle 20s"];
    assert!(scene.seen.ends_with(&again.map(str::to_owned)), "{:?}", scene.seen);
    scene.child(0, 1, outcome(StopReason::Completed, Some("Done after all."), 5));
    assert_eq!(scene.stop_reason(), "cancelled by ann");
    assert_eq!(scene.observation(0)["answer"], "Done after all.", "what came in time is kept");
    scene.replay_is_equal();
}

#[test]
fn a_loser_is_found_and_cancelled_again_after_a_crash() {
    let mut scene = crew_with(LIMITS.clone(), |spec| spec.links.join = Join::FirstSuccess);
    let goals = [goal(0), goal(1)];
    scene.asks(&[("writer", &*goals[0]), ("researcher", &*goals[1])]).child_says(0, "A");
    scene.on(RunEvent::Interrupted {});
    let again = ["child 1.1 researcher `Part 1.` with 4000 tokens", "cancel child 1.1"];
    assert!(scene.seen.ends_with(&again.map(str::to_owned)), "{:?}", scene.seen);
    scene.child(1, 1, outcome(StopReason::Cancelled { by: "its parent".into() }, None, 1)).says("A, then.");
    assert_eq!(scene.stop_reason(), "completed");
    scene.replay_is_equal();
}

#[test]
fn children_of_a_run_whose_time_passed_during_a_crash_are_found_and_cancelled() {
    let mut scene = crew();
    scene.asks(&[("writer", GOAL)]).wait(Duration::from_secs(3601)).on(RunEvent::Interrupted {});
    let seen = ["child 1.0 writer `Find it.` with 6000 tokens", "cancel child 1.0", "timer Settle 20s"];
    assert!(scene.seen.ends_with(&seen.map(str::to_owned)), "{:?}", scene.seen);
    scene.child(0, 1, outcome(StopReason::Cancelled { by: "its parent".into() }, None, 1));
    assert_eq!(scene.stop_reason(), "limit_reached: wall_clock");
}

#[test]
fn the_first_success_cancels_the_others_where_the_links_are_joined_so() {
    let mut scene = crew_with(LIMITS.clone(), |spec| spec.links.join = Join::FirstSuccess);
    let goals = [goal(0), goal(1), goal(2)];
    scene.asks(&[("writer", &*goals[0]), ("writer", &*goals[1]), ("writer", &*goals[2])]);
    scene.child(0, 1, outcome(StopReason::EmptyResponse, None, 1)).child_says(2, "C");
    assert_eq!(scene.seen.last().unwrap(), "cancel child 1.1");
    scene.child(1, 1, outcome(StopReason::Cancelled { by: "its parent".into() }, None, 1));
    assert_eq!([2, 1].map(|back| scene.observation(back)["error"].clone()), ["tool_error", "cancelled"]);
    assert_eq!(scene.observation(0)["answer"], "C");
}

#[test]
fn a_child_that_is_no_longer_needed_ends_nothing_but_itself() {
    let mut scene = crew_with(LIMITS.clone(), |spec| spec.links.join = Join::FirstSuccess);
    let goals = [goal(0), goal(1)];
    scene.asks(&[("writer", &*goals[0]), ("researcher", &*goals[1])]).child_says(0, "A").child(
        1,
        1,
        keyless(),
    );
    scene.says("A, then.");
    assert_eq!(scene.stop_reason(), "completed");
}

#[test]
fn a_handoff_takes_everything_and_its_end_is_the_end() {
    let mut scene = crew();
    scene.asks(&[("clerk", GOAL)]);
    scene.child(0, 1, outcome(StopReason::LimitReached(LimitKind::Turns), Some("So far."), 70));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        child 1.0 clerk `Find it.` with 12000 tokens with the conversation
        end limit_reached: turns `So far.`
    "#]]);
    let explanation = scene.machine.outcome().unwrap().explanation.clone().unwrap();
    assert_eq!(
        &*explanation,
        "`clerk` (run 00000000-0000-0000-0000-000000000063) took the conversation over."
    );
}

#[test]
fn a_handoff_beside_other_calls_is_refused() {
    let mut scene = crew();
    scene.asks(&[("clerk", GOAL), ("find", "{}")]).ends(1, Ok("1"));
    assert_eq!(scene.observation(1)["error"], "conflict");
}

#[test]
fn what_a_run_did_to_the_world_is_counted() {
    let mut scene = crew();
    scene.asks(&[("pay", "{}"), ("find", "{}"), ("give", "{}"), ("transfer", "{}")]);
    scene.ends(0, Ok("paid")).ends(1, Ok("found"));
    scene.ends(2, Err(Failure::conflict("Not now."))).ends(3, Err(Failure::timeout("No answer.")));
    assert_eq!(scene.machine.totals().effects, 2, "what certainly did not happen does not count");
}
