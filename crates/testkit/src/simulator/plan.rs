//! What a simulation does to the runtime, drawn beforehand.

use std::sync::Arc;
use std::time::Duration;

use super::chance::Chance;
use super::history::Operation;

/// One operation, and the time that passes before it.
pub(super) struct Step {
    pub(super) after: Duration,
    pub(super) operation: Operation,
}

/// How a simulation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The faults end, everything comes to rest, then the runtime is shut down.
    Calm,
    /// It is shut down in the middle of everything.
    Abrupt,
}

pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
}

impl Plan {
    /// At most `runs_max` runs, and calls by hand of the named tools.
    pub(super) fn draw(seed: u64, runs_max: u32, by_hand: &[Arc<str>]) -> Self {
        let mut chance = Chance::new(seed, 3);
        let runs = chance.count(1, runs_max.max(1));
        let (mut streams, mut futures) = (Vec::new(), Vec::new());
        let mut steps = Vec::new();
        let count = chance.count(runs + 2, runs * 3 + 4);
        let mut started = 0;
        while started < runs || steps.len() < usize::try_from(count).unwrap_or(usize::MAX) {
            let after = if chance.percent(40) { Duration::ZERO } else { chance.length_ms(1, 6000) };
            let operation = match chance.below(100) {
                _ if started == 0 => start(&mut started, &mut streams, &mut futures, &mut chance),
                0..40 if started < runs => start(&mut started, &mut streams, &mut futures, &mut chance),
                40..50 if !streams.is_empty() => Operation::Cancel(chance.pick(&streams)),
                50..60 if !futures.is_empty() => Operation::Drop(chance.pick(&futures)),
                60.. if !by_hand.is_empty() => {
                    let index = usize::try_from(chance.below(by_hand.len() as u64)).unwrap_or(0);
                    let Some(tool) = by_hand.get(index) else { continue };
                    Operation::ByHand { tool: Arc::clone(tool) }
                }
                _ if started < runs => start(&mut started, &mut streams, &mut futures, &mut chance),
                _ => break,
            };
            steps.push(Step { after, operation });
        }
        let ending = if chance.percent(20) { Ending::Abrupt } else { Ending::Calm };
        Self { steps, ending }
    }
}

fn start(
    started: &mut u32,
    streams: &mut Vec<u32>,
    futures: &mut Vec<u32>,
    chance: &mut Chance,
) -> Operation {
    *started += 1;
    if chance.percent(70) {
        streams.push(*started);
        Operation::Stream(*started)
    } else {
        futures.push(*started);
        Operation::Run(*started)
    }
}
