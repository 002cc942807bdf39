//! Notices when a tool that works answers with failures more often than it used to.
//!
//! A recoverable failure is an answer, so neither breaker nor budget sees it; a rise of them says
//! that the tool's schema or the service behind it has changed. It is told and shown, and nothing
//! is decided by it. It counts answers and not time, so that a tool that is seldom asked is judged
//! by as many answers as any other.

use dauntless_contract::ErrorSpike;

/// The latest answers, which are held against all before them. One bit each.
const RECENT: u32 = u64::BITS;
/// Answers before those, without which nobody can say what is usual.
const EARLIER_MIN: u64 = 64;
/// A smaller rise is never told, in parts of one.
const RISE_MIN: f64 = 0.2;
/// A rise within so many standard deviations may be chance.
const DEVIATIONS: f64 = 5.0;
/// A rise that was told is over when it is no larger than this.
const RISE_OVER: f64 = 0.1;

/// The answers of one tool, as far as they tell a rise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SpikeWatch {
    /// Whether each of the latest answers was a failure, the newest in the lowest bit.
    recent: u64,
    answers: u64,
    failures: u64,
    told: Told,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    Rise,
}

impl SpikeWatch {
    /// Takes in an answer. Gives the rise, once, when there is one.
    pub(super) fn answered(&mut self, failed: bool) -> Option<ErrorSpike> {
        self.recent = self.recent << 1 | u64::from(failed);
        self.answers += 1;
        self.failures += u64::from(failed);
        let earlier = self.answers.saturating_sub(RECENT.into());
        if earlier < EARLIER_MIN {
            return None;
        }
        let spike = self.compare(earlier);
        let rise =
            share(spike.failures.into(), spike.answers.into()) - share(self.earlier_failures(), earlier);
        match self.told {
            Told::Nothing if rise >= RISE_MIN && rise >= DEVIATIONS * self.deviation(earlier) => {
                self.told = Told::Rise;
                Some(spike)
            }
            Told::Rise if rise <= RISE_OVER => {
                self.told = Told::Nothing;
                None
            }
            Told::Nothing | Told::Rise => None,
        }
    }

    /// The rise that was told, as it is now; none once it is over.
    pub(super) fn current(&self) -> Option<ErrorSpike> {
        match self.told {
            Told::Nothing => None,
            Told::Rise => Some(self.compare(self.answers.saturating_sub(RECENT.into()))),
        }
    }

    fn compare(&self, earlier: u64) -> ErrorSpike {
        let usual = self.earlier_failures().saturating_mul(1000).checked_div(earlier).unwrap_or_default();
        ErrorSpike {
            failures: self.recent.count_ones(),
            answers: RECENT,
            usual_milli: u32::try_from(usual).unwrap_or(u32::MAX),
        }
    }

    fn earlier_failures(&self) -> u64 {
        self.failures.saturating_sub(self.recent.count_ones().into())
    }

    /// By how much two samples of these sizes differ by chance, had nothing changed.
    fn deviation(&self, earlier: u64) -> f64 {
        let all = share(self.failures, self.answers);
        (all * (1.0 - all) * (share(1, RECENT.into()) + share(1, earlier))).sqrt()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of answers are far below 2^52")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests;
