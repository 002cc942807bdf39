//! Chance from a seed: what happens to one attempt.
//!
//! Every attempt has its own draws, each for one question, so that no answer moves another: a
//! higher rate strikes wherever a lower one did, and another list of faults strikes the same attempts.

use std::fmt;
use std::time::Duration;

use super::{ChaosPlan, FaultKind};

/// SplitMix64's increment.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// What happens to one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) latency: Duration,
    pub(super) fault: Option<(FaultKind, Moment)>,
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The tool is not called.
    Before,
    /// The tool has done its work, and its answer is lost.
    After,
}

impl Draw {
    /// What the plan and chance have in store for the attempt at this place.
    pub(super) fn of(plan: &ChaosPlan, seed: u64, tool: &str, place: [u64; 4]) -> Self {
        let name = tool.bytes().map(u64::from);
        let origin = name.chain(place).fold(mix(seed), |state, part| mix(state ^ part));
        let draw = |question: u64| mix(origin.wrapping_add(question.wrapping_mul(STRIDE)));
        let (from, to) = plan.latency.clone().into_inner();
        let strikes = unit(draw(1)) < plan.rate;
        let kind = plan.kinds.get(below(draw(2), plan.kinds.len())).copied().filter(|_| strikes);
        Self {
            latency: from + to.saturating_sub(from).mul_f64(unit(draw(3))),
            fault: kind.map(|kind| {
                let comes_late = kind.can_hide_an_effect() && unit(draw(4)) < plan.after_effect_ratio;
                (kind, if comes_late { Moment::After } else { Moment::Before })
            }),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "in place of the call",
            Self::After => "after the call",
        })
    }
}

/// SplitMix64's step and output: neighbouring numbers become strangers.
const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(STRIDE);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// From 0, included, to 1, excluded; all equally likely.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit into a float")]
const fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// From 0 to below `bound`; 0 where nothing is below it.
fn below(draw: u64, bound: usize) -> usize {
    let scaled = (u128::from(draw) * bound as u128) >> 64;
    usize::try_from(scaled).unwrap_or_default()
}
