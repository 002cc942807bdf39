//! What the runs do: which number is whose, what its model asks for in each turn, and how it ends.
//!
//! All of it follows from the number in the goal, so that model, tools and judge agree without a
//! word, whatever becomes of the workers.

use super::ledger::Class;
use crate::chance::Chance;

/// Numbers that a run at the top has for itself and for all below it.
const FAMILY: u64 = 100;
/// The place in the family of the agent that asks others in its turn.
const LEAD: u64 = 10;
/// The place of the one that never has an answer.
const IDLER: u64 = 20;
/// Turns of a clerk that works for others, in which it calls tools.
const TURNS: u32 = 3;

/// What a run at the top is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A clerk that works alone.
    Alone,
    /// A tree of three levels that waits for all.
    Whole,
    /// One that cancels the others when the first has its answer.
    Hasty,
    /// The first tree, with less than it needs.
    Tight,
    /// The first tree, cancelled from outside on its way.
    Dropped,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Alone, Self::Whole, Self::Hasty, Self::Tight, Self::Dropped];

    /// What the run with this number is, or the one at the top of its tree.
    pub fn of(number: u64) -> Self {
        Self::ALL
            .into_iter()
            .cycle()
            .nth(usize::try_from(number / FAMILY).unwrap_or(0))
            .unwrap_or(Self::Alone)
    }

    /// The agent at the top.
    pub const fn agent(self) -> &'static str {
        match self {
            Self::Alone => "clerk",
            Self::Whole | Self::Dropped => "head",
            Self::Hasty => "hasty",
            Self::Tight => "tight",
        }
    }

    /// For a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Whole => "trees",
            Self::Hasty => "first success",
            Self::Tight => "tight limits",
            Self::Dropped => "cancelled",
        }
    }
}

/// One call of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of a tool.
    Use(Class),
    /// Of another agent.
    Ask {
        /// Which.
        agent: &'static str,
        /// The number of the run that works on it.
        number: u64,
    },
}

/// The number of the `nth` run at the top.
pub const fn top(nth: u64) -> u64 {
    nth * FAMILY
}

/// The number of the run at the top of this one's tree.
pub const fn top_of(number: u64) -> u64 {
    number - number % FAMILY
}

/// Whether another run asks for this one.
pub const fn is_below(number: u64) -> bool {
    !number.is_multiple_of(FAMILY)
}

/// How many runs there may be for the call that asks for this one.
pub const fn tries(number: u64) -> usize {
    if number % FAMILY == IDLER { 2 } else { 1 }
}

/// What the model asks for in a turn; nothing where it gives its answer. `turns` are those of a clerk
/// that works alone.
pub fn steps(seed: u64, turns: u32, number: u64, turn: u32) -> Vec<Step> {
    let top = top_of(number);
    let ask = |agent, place| Step::Ask { agent, number: top + place };
    let clerk = |place| ask("clerk", place);
    match (Shape::of(number), number % FAMILY, turn) {
        (Shape::Alone, ..) if turn <= turns => calls(seed, number, turn),
        (Shape::Hasty, 0, 1) => vec![clerk(1), ask("lead", LEAD), clerk(2)],
        // The one that is first.
        (Shape::Alone, ..) | (Shape::Hasty, 0, _) | (Shape::Hasty, 1, 2..) => Vec::new(),
        (_, 0, 1) => vec![clerk(1), clerk(2), ask("lead", LEAD), Step::Use(Class::Once)],
        (_, 0, 2) => vec![ask("idler", IDLER), clerk(3), Step::Use(Class::Keyed)],
        (_, LEAD, 1) => vec![Step::Use(Class::Verifiable), clerk(LEAD + 1), clerk(LEAD + 2)],
        (_, 0 | LEAD | IDLER, _) => Vec::new(),
        _ if turn <= TURNS => calls(seed, number, turn),
        _ => Vec::new(),
    }
}

/// Two to four calls, at random.
fn calls(seed: u64, number: u64, turn: u32) -> Vec<Step> {
    let mut chance = Chance::new(seed ^ (number << 20) ^ u64::from(turn));
    let count = 2 + chance.below(3);
    (0..count).filter_map(|_| chance.pick(&Class::ALL)).map(Step::Use).collect()
}

/// The run that asks for this one, and in which turn.
pub fn asked_by(number: u64) -> Option<(u64, u32)> {
    let top = top_of(number);
    let turns = [top, top + LEAD].into_iter().flat_map(|parent| [(parent, 1), (parent, 2)]);
    let asks = |step: Step| matches!(step, Step::Ask { number: asked, .. } if asked == number);
    // Seed and turns are of clerks, which ask nobody.
    turns.into_iter().find(|(parent, turn)| steps(0, 0, *parent, *turn).into_iter().any(asks))
}

/// The runs above this one, nearest first, each with the turn in which it asked.
pub fn above(number: u64) -> impl Iterator<Item = (u64, u32)> {
    std::iter::successors(asked_by(number), |(parent, _)| asked_by(*parent))
}

/// Whether a run may end for this reason.
pub fn may_end_with(number: u64, reason: &str) -> bool {
    let may = |reasons: &[&str]| reasons.iter().any(|may| reason.starts_with(may));
    match (Shape::of(number), number % FAMILY) {
        (Shape::Tight, 0) => may(&["limit_reached"]),
        (Shape::Dropped, IDLER) => may(&["malformed_output", "cancelled"]),
        (_, IDLER) => may(&["malformed_output"]),
        (Shape::Tight, _) => may(&["completed", "limit_reached"]),
        (Shape::Hasty, 1..) | (Shape::Dropped, _) => may(&["completed", "cancelled"]),
        (Shape::Alone | Shape::Whole | Shape::Hasty, _) => may(&["completed"]),
    }
}

#[cfg(test)]
mod tests;
