use proptest::prelude::*;

use super::*;

fn purse(limits: &RunLimits, used: u64) -> Purse<'_> {
    let mut totals = RunTotals::default();
    totals.usage.prompt = Tokens(used);
    Purse::new(limits, &totals, [])
}

fn ask<'a>(own: &'a RunLimits, allowance: &'a Allowance, shares: u32) -> Ask<'a> {
    Ask { own, allowance, shares }
}

const HOUR: Timestamp = Timestamp::from_micros(3_600_000_000);

#[test]
fn siblings_get_equal_shares_and_the_giver_keeps_one() {
    let limits = RunLimits { tokens: Tokens(1000), children: 10, ..RunLimits::default() };
    let (own, none) = (RunLimits::default(), Allowance::default());
    let mut running = Vec::new();
    for waiting in [3, 2, 1] {
        let purse = Purse::new(&limits, &RunTotals::default(), &running);
        running.push(purse.grant(&ask(&own, &none, waiting + 1), Timestamp::ZERO, HOUR).unwrap());
    }
    assert_eq!(running.iter().map(|child| child.tokens.0).collect::<Vec<_>>(), [250; 3]);
    assert!(running.iter().all(|child| child.depth == limits.depth - 1));
    assert!(running.iter().all(|child| child.wall_clock == Duration::from_secs(3240)));
    assert_eq!(Purse::new(&limits, &RunTotals::default(), &running).left().tokens, Tokens(250));
}

#[test]
fn a_named_slice_is_kept_to_and_never_exceeds_what_is_left() {
    let (limits, own) = (RunLimits { tokens: Tokens(1000), ..RunLimits::default() }, RunLimits::default());
    let named = Allowance { tokens: Some(Tokens(700)), ..Allowance::default() };
    let grant = |used| purse(&limits, used).grant(&ask(&own, &named, 2), Timestamp::ZERO, HOUR);
    assert_eq!(grant(0).unwrap().tokens, Tokens(700));
    assert_eq!(grant(600).unwrap().tokens, Tokens(400));
}

#[test]
fn a_limit_that_is_used_up_exactly_refuses_the_child_and_never_means_unlimited() {
    let (own, none) = (RunLimits::default(), Allowance::default());
    let refused =
        |limits: RunLimits, used, at| purse(&limits, used).grant(&ask(&own, &none, 2), at, HOUR).unwrap_err();
    let limits = RunLimits { tokens: Tokens(1000), ..RunLimits::default() };
    assert_eq!(refused(limits.clone(), 1000, Timestamp::ZERO), LimitKind::Tokens);
    assert_eq!(refused(limits.clone(), 999, Timestamp::ZERO), LimitKind::Tokens, "a share of nothing");
    assert_eq!(refused(limits.clone(), 0, HOUR), LimitKind::WallClock);
    assert_eq!(refused(RunLimits { children: 0, ..limits.clone() }, 0, Timestamp::ZERO), LimitKind::Children);
    assert_eq!(refused(RunLimits { depth: 1, ..limits.clone() }, 0, Timestamp::ZERO), LimitKind::Depth);
    assert_eq!(refused(RunLimits { depth: 0, ..limits.clone() }, 0, Timestamp::ZERO), LimitKind::Depth);
    assert_eq!(refused(RunLimits { cost: MicroUsd(1), ..limits }, 0, Timestamp::ZERO), LimitKind::Cost);
}

#[test]
fn turns_are_the_childs_own_and_are_not_taken_from_its_parent() {
    let limits = RunLimits { turns: 90, ..RunLimits::default() };
    let own = RunLimits { turns: 50, ..RunLimits::default() };
    let totals = RunTotals { turns: 89, ..RunTotals::default() };
    let granted =
        Purse::new(&limits, &totals, []).grant(&ask(&own, &Allowance::default(), 4), Timestamp::ZERO, HOUR);
    assert_eq!(granted.unwrap().turns, 50);
}

/// A tree of runs that spend what they have, start children and end.
#[derive(Debug)]
struct Node {
    limits: RunLimits,
    totals: RunTotals,
    children: Vec<Node>,
}

impl Node {
    fn new(limits: RunLimits) -> Self {
        Self { limits, totals: RunTotals::default(), children: Vec::new() }
    }

    fn left(&self) -> Slice {
        Purse::new(&self.limits, &self.totals, self.children.iter().map(|child| &child.limits)).left()
    }

    /// Everything that was used in this tree, by those that run and those that ended.
    fn used(&self) -> Slice {
        let alive = Slice { children: u32::try_from(self.children.len()).unwrap(), ..Slice::default() };
        self.children.iter().map(Self::used).fold(Slice::of_totals(&self.totals).plus(alive), Slice::plus)
    }

    fn depth(&self) -> u32 {
        1 + self.children.iter().map(Self::depth).max().unwrap_or(0)
    }

    fn act(&mut self, way: &[usize], what: usize, amount: u64) {
        let count = self.children.len();
        match way.split_first() {
            Some((next, rest)) if count > 0 => self.children[next % count].act(rest, what, amount),
            _ => match what {
                0 => {
                    self.totals.usage.prompt += Tokens(amount.min(self.left().tokens.0));
                    self.totals.cost += MicroUsd((amount / 3).min(self.left().cost.0));
                    self.totals.tool_calls += u32::try_from(amount % 3).unwrap().min(self.left().tool_calls);
                }
                1 => {
                    let named = Allowance { tokens: Some(Tokens(amount)), ..Allowance::default() };
                    let none = Allowance::default();
                    let ask = Ask {
                        own: &RunLimits::default(),
                        allowance: if amount.is_multiple_of(2) { &named } else { &none },
                        shares: u32::try_from(amount % 5).unwrap(),
                    };
                    let limits = self.limits.clone();
                    let running = self.children.iter().map(|child| &child.limits);
                    let purse = Purse::new(&limits, &self.totals, running);
                    if let Ok(granted) = purse.grant(&ask, Timestamp::ZERO, HOUR) {
                        self.children.push(Self::new(granted));
                    }
                }
                _ => {
                    if let Some(ended) = self.children.pop() {
                        let Slice { tokens, cost, tool_calls, children } = ended.used();
                        let mut totals = RunTotals { cost, tool_calls, children, ..RunTotals::default() };
                        totals.usage.prompt = tokens;
                        self.totals += totals;
                        self.totals.children += 1;
                    }
                }
            },
        }
    }

    fn holds(&self) {
        let (used, all) = (self.used(), Slice::of_limits(&self.limits));
        assert_eq!(used.minus(all), Slice::default(), "{used:?} of {all:?}");
        assert!(self.depth() <= self.limits.depth);
        self.children.iter().for_each(Self::holds);
    }
}

proptest! {
    #[test]
    fn what_a_tree_uses_never_exceeds_the_limits_of_any_run_in_it(
        steps in prop::collection::vec((prop::collection::vec(0..4usize, 0..5), 0..3usize, 0..5000u64), 1..200),
    ) {
        let mut root = Node::new(RunLimits {
            tokens: Tokens(20_000),
            cost: MicroUsd(3000),
            tool_calls: 40,
            children: 12,
            ..RunLimits::default()
        });
        for (way, what, amount) in steps {
            root.act(&way, what, amount);
            root.holds();
        }
    }
}
