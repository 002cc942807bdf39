use dauntless_contract::{
    Effect, EffectState, Failure, FailureCode, Outcome, Progress, ResiliencePolicy, RunId, RunTotals,
    StopReason,
};
use serde_json::json;

use super::*;
use crate::simulator::history::AttemptEnd;

const DOWN: FailureCode = FailureCode::Unavailable;

/// A history told step by step, of calls by hand at one tool unless it says otherwise.
struct Story {
    spec: ToolSpec,
    at: Duration,
    history: History,
}

impl Story {
    fn of(effect: Effect, change: impl FnOnce(&mut ResiliencePolicy)) -> Self {
        let mut spec = ToolSpec::new("work", "Works.", json!({"type": "object"}));
        spec.effect = effect;
        change(&mut spec.resilience);
        Self { spec, at: Duration::ZERO, history: History::default() }
    }

    fn at(mut self, ms: u64) -> Self {
        self.at = Duration::from_millis(ms);
        self
    }

    fn fact(mut self, fact: Fact) -> Self {
        self.history.entries.push(Entry { at: self.at, fact });
        self
    }

    fn attempt(caller: u32, number: u32) -> Attempt {
        let call = CallKey { turn: 1, index: 0 };
        Attempt { who: Who::Other(caller), call, number, tool: "work".into() }
    }

    fn begins(self, caller: u32, number: u32) -> Self {
        let deadline = self.at + self.spec.resilience.attempt_timeout;
        self.fact(Fact::AttemptBegan { attempt: Self::attempt(caller, number), key: caller, deadline })
    }

    fn ends(self, caller: u32, number: u32, end: AttemptEnd) -> Self {
        self.fact(Fact::AttemptEnded { attempt: Self::attempt(caller, number), end })
    }

    fn fails(self, caller: u32, number: u32, code: FailureCode) -> Self {
        self.ends(caller, number, AttemptEnd::Failed(Failure::with_effect(code, EffectState::None, "No.")))
    }

    /// Each fails at once; none of the callers is told to try again.
    fn fail_in_a_row(self, callers: std::ops::Range<u32>) -> Self {
        callers.fold(self, |story, caller| story.begins(caller, 1).fails(caller, 1, DOWN))
    }

    fn run_ends(self, run: u32, reason: StopReason) -> Self {
        let outcome = Outcome {
            run: RunId::from_u128(run.into()),
            reason,
            text: None,
            explanation: None,
            totals: RunTotals::default(),
            elapsed: self.at,
        };
        let seen = Progress::RunEnded { outcome: outcome.clone() };
        self.fact(Fact::RunEnded { run, outcome: Box::new(outcome) }).saw(run, seen)
    }

    fn saw(self, run: u32, progress: Progress) -> Self {
        self.fact(Fact::Saw { run, progress: Box::new(progress) })
    }

    #[track_caller]
    fn breaks(self, rules: &[&str]) {
        let checker = Checker::new(vec![Arc::new(self.spec)], RunLimits::default());
        let violations = checker.check(&self.history);
        let broken: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(broken, rules, "{violations:#?}");
    }
}

fn reads() -> Story {
    Story::of(Effect::ReadOnly, |_| {})
}

#[test]
fn an_honest_retry_breaks_nothing() {
    reads()
        .begins(1, 1)
        .at(100)
        .fails(1, 1, DOWN)
        .at(200)
        .begins(1, 2)
        .at(300)
        .ends(1, 2, AttemptEnd::Worked)
        .fact(Fact::Rested { running: 0 })
        .breaks(&[]);
}

#[test]
fn tst_06_a_write_that_may_have_happened_must_not_be_repeated() {
    for end in [AttemptEnd::Worked, AttemptEnd::Panicked, AttemptEnd::Failed(Failure::timeout("Late."))] {
        let story = Story::of(Effect::Once, |_| {}).begins(1, 1).at(100).ends(1, 1, end.clone());
        let story = story.at(200).begins(1, 2);
        let repeated = "what may have happened is not repeated (RT-12)";
        match end {
            AttemptEnd::Worked => story.breaks(&[repeated, "only what may pass is tried again (RT-3)"]),
            _ => story.breaks(&[repeated]),
        }
    }
}

#[test]
fn an_effect_must_not_happen_twice() {
    let effect = |number| Fact::EffectHappened { attempt: Story::attempt(1, number) };
    let story = Story::of(Effect::Once, |_| {}).begins(1, 1).fact(effect(1)).at(100).fails(1, 1, DOWN);
    story.at(200).begins(1, 2).fact(effect(2)).breaks(&["an effect happens once (RT-12)"]);
}

#[test]
fn attempts_must_not_exceed_what_is_allowed() {
    let story = Story::of(Effect::ReadOnly, |policy| policy.retry.max_attempts = 1);
    let story = story.begins(1, 1).at(100).fails(1, 1, DOWN).at(200).begins(1, 2);
    story.breaks(&["no more attempts than allowed (RT-1)"]);
}

#[test]
fn what_cannot_pass_must_not_be_tried_again() {
    let story = reads().begins(1, 1).at(100).fails(1, 1, FailureCode::NotFound).at(200).begins(1, 2);
    story.breaks(&["only what may pass is tried again (RT-3)"]);
}

#[test]
fn a_call_must_keep_its_key_and_another_must_not_have_it() {
    let other = |attempt, key| Fact::AttemptBegan { attempt, key, deadline: Duration::from_secs(30) };
    let story = reads().begins(1, 1).at(100).fails(1, 1, DOWN).fact(other(Story::attempt(1, 2), 9));
    story.breaks(&["every attempt of a call has one key (RT-13)"]);
    let story = reads().begins(1, 1).fact(other(Story::attempt(2, 1), 1));
    story.breaks(&["another call has another key (RT-13)"]);
}

#[test]
fn attempts_of_a_call_must_not_overlap() {
    let rules = ["attempts of a call do not overlap"];
    reads().begins(1, 1).at(100).begins(1, 2).breaks(&rules);
}

#[test]
fn tst_06_no_more_attempts_must_run_than_there_are_places() {
    let story = Story::of(Effect::ReadOnly, |policy| policy.concurrency = 1);
    story.begins(1, 1).begins(2, 1).breaks(&["no more attempts than places (LIM-1)"]);
}

#[test]
fn an_attempt_must_not_outlive_its_deadline_nor_get_a_later_one() {
    let story = reads().begins(1, 1).at(30_011).ends(1, 1, AttemptEnd::Dropped);
    story.breaks(&["no attempt outlives its deadline (RT-5)"]);
    let late = Duration::from_millis(30_001);
    let began = Fact::AttemptBegan { attempt: Story::attempt(1, 1), key: 1, deadline: late };
    reads().fact(began).breaks(&["an attempt has no more time than it may (RT-5)"]);
}

#[test]
fn tst_06_retries_must_be_paid_for() {
    let mut story = Story::of(Effect::ReadOnly, |policy| {
        policy.budget.capacity_milli = 2000;
        policy.breaker.consecutive_failures = 100;
    });
    for caller in 1..=3 {
        story = story.begins(caller, 1).fails(caller, 1, DOWN).begins(caller, 2);
    }
    story.breaks(&["retries stay within the budget (RB-1)"]);
}

#[test]
fn a_wait_that_was_asked_for_must_be_kept_by_all() {
    let wait = Failure::rate_limited("Slower.").retry_after(Duration::from_secs(3));
    let story = reads().begins(1, 1).ends(1, 1, AttemptEnd::Failed(wait)).at(1000);
    let gate = "nobody asks before the other side said it may help (RT-9)";
    story.begins(1, 2).begins(2, 1).breaks(&[gate, "a wait that was asked for is kept (RT-8)", gate]);
}

#[test]
fn tst_06_an_open_breaker_must_let_nothing_through() {
    let open = "an open breaker lets nothing through (CB-3)";
    reads().fail_in_a_row(1..6).at(3999).begins(6, 1).breaks(&[open]);
    reads().fail_in_a_row(1..6).at(4000).begins(6, 1).breaks(&[]);
    reads().fail_in_a_row(1..5).at(3999).begins(6, 1).breaks(&[]);
}

#[test]
fn a_failed_probe_must_open_the_breaker_for_longer() {
    let story = reads().fail_in_a_row(1..6).at(6000).begins(6, 1).at(6100).fails(6, 1, DOWN);
    story.at(14_000).begins(7, 1).breaks(&["an open breaker lets nothing through (CB-3)"]);
}

#[test]
fn there_must_be_one_probe_at_a_time_until_enough_have_worked() {
    let story = || reads().fail_in_a_row(1..6).at(6000).begins(6, 1).at(6100);
    story().begins(7, 1).breaks(&["one probe at a time (CB-5)"]);
    let closed = story().ends(6, 1, AttemptEnd::Worked).begins(7, 1).at(6200).ends(7, 1, AttemptEnd::Worked);
    closed.at(6300).begins(8, 1).begins(9, 1).breaks(&[]);
}

/// The end of a call by hand that never reached the tool.
fn answered(failure: Failure, why: StoppedBy) -> Fact {
    let record = CallRecord {
        by: None,
        out_for: None,
        verdict: CallVerdict::Failed(failure),
        attempts: 0,
        waited: Duration::ZERO,
        stopped_by: Some(why),
    };
    Fact::HandEnded { tool: "work".into(), record: Some(Box::new(record)) }
}

#[test]
fn a_call_must_not_wait_while_a_place_is_free() {
    let starved = || answered(Failure::timeout("No place in time."), StoppedBy::Deadline);
    let story = || Story::of(Effect::ReadOnly, |policy| policy.concurrency = 1).begins(1, 1).at(9);
    story().fact(starved()).ends(1, 1, AttemptEnd::Worked).fact(starved()).breaks(&[]);
    let free = story().ends(1, 1, AttemptEnd::Worked).at(10).fact(starved());
    free.breaks(&["a free place is given to who waits (LIM-2)"]);
}

#[test]
fn a_breaker_must_not_refuse_without_a_reason() {
    let refused = || answered(Failure::tool_down("Out of service."), StoppedBy::BreakerOpen);
    reads().fail_in_a_row(1..3).fact(refused()).breaks(&["a breaker opens at its thresholds only (CB-1)"]);
    let open = || reads().fail_in_a_row(1..6).fact(refused()).at(6000).begins(6, 1).fact(refused());
    open().breaks(&[]);
    let throttled = open().fails(6, 1, FailureCode::RateLimited).at(6001).fact(refused());
    throttled.breaks(&["a free probe is given to the next caller (CB-6)"]);
}

#[test]
fn what_cannot_be_told_trips_no_breaker() {
    let story = reads().fail_in_a_row(1..5).begins(5, 1).at(30_000);
    story.ends(5, 1, AttemptEnd::Worked).at(30_001).begins(6, 1).breaks(&[]);
}

#[test]
fn a_tool_that_keeps_breaking_must_go_out_of_service() {
    let mut story = Story::of(Effect::ReadOnly, |policy| policy.breaker.consecutive_failures = 100);
    for caller in 1..=6 {
        story = story.begins(caller, 1).ends(caller, 1, AttemptEnd::Panicked);
    }
    let unserved = || Fact::Unserved { tool: "work".into(), last: "tool_down".to_owned() };
    story
        .fact(unserved())
        .at(1)
        .begins(7, 1)
        .breaks(&["a tool that keeps breaking is taken out of service (SUP-1)"]);
    reads().fact(unserved()).breaks(&["a tool serves again when the faults have ended (TST-5)"]);
}

#[test]
fn a_tool_out_of_service_may_be_asked_again_after_its_cool_down() {
    let mut story = Story::of(Effect::ReadOnly, |policy| policy.breaker.consecutive_failures = 100);
    for caller in 1..=6 {
        story = story.begins(caller, 1).ends(caller, 1, AttemptEnd::Panicked);
    }
    story.at(60_000).begins(7, 1).ends(7, 1, AttemptEnd::Worked).breaks(&[]);
}

#[test]
fn nothing_must_stay_behind() {
    reads().fact(Fact::Rested { running: 1 }).breaks(&["nothing stays behind (TST-5)"]);
}

#[test]
fn a_broken_conversation_is_found() {
    let flaw = Some("`c0` is in the conversation without its answer".to_owned());
    let asked = Fact::ModelAsked { who: Who::Run(1), turn: 2, attempt: 1, flaw };
    reads().fact(asked).breaks(&["a conversation is one that providers take"]);
}

#[test]
fn every_run_must_end_once_and_in_time() {
    let started = || reads().fact(Fact::Did(Operation::Stream(1)));
    started().run_ends(1, StopReason::Completed).breaks(&[]);
    started().breaks(&["every run ends"]);
    started().at(3_605_001).run_ends(1, StopReason::Completed).breaks(&["a run ends within its limits"]);
    let twice = started().run_ends(1, StopReason::Completed).run_ends(1, StopReason::Completed);
    twice.breaks(&["a run ends once", "calls and answers balance (RT-20)"]);
    let broke = StopReason::Internal { code: "orchestrator_lost".into() };
    started().run_ends(1, broke).breaks(&["the runtime does not break"]);
}

#[test]
fn a_run_that_is_out_of_time_must_say_so() {
    let failed = StopReason::ModelFailed { code: FailureCode::Timeout, attempts: 1 };
    let story = reads().fact(Fact::Did(Operation::Stream(1))).at(3_600_000);
    story.run_ends(1, failed).breaks(&["a run that is out of time says so"]);
}

#[test]
fn a_run_that_was_dropped_needs_no_outcome_but_starts_nothing_more() {
    let dropped = reads().fact(Fact::Did(Operation::Run(1))).fact(Fact::Did(Operation::Drop(1)));
    let attempt = Attempt { who: Who::Run(1), ..Story::attempt(1, 1) };
    let began = Fact::AttemptBegan { attempt, key: 1, deadline: Duration::from_secs(30) };
    dropped.at(1).fact(began).breaks(&["a run that nobody wants starts no attempt (RT-15)"]);
}

#[test]
fn a_cancelled_run_must_end_soon() {
    let cancelled = reads().fact(Fact::Did(Operation::Stream(1))).fact(Fact::Did(Operation::Cancel(1)));
    cancelled.at(5001).run_ends(1, StopReason::Completed).breaks(&["a cancelled run ends soon"]);
}

#[test]
fn a_call_that_was_answered_must_not_run_on() {
    let attempt = || Attempt { who: Who::Run(1), ..Story::attempt(1, 1) };
    let asked = Progress::CallAsked {
        call: attempt().call,
        call_id: "c0".into(),
        tool: "work".into(),
        arguments: "{}".into(),
    };
    let ended = Progress::CallEnded {
        call: attempt().call,
        call_id: "c0".into(),
        tool: "work".into(),
        code: None,
        message: None,
        attempts: 0,
        waited: Duration::ZERO,
        stopped_by: None,
    };
    let began = Fact::AttemptBegan { attempt: attempt(), key: 1, deadline: Duration::from_secs(30) };
    let over = Fact::AttemptEnded { attempt: attempt(), end: AttemptEnd::Dropped };
    let story = reads().fact(Fact::Did(Operation::Run(1))).fact(began).saw(1, asked).saw(1, ended);
    story
        .at(1)
        .fact(over)
        .run_ends(1, StopReason::Completed)
        .breaks(&["every attempt is told (RT-18)", "nothing runs on for a call that was answered (RT-15)"]);
}

#[test]
fn tst_05_a_run_after_the_faults_must_complete() {
    let story = reads().fact(Fact::Did(Operation::EndFaults)).fact(Fact::Did(Operation::Stream(1)));
    let story = story.run_ends(1, StopReason::ModelRefusal);
    let checker = Checker::new(vec![Arc::new(story.spec)], RunLimits::default()).expecting_completion();
    let violations = checker.check(&story.history);
    assert_eq!(violations.len(), 1, "{violations:?}");
}
