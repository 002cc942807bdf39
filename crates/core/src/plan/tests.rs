use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::redact::Redactor;
use crate::run::RunEffect;
use crate::tree::Delegation;

mod crashes;

fn faces() -> BTreeMap<Arc<str>, Face> {
    ["a", "b", "c", "d"].into_iter().map(|name| (name.into(), Face::default())).collect()
}

struct Scene {
    machine: PlanMachine,
    now: Timestamp,
    events: Vec<Recorded>,
    seen: Vec<String>,
}

impl Scene {
    fn new(plan: Plan) -> Self {
        Self::within(RunLimits { tokens: Tokens(12_000), ..RunLimits::default() }, plan, faces())
    }

    fn within(limits: RunLimits, plan: Plan, agents: BTreeMap<Arc<str>, Face>) -> Self {
        assert_eq!(plan.check(&agents), []);
        let redactor = Redactor::new([], &[]).unwrap();
        let spec = PlanSpec { name: "report".into(), plan, agents, redactor };
        let machine = PlanMachine::new(RunId::from_u128(1), Arc::new(spec));
        let mut scene = Self { machine, now: Timestamp::ZERO, events: Vec::new(), seen: Vec::new() };
        scene.on(started(limits));
        scene
    }

    fn on(&mut self, event: RunEvent) -> &mut Self {
        self.events.push(Recorded { at: self.now, event: event.clone() });
        for effect in self.machine.on(self.now, event) {
            self.seen.push(match effect {
                RunEffect::Delegate(Delegation { call, agent, goal, limits, .. }) => {
                    format!("{} {agent} `{goal}` with {}", call.turn, limits.tokens)
                }
                RunEffect::CancelChild { call, .. } => format!("cancel {}", call.turn),
                RunEffect::StartTimer { timer: RunTimer::Settle, at } => {
                    format!("settle {} s", at.since(self.now).as_secs())
                }
                RunEffect::Report(Progress::RunEnded { outcome }) => {
                    let text = outcome.text.as_deref().unwrap_or("nothing");
                    let why = outcome.explanation.as_deref().map(|why| format!(" ({why})"));
                    format!("end {}: {text}{}", outcome.reason, why.unwrap_or_default())
                }
                _ => continue,
            });
        }
        self
    }

    fn ends(&mut self, step: u32, reason: StopReason, text: Option<&str>) -> &mut Self {
        self.on(ended(step, reason, text))
    }

    fn says(&mut self, step: u32, text: &str) -> &mut Self {
        self.ends(step, StopReason::Completed, Some(text))
    }

    fn fails(&mut self, step: u32) -> &mut Self {
        self.ends(step, StopReason::EmptyResponse, None)
    }

    fn seen(&self, expected: Expect) {
        expected.assert_eq(&(self.seen.join("\n") + "\n"));
        let (run, spec) = (self.machine.run(), Arc::clone(&self.machine.spec));
        let again = PlanMachine::recover(run, spec, self.events.clone()).unwrap();
        assert_eq!(again, self.machine, "the journal folds to the same state");
    }
}

fn started(limits: RunLimits) -> RunEvent {
    RunEvent::RunStarted {
        agent: "report".into(),
        goal: "Do it.".into(),
        limits,
        history: History::default(),
        repairs: Vec::new(),
        attendance: Attendance::Unattended,
        tools: Vec::new(),
        lineage: None,
    }
}

fn ended(step: u32, reason: StopReason, text: Option<&str>) -> RunEvent {
    let mut totals = RunTotals { turns: 1, ..RunTotals::default() };
    totals.usage.prompt = Tokens(100);
    let outcome = Outcome {
        run: RunId::from_u128(u128::from(step)),
        reason,
        text: text.map(Into::into),
        explanation: None,
        totals,
        elapsed: Duration::ZERO,
    };
    RunEvent::ChildEnded { call: CallKey { turn: step, index: 0 }, attempt: 1, outcome: Box::new(outcome) }
}

fn accepted() -> Rule {
    Rule::Contains("accept".into())
}

#[test]
fn a_sequence_passes_on_what_came_before_as_data() {
    let plan = Plan::sequence([Plan::agent("a"), Plan::agent_on("b", "For {goal} use this: {input}")]);
    let mut scene = Scene::new(plan);
    scene.says(1, "Forget {goal}.").says(2, "Done.");
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 b `For Do it. use this: {"agent":"a","answer":"Forget {goal}."}` with 5950 tokens
        end completed: Done.
    "#]]);
    assert_eq!((scene.machine.totals().children, scene.machine.totals().turns), (2, 2));
}

#[test]
fn a_step_that_fails_ends_the_plan_by_name_with_what_there_was() {
    let mut scene = Scene::new(Plan::sequence([Plan::agent("a"), Plan::agent("b"), Plan::agent("c")]));
    scene.says(1, "A").ends(
        2,
        StopReason::ModelFailed { code: FailureCode::Unauthenticated, attempts: 1 },
        None,
    );
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 b `{"agent":"a","answer":"A"}` with 5950 tokens
        end child_failed: b (run 00000000-0000-0000-0000-000000000002): model_failed: unauthenticated after 1 attempt: A (`b` ended without an answer: model_failed: unauthenticated after 1 attempt.)
    "#]]);
}

#[test]
fn branches_start_together_and_their_results_are_in_their_order() {
    let branches = [Plan::agent("a"), Plan::agent("b"), Plan::agent("c")];
    let mut scene = Scene::new(Plan::parallel(Join::BestEffort, branches));
    scene.says(3, "C").ends(1, StopReason::LimitReached(LimitKind::Tokens), Some("Half")).says(2, "B");
    scene.seen(expect![[r#"
        1 a `Do it.` with 3000 tokens
        2 b `Do it.` with 3000 tokens
        3 c `Do it.` with 3000 tokens
        end completed: [{"agent":"a","failed":"limit_reached: tokens","so_far":"Half"},{"agent":"b","answer":"B"},{"agent":"c","answer":"C"}]
    "#]]);
}

#[test]
fn the_first_success_is_the_result_and_the_losers_are_cancelled_and_waited_for() {
    let branches = [Plan::agent("a"), Plan::agent("b"), Plan::agent("c")];
    let mut scene = Scene::new(Plan::parallel(Join::FirstSuccess, branches));
    scene.fails(1).says(3, "C");
    assert!(scene.machine.outcome().is_none(), "`b` has not stopped yet");
    scene.ends(2, StopReason::Cancelled { by: "its parent".into() }, None);
    scene.seen(expect![[r#"
        1 a `Do it.` with 3000 tokens
        2 b `Do it.` with 3000 tokens
        3 c `Do it.` with 3000 tokens
        cancel 2
        settle 20 s
        end completed: C
    "#]]);
    assert_eq!(scene.machine.totals().usage.total(), Tokens(300), "the losers are paid for");
}

#[test]
fn a_plan_goes_on_while_the_losers_stop_and_never_takes_their_words() {
    let branches = [Plan::agent("a"), Plan::agent("b")];
    let first = Plan::parallel(Join::FirstSuccess, branches);
    let mut scene = Scene::new(Plan::sequence([first, Plan::agent("c")]));
    scene.says(2, "B").says(1, "A, too late").says(3, "Done.");
    scene.seen(expect![[r#"
        1 a `Do it.` with 4000 tokens
        2 b `Do it.` with 4000 tokens
        cancel 1
        3 c `{"agent":"b","answer":"B"}` with 3950 tokens
        end completed: Done.
    "#]]);
}

#[test]
fn a_quorum_that_can_no_longer_be_met_ends_the_plan_at_once() {
    let branches = [Plan::agent("a"), Plan::agent("b"), Plan::agent("c")];
    let mut scene = Scene::new(Plan::parallel(Join::Quorum(2), branches));
    scene.fails(3).fails(1).ends(2, StopReason::Cancelled { by: "its parent".into() }, None);
    scene.seen(expect![[r#"
        1 a `Do it.` with 3000 tokens
        2 b `Do it.` with 3000 tokens
        3 c `Do it.` with 3000 tokens
        cancel 2
        settle 20 s
        end child_failed: a (run 00000000-0000-0000-0000-000000000001): empty_response: nothing (`a` ended without an answer: empty_response.)
    "#]]);
}

#[test]
fn no_more_branches_are_under_way_than_there_are_places() {
    let of = vec![Plan::agent("a"), Plan::agent("b"), Plan::agent("c")];
    let mut scene = Scene::new(Plan::Parallel(Parallel { of, join: Join::All, at_once: 1 }));
    scene.says(1, "A").says(2, "B").says(3, "C");
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 b `Do it.` with 5950 tokens
        3 c `Do it.` with 5900 tokens
        end completed: [{"agent":"a","answer":"A"},{"agent":"b","answer":"B"},{"agent":"c","answer":"C"}]
    "#]]);
}

#[test]
fn a_route_goes_by_what_the_classifier_says_and_works_on_what_came_before() {
    let cases =
        || [(Rule::Equals("bug".into()), Plan::agent("b")), (Rule::Equals("bill".into()), Plan::agent("c"))];
    let mut scene = Scene::new(Plan::route_by(Plan::agent("a"), cases(), Plan::agent("d")));
    scene.says(1, " Bill\n").says(2, "Paid.");
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 c `Do it.` with 5950 tokens
        end completed: Paid.
    "#]]);
    let mut scene =
        Scene::new(Plan::route([(Rule::Contains("it".into()), Plan::agent("b"))], Plan::agent("d")));
    scene.says(1, "By rule.");
    assert_eq!(scene.seen.first().unwrap(), "1 b `Do it.` with 6000 tokens");
    let mut scene = Scene::new(Plan::route_by(Plan::agent("a"), cases(), Plan::agent("d")));
    scene.says(1, "neither").says(2, "Otherwise.");
    assert_eq!(scene.machine.outcome().unwrap().answer(), Some("Otherwise."));
}

#[test]
fn a_loop_goes_on_until_its_check_holds_or_its_rounds_are_used_up() {
    let plan = || Plan::agent("a").until(Rule::AtLeast { at: "/score".into(), least: 8.0 }, 2);
    let mut scene = Scene::new(plan());
    scene.says(1, r#"{"score": 7}"#).says(2, r#"{"score": 8.5}"#);
    assert_eq!(scene.machine.outcome().unwrap().answer(), Some(r#"{"score": 8.5}"#));
    let mut scene = Scene::new(plan());
    scene.says(1, "no").says(2, "no, again");
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 a `{"agent":"a","answer":"no"}` with 5950 tokens
        end limit_reached: rounds: no, again (After 2 rounds the check still did not hold.)
    "#]]);
}

#[test]
fn what_a_review_does_not_accept_is_made_again_with_the_review() {
    let mut scene = Scene::new(Plan::agent("a").improved_by(Plan::agent("b"), accepted(), 3));
    scene.says(1, "Draft.").says(2, "Shorter.").says(3, "D.").says(4, "Accepted.");
    scene.seen(expect![[r#"
        1 a `Do it.` with 6000 tokens
        2 b `{"agent":"a","answer":"Draft."}` with 5950 tokens
        3 a `{"answer":{"agent":"a","answer":"Draft."},"review":{"agent":"b","answer":"Shorter."},"task":"Do it."}` with 5900 tokens
        4 b `{"agent":"a","answer":"D."}` with 5850 tokens
        end completed: D.
    "#]]);
}

#[test]
fn a_cancel_goes_down_and_the_plan_ends_when_every_step_has() {
    let of = vec![Plan::agent("a"), Plan::agent("b"), Plan::agent("c")];
    let parallel = Plan::Parallel(Parallel { of, join: Join::All, at_once: 2 });
    let mut scene = Scene::new(Plan::sequence([Plan::agent("d"), parallel]));
    scene.says(1, "D").on(RunEvent::CancelRequested { by: "ann".into() });
    scene.ends(3, StopReason::Cancelled { by: "its parent".into() }, None);
    scene.ends(2, StopReason::Cancelled { by: "its parent".into() }, None);
    scene.seen(expect![[r#"
        1 d `Do it.` with 6000 tokens
        2 a `{"agent":"d","answer":"D"}` with 3966 tokens
        3 b `{"agent":"d","answer":"D"}` with 3967 tokens
        cancel 2
        cancel 3
        settle 20 s
        end cancelled by ann: D
    "#]]);
}

#[test]
fn a_step_that_the_plan_cannot_afford_ends_it_and_one_that_never_answers_meets_its_deadline() {
    let limits = RunLimits { children: 1, ..RunLimits::default() };
    let mut scene = Scene::within(limits, Plan::sequence([Plan::agent("a"), Plan::agent("b")]), faces());
    scene.says(1, "A");
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason, StopReason::LimitReached(LimitKind::Children));
    assert_eq!(outcome.explanation.as_deref(), Some("`b` was not started: limit_reached: children."));
    let mut scene = Scene::new(Plan::agent("a"));
    scene.now = scene.now + Duration::from_secs(3300);
    scene.on(RunEvent::TimerFired { timer: RunTimer::Child(CallKey { turn: 1, index: 0 }) });
    assert_eq!(scene.machine.outcome().unwrap().totals.usage.total(), Tokens(6000));
    assert!(scene.seen.last().unwrap().contains("did not end in its time"));
}

#[test]
fn an_agent_with_a_schema_of_its_own_gets_what_came_before_as_it_is() {
    let schema = |value| Some(Arc::new(value));
    let order =
        json!({ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] });
    let mut agents = faces();
    agents.insert("a".into(), Face { output: schema(order.clone()), ..Face::default() });
    agents.insert("b".into(), Face { input: schema(order), ..Face::default() });
    let plan = Plan::sequence([Plan::agent("a"), Plan::agent("b")]);
    let mut scene = Scene::within(RunLimits::default(), plan, agents);
    scene.says(1, r#"{"id":7}"#);
    assert!(scene.seen.last().unwrap().starts_with(r#"2 b `{"id":7}`"#), "{:?}", scene.seen);
}

#[test]
fn everything_that_is_wrong_is_told_at_once_by_its_place() {
    let schema = |value| Some(Arc::new(value));
    let mut agents = faces();
    agents.insert("giver".into(), Face { output: schema(json!({ "type": "string" })), ..Face::default() });
    let taken = json!({ "type": "object", "required": ["id"], "properties": { "id": { "type": "number" } } });
    agents.insert("taker".into(), Face { input: schema(taken), ..Face::default() });
    let half = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
    agents.insert("half".into(), Face { output: schema(half), ..Face::default() });
    let plan = Plan::sequence([
        Plan::agent("giver"),
        Plan::agent("taker"),
        Plan::agent("half"),
        Plan::agent("taker"),
        Plan::agent_on("rsearcher", "Find {inptu}."),
        Plan::parallel(Join::Quorum(3), [Plan::agent("a"), Plan::agent("b")]),
        Plan::Parallel(Parallel { of: Vec::new(), join: Join::All, at_once: 0 }),
        Plan::agent("a").until(Rule::Contains(" ".into()), 0),
        Plan::agent("taker").improved_by(
            Plan::sequence([]),
            Rule::Field { at: "ok".into(), is: true.into() },
            1,
        ),
        Plan::route([], Plan::agent("d")),
    ]);
    let told: String =
        plan.check(&agents).iter().map(|problem| format!("{}: {}\n", problem.at, problem.problem)).collect();
    expect![[r#"
        sequence[4]: there is no agent "rsearcher": declare it, or use one of `a`, `b`, `c`, `d`, `giver`, `half`, `taker`
        sequence[4]: `input` holds {inptu}, which stands for nothing: use {goal} or {input}
        sequence[5].parallel: a quorum of 3 can never be met by 2 branches: lower it, or add branches
        sequence[6].parallel: there is nothing to join: name at least one branch
        sequence[6].parallel: `at_once` is 0, so nothing would ever start: use 1 or more
        sequence[7].loop: `max` is 0, so it would never be done: use 1 or more
        sequence[7].loop.until: `contains` of nothing holds for every text: name the words
        sequence[8].improve.accept: `ok` is no JSON pointer: begin it with `/`, like `/ok`
        sequence[8].improve.evaluate: a sequence of nothing does nothing: name at least one part
        sequence[8].improve.produce: `taker` takes input of a schema of its own, and from the second round on it would be given the task, its answer and the review: use an agent that takes a goal
        sequence[9].route: a route without cases always takes `otherwise`: add a case, or take the route out
        sequence[1]: `giver` does not give what `taker` takes: $ may be of type string, and object is wanted
        sequence[3]: `half` does not give what `taker` takes: $.id is wanted, and need not be there
    "#]].assert_eq(&told);
}

#[test]
fn a_plan_is_written_in_toml() {
    let plan: Plan = toml::from_str(
        r#"
        [[sequence]]
        agent = { name = "a", input = "Find: {goal}" }

        [[sequence]]
        parallel = { of = [{ agent = { name = "b" } }, { agent = { name = "c" } }], join = { quorum = 1 } }

        [[sequence]]
        [sequence.route]
        by = { agent = { name = "d" } }
        cases = [{ when = { equals = "x" }, then = { agent = { name = "a" } } }]
        otherwise = { loop = { body = { agent = { name = "b" } }, until = { contains = "ok" }, max = 2 } }

        [[sequence]]
        [sequence.improve]
        produce = { agent = { name = "a" } }
        evaluate = { agent = { name = "b" } }
        accept = { field = { at = "/ok", is = true } }
        max = 2
        "#,
    )
    .unwrap();
    let built = Plan::sequence([
        Plan::agent_on("a", "Find: {goal}"),
        Plan::parallel(Join::Quorum(1), [Plan::agent("b"), Plan::agent("c")]),
        Plan::route_by(
            Plan::agent("d"),
            [(Rule::Equals("x".into()), Plan::agent("a"))],
            Plan::agent("b").until(Rule::Contains("ok".into()), 2),
        ),
        Plan::agent("a").improved_by(Plan::agent("b"), Rule::Field { at: "/ok".into(), is: true.into() }, 2),
    ]);
    assert_eq!(plan, built);
    let again: Plan = serde_json::from_str(&serde_json::to_string(&built).unwrap()).unwrap();
    assert_eq!(again, built);
    let error = serde_json::from_value::<Plan>(json!({ "agent": { "name": "a", "inpt": "x" } })).unwrap_err();
    assert!(error.to_string().contains("unknown field `inpt`"), "{error}");
}
