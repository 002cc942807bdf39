use std::time::Duration;

use dauntless_contract::{
    Message, MicroUsd, Outcome, Recorded, RunId, RunLimits, RunTotals, StopReason, Timestamp, Tokens,
    ToolCall, Usage,
};
use serde_json::json;

use super::books::Origin;
use super::shell::ROOT;
use super::signals::Signal;
use super::world::LOOK;
use super::*;

#[test]
fn three_hundred_trees_keep_every_rule() {
    let totals = grow_all(0..300, 2).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(totals.seeds, 300);
    assert!(totals.runs > 1000 && totals.events > 5000, "{totals:?}");
}

#[test]
fn one_seed_is_one_tree() {
    for seed in 0..40 {
        assert_eq!(story(seed), story(seed), "seed {seed}");
    }
}

/// Grows trees whose signals are passed on like this until one breaks the rule.
#[track_caller]
fn breaks(rule: &str, post: Post) {
    let found = |seed: u64| grow_with(seed, post).err();
    let is_broken = |broken: &BrokenTree| broken.violations.iter().any(|violation| violation.rule == rule);
    let broken = (0..400).filter_map(found).find(|broken| is_broken(broken));
    let broken = broken.unwrap_or_else(|| panic!("nobody notices that it is not so: {rule}"));
    assert!(broken.to_string().contains(rule) && broken.to_string().contains("--from"), "{broken}");
}

fn wire(wire: fn(Signal) -> Vec<Signal>) -> Post {
    Post { wire, ..Post::HONEST }
}

/// Changes how ends of children are told.
macro_rules! ends {
    ($outcome:ident => $change:expr) => {
        wire(|mut signal| {
            if let Signal::Ended { outcome: $outcome, .. } = &mut signal {
                $change;
            }
            vec![signal]
        })
    };
}

/// Changes how children are started.
macro_rules! starts {
    ($delegation:ident => $change:expr) => {
        wire(|mut signal| {
            if let Signal::Start { delegation: $delegation, .. } = &mut signal {
                $change;
            }
            vec![signal]
        })
    };
}

#[test]
fn a_tree_that_waits_for_ever_is_noticed() {
    breaks(
        rules::ENDS,
        wire(|signal| match signal {
            Signal::Ended { .. } | Signal::Timer { .. } => Vec::new(),
            signal => vec![signal],
        }),
    );
}

#[test]
fn a_failure_that_is_told_as_success_is_noticed() {
    breaks(rules::HONEST, ends!(outcome => outcome.reason = StopReason::Completed));
}

#[test]
fn what_is_lost_on_the_way_up_is_noticed() {
    breaks(rules::TOTALS, ends!(outcome => outcome.totals.usage = Usage::default()));
    breaks(rules::TOTALS, ends!(outcome => outcome.totals.children += 1));
}

#[test]
fn what_is_given_twice_is_noticed() {
    breaks(rules::GRANTS, ends!(outcome => outcome.totals = RunTotals::default()));
}

#[test]
fn children_beyond_the_limits_are_noticed() {
    breaks(rules::LIMITS, starts!(delegation => delegation.limits.tokens = Tokens(u64::MAX / 2)));
    breaks(rules::LIMITS, starts!(delegation => delegation.limits.cost = MicroUsd(u64::MAX / 2)));
    breaks(rules::LIMITS, starts!(delegation => delegation.limits.tool_calls = 10_000));
    breaks(rules::LIMITS, starts!(delegation => delegation.limits.children = 10_000));
    breaks(rules::DEPTH, starts!(delegation => delegation.limits.depth = 50));
}

#[test]
fn too_many_at_once_are_noticed() {
    breaks(
        rules::WIDTH,
        wire(|signal| {
            let Signal::Start { delegation, .. } = &signal else { return vec![signal] };
            let outcome = Outcome {
                run: delegation.run,
                reason: StopReason::EmptyResponse,
                text: None,
                explanation: None,
                totals: RunTotals::default(),
                elapsed: Duration::ZERO,
            };
            let (parent, call, attempt) = (delegation.lineage.parent, delegation.call, delegation.attempt);
            vec![signal, Signal::Ended { parent, call, attempt, outcome: Box::new(outcome) }]
        }),
    );
}

#[test]
fn a_child_that_is_not_told_to_stop_is_noticed() {
    breaks(
        rules::STOPS,
        wire(|signal| match signal {
            Signal::Stop { .. } => Vec::new(),
            signal => vec![signal],
        }),
    );
}

#[test]
fn a_goal_that_goes_round_is_noticed() {
    breaks(rules::CIRCLE, starts!(delegation => delegation.lineage.path.clear()));
}

#[test]
fn a_wrong_name_is_noticed() {
    breaks(rules::NAMES, ends!(outcome => outcome.run = ROOT));
}

#[test]
fn two_runs_of_one_id_are_noticed() {
    breaks(rules::ONE_ID, starts!(delegation => delegation.run = RunId::from_u128(7)));
}

#[test]
fn a_journal_with_a_gap_is_noticed() {
    let forgetful = |journal: &mut Vec<Recorded>| drop(journal.pop());
    breaks(rules::REPLAY, Post { memory: forgetful, ..Post::HONEST });
}

#[test]
fn what_is_done_twice_is_noticed() {
    breaks(rules::ONCE, ends!(outcome => outcome.totals.effects = 0));
}

#[test]
fn observations_in_another_order_are_noticed() {
    let call = |id: &str| ToolCall { id: id.into(), name: LOOK.into(), arguments: json!({}).into() };
    let tool =
        |id: &str, text: &str| Message::Tool { call_id: id.into(), name: LOOK.into(), text: text.into() };
    let calls = vec![call("a"), call("b")];
    let asked = Message::Assistant { text: None, calls, extra: None };
    let wrong = |answers: &[Message]| {
        let mut books = Books::telling(None);
        let limits = RunLimits::default();
        let origin = Origin { number: 0, agent: &"a".into(), goal: "", above: None, limits: &limits };
        books.started(Timestamp::ZERO, ROOT, origin);
        books.asked(ROOT, 1, 2);
        let messages: Vec<Message> = std::iter::once(asked.clone()).chain(answers.to_vec()).collect();
        books.check_observations(Timestamp::ZERO, ROOT, &messages);
        books.found.into_iter().map(|found| found.rule).collect::<Vec<_>>()
    };
    let (first, second) = (tool("a", "\"did 1.0\""), tool("b", "\"did 1.1\""));
    assert_eq!(wrong(&[first.clone(), second.clone()]), [""; 0]);
    assert_eq!(wrong(std::slice::from_ref(&first)), [rules::OBSERVED; 2]);
    assert!(wrong(&[second, first]).contains(&rules::OBSERVED));
}
