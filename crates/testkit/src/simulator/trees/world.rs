//! The agents of a world: who may ask whom, on which terms, and what plans there are among them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dauntless_contract::{
    AgentSpec, Effect, MicroUsd, ModelSpec, OnExhausted, PanicPolicy, Price, ResiliencePolicy, RunLimits,
    Tokens, ToolSpec,
};
use dauntless_core::plan::{Face, Join, Plan, PlanSpec, Rule};
use dauntless_core::redact::Redactor;
use dauntless_core::run::RunSpec;
use dauntless_core::toolbox::Toolbox;
use dauntless_core::tree::{Allowance, Hears, Link, LinkKind, Links, OnFailure, delegate_spec};
use serde_json::json;

use crate::simulator::chance::Chance;

/// The most agents of a world.
const AGENTS_MAX: u64 = 50;

/// A tool that changes nothing.
pub(super) const LOOK: &str = "look";
/// A tool that changes the world, and must not do so twice.
pub(super) const ACT: &str = "act";

static NAMES: LazyLock<Vec<Arc<str>>> =
    LazyLock::new(|| (0..AGENTS_MAX).map(|number| format!("agent_{number:02}").into()).collect());

/// Every tool and every agent as a tool: schemas cost more than a run, so they are compiled once.
/// Which of the agents may be asked, the links say.
static TOOLBOX: LazyLock<Toolbox> = LazyLock::new(|| {
    let tool = |name: &str, effect| {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let spec = ToolSpec::new(name, "Does a piece of work.", schema);
        Arc::new(ToolSpec { effect, on_exhausted: OnExhausted::Observe, ..spec })
    };
    let agents = NAMES.iter().map(|name| Arc::new(delegate_spec(Arc::clone(name), "Works.", None)));
    let tools = [tool(LOOK, Effect::ReadOnly), tool(ACT, Effect::Once)];
    Toolbox::build(tools.into_iter().chain(agents).collect()).0
});

/// Who works on a goal.
pub(super) enum Worker {
    Agent(Arc<RunSpec>),
    Plan(Arc<PlanSpec>),
}

/// All agents of one world.
pub(super) struct World {
    pub(super) workers: BTreeMap<Arc<str>, Worker>,
    pub(super) root: Arc<str>,
    /// What the whole tree may use.
    pub(super) limits: RunLimits,
    pub(super) temper: Temper,
}

/// How this world treats those in it, each in percent of the chances for it.
#[derive(Clone, Copy)]
pub(super) struct Temper {
    /// Events around which a process ends.
    pub(super) crash_permille: u32,
    /// Ended processes that nobody starts again.
    pub(super) death: u32,
    /// Ends of runs that never arrive above.
    pub(super) silent: u32,
    /// Ends of runs that arrive much later.
    pub(super) late: u32,
    /// Turns that go to other agents.
    pub(super) delegates: u32,
    /// Replies that lead nowhere, and requests that fail.
    pub(super) unable: u32,
    /// Prompts that are longer than could be known.
    pub(super) wordy: u32,
    /// Worlds of one process, or of some.
    pub(super) workers: u32,
    /// Whether somebody cancels the tree, and when.
    pub(super) cancelled_at: Option<Duration>,
    /// From one run to another.
    pub(super) hop: Duration,
}

impl World {
    /// The world of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 0);
        let (least, most) = if chance.percent(40) { (1, 8) } else { (8, AGENTS_MAX) };
        let count = usize::try_from(chance.between(least, most)).unwrap_or(1);
        // Circles are refused where agents are declared; here they show what holds when they are not.
        let circles = chance.percent(10);
        let names = NAMES.get(..count).unwrap_or_default();
        let limits: Vec<RunLimits> = names.iter().map(|_| own_limits(&mut chance)).collect();
        let mut workers = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            let first = if circles { 0 } else { index + 1 };
            let below: Vec<(&Arc<str>, &RunLimits)> = names.iter().zip(&limits).skip(first).collect();
            let worker = match plan(name, &below, &mut chance) {
                Some(plan) => Worker::Plan(Arc::new(plan)),
                None => Worker::Agent(Arc::new(agent(name, &below, &mut chance))),
            };
            workers.insert(Arc::clone(name), worker);
        }
        let root = names.first().cloned().unwrap_or_default();
        Self { workers, root, limits: root_limits(&mut chance), temper: Temper::draw(&mut chance) }
    }
}

impl Temper {
    fn draw(chance: &mut Chance) -> Self {
        Self {
            crash_permille: chance.pick(&[0, 0, 5, 20, 80]),
            death: chance.pick(&[0, 0, 0, 10]),
            silent: chance.pick(&[0, 0, 0, 3]),
            late: chance.pick(&[0, 0, 5]),
            delegates: chance.pick(&[50, 80, 95]),
            unable: chance.pick(&[0, 0, 3, 10, 25]),
            wordy: chance.pick(&[0, 0, 30]),
            workers: chance.count(1, 4),
            cancelled_at: chance.percent(20).then(|| chance.length_ms(0, 60_000)),
            hop: chance.length_ms(0, 50),
        }
    }
}

fn own_limits(chance: &mut Chance) -> RunLimits {
    RunLimits {
        turns: chance.count(1, 6),
        tokens: Tokens(one_in(8, 300, 20_000, 2_000_000, chance)),
        cost: MicroUsd(one_in(8, 0, 5000, 10_000_000, chance)),
        wall_clock: if chance.percent(30) {
            chance.length_ms(2000, 30_000)
        } else {
            Duration::from_secs(600)
        },
        tool_calls: small(8, 0, 10, 1000, chance),
        depth: small(10, 1, 3, 8, chance),
        children: small(10, 0, 10, 50, chance),
        children_at_once: chance.count(1, 8),
    }
}

fn root_limits(chance: &mut Chance) -> RunLimits {
    RunLimits {
        turns: chance.count(2, 8),
        tokens: Tokens(one_in(4, 500, 20_000, 2_000_000, chance)),
        cost: MicroUsd(one_in(5, 2000, 50_000, 10_000_000, chance)),
        wall_clock: if chance.percent(40) {
            chance.length_ms(10_000, 60_000)
        } else {
            Duration::from_secs(900)
        },
        tool_calls: small(4, 5, 100, 5000, chance),
        depth: small(4, 1, 4, 8, chance),
        children: small(3, 1, 20, 49, chance),
        children_at_once: chance.count(1, 8),
    }
}

/// Plenty, but in one world of so many something between two small numbers.
fn one_in(worlds: u64, low: u64, high: u64, plenty: u64, chance: &mut Chance) -> u64 {
    if chance.below(worlds) == 0 { chance.between(low, high) } else { plenty }
}

/// The same for counts.
fn small(worlds: u64, low: u32, high: u32, plenty: u32, chance: &mut Chance) -> u32 {
    if chance.below(worlds) == 0 { chance.count(low, high) } else { plenty }
}

/// An agent with links to some of those below it.
fn agent(name: &Arc<str>, below: &[(&Arc<str>, &RunLimits)], chance: &mut Chance) -> RunSpec {
    let price = chance.pick(&[0, 1_000_000, 3_000_000]);
    let model = ModelSpec {
        name: "simulated".into(),
        provider: "simulated".into(),
        price: Price {
            input_per_million: MicroUsd(price),
            output_per_million: MicroUsd(2 * price),
            cached_input_per_million: None,
        },
        output_tokens_max: chance.percent(60).then_some(super::mind::REPLY_TOKENS_MAX),
        context_window: None,
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    RunSpec {
        agent: AgentSpec {
            name: Arc::clone(name),
            instructions: "Work.".into(),
            on_panic: PanicPolicy::Observe,
            answer: None,
            ask_user: false,
            notes: false,
            messages: false,
        },
        toolbox: TOOLBOX.clone(),
        answer: None,
        model: Arc::new(model),
        fallbacks: Vec::new(),
        links: links(below, chance),
        redactor: redactor(),
    }
}

fn links(below: &[(&Arc<str>, &RunLimits)], chance: &mut Chance) -> Links {
    let mut chosen = BTreeMap::new();
    for _ in 0..chance.between(1, 6) {
        if let Some((name, limits)) = one_of(below, chance) {
            chosen.insert(Arc::clone(name), *limits);
        }
    }
    let names: Vec<Arc<str>> = chosen.keys().cloned().collect();
    let mut links = Links::new(chosen.iter().map(|(name, limits)| {
        let mut link = Link::new(Arc::clone(name), (*limits).clone());
        if chance.percent(15) {
            link.kind = LinkKind::Handoff;
        }
        if chance.percent(20) {
            link.hears = Hears::Conversation;
        }
        if chance.percent(40) {
            link.policy.on_failure = OnFailure::Observe;
        }
        link.policy.retries = chance.pick(&[0, 0, 1, 2]);
        // Only onward, so that fallbacks lead round in no circle.
        let later: Vec<&Arc<str>> = names.iter().filter(|other| *other > name).collect();
        link.policy.fallback =
            one_of(&later, chance).filter(|_| chance.percent(40)).map(|name| Arc::clone(name));
        link.allowance = allowance(chance);
        link
    }));
    links.join = match chance.below(10) {
        0 => Join::All,
        1 => Join::FirstSuccess,
        2 => Join::Quorum(chance.count(1, 3)),
        _ => Join::BestEffort,
    };
    links
}

fn allowance(chance: &mut Chance) -> Allowance {
    Allowance {
        tokens: chance.percent(15).then(|| Tokens(chance.between(1, 3000))),
        cost: chance.percent(10).then(|| MicroUsd(chance.between(1, 3000))),
        tool_calls: chance.percent(10).then(|| chance.count(0, 10)),
        children: chance.percent(10).then(|| chance.count(0, 10)),
        wall_clock: chance.percent(10).then(|| chance.length_ms(1, 60_000)),
    }
}

/// A plan over some of those below it, for one worker in six.
fn plan(name: &Arc<str>, below: &[(&Arc<str>, &RunLimits)], chance: &mut Chance) -> Option<PlanSpec> {
    if below.is_empty() || !chance.percent(16) {
        return None;
    }
    let face = |limits: &&RunLimits| Face { limits: (*limits).clone(), input: None, output: None };
    let agents = below.iter().map(|(name, limits)| (Arc::clone(name), face(limits))).collect();
    let plan = part(below, 0, chance);
    plan.check(&agents).is_empty().then(|| PlanSpec {
        name: Arc::clone(name),
        plan,
        agents,
        redactor: redactor(),
    })
}

fn part(below: &[(&Arc<str>, &RunLimits)], depth: u32, chance: &mut Chance) -> Plan {
    let parts = |least, most, chance: &mut Chance| -> Vec<Plan> {
        (0..chance.between(least, most)).map(|_| part(below, depth + 1, chance)).collect()
    };
    let rule = || Rule::Contains(super::mind::GOOD.to_owned());
    match chance.below(if depth < 3 { 12 } else { 4 }) {
        4..=5 => Plan::sequence(parts(1, 4, chance)),
        6..=8 => {
            let join = chance.pick(&[Join::All, Join::FirstSuccess, Join::BestEffort, Join::Quorum(2)]);
            let mut branches = parts(2, 5, chance);
            if chance.percent(10) {
                branches.truncate(2);
            }
            match Plan::parallel(join, branches) {
                Plan::Parallel(mut parallel) => {
                    parallel.at_once = chance.count(1, 4);
                    Plan::Parallel(parallel)
                }
                plan => plan,
            }
        }
        9 => Plan::route_by(
            part(below, depth + 1, chance),
            [(rule(), part(below, depth + 1, chance))],
            part(below, depth + 1, chance),
        ),
        10 => part(below, depth + 1, chance).until(rule(), chance.count(1, 4)),
        11 => part(below, depth + 1, chance).improved_by(
            part(below, depth + 1, chance),
            rule(),
            chance.count(1, 3),
        ),
        _ => {
            let name = one_of(below, chance).map(|(name, _)| Arc::clone(name)).unwrap_or_default();
            match chance.percent(50) {
                true => Plan::agent(name),
                false => Plan::agent_on(name, "Use this: {input}"),
            }
        }
    }
}

pub(super) fn one_of<'a, T>(of: &'a [T], chance: &mut Chance) -> Option<&'a T> {
    of.get(usize::try_from(chance.below(of.len() as u64)).unwrap_or(0))
}

#[expect(clippy::expect_used, reason = "without secrets and patterns there is nothing to refuse")]
fn redactor() -> Redactor {
    static NONE: LazyLock<Redactor> =
        LazyLock::new(|| Redactor::new([], &[]).expect("no pattern is a bad one"));
    NONE.clone()
}
