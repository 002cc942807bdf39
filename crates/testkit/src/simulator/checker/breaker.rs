//! The breaker of a tool as it can be told from outside.

use std::time::Duration;

use dauntless_contract::BreakerPolicy;

use super::Findings;
use super::endings::Sign;
use crate::simulator::history::Attempt;

/// Follows one breaker. Where it cannot tell, it takes the breaker for closed.
#[derive(Debug)]
pub(super) struct BreakerBook {
    policy: BreakerPolicy,
    /// Failures so far, with what may have been one.
    failures: u32,
    /// When an attempt was last seen to start.
    started: Option<Duration>,
    /// A call was refused then, though a probe was free. Right if one went out in that moment.
    refused: Option<Duration>,
    known: Known,
}

/// Whether every attempt that starts can be seen, also one that is stopped before it reaches its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Clear,
    /// There are runs that nobody watches.
    Blurred,
}

#[derive(Debug)]
enum Known {
    /// It may be closed. A failure counts if its attempt began after `since`.
    Perhaps { since: Option<Duration>, first_failure: Option<Duration>, in_a_row: u32 },
    /// It opened between `first_failure` and `by`, and has not closed since.
    Tripped {
        first_failure: Duration,
        by: Duration,
        again: u32,
        healthy: u32,
        probes: Vec<Attempt>,
        /// From then on a probe is let through, unless one is out.
        free_from: Option<Duration>,
    },
}

impl BreakerBook {
    pub(super) fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy,
            failures: 0,
            started: None,
            refused: None,
            known: Known::Perhaps { since: None, first_failure: None, in_a_row: 0 },
        }
    }

    pub(super) fn began(&mut self, at: Duration, attempt: &Attempt, findings: &mut Findings) {
        self.started(at, &attempt.tool, findings);
        let shortest = |again: u32| {
            let doubled = self.policy.open_for.saturating_mul(2_u32.saturating_pow(again));
            doubled.min(self.policy.open_cap) * 4 / 5
        };
        let Known::Tripped { first_failure, by, again, probes, free_from, .. } = &mut self.known else {
            return;
        };
        if at <= *by {
            return;
        }
        let opens = *first_failure + shortest(*again);
        findings.hold(at >= opens, at, "an open breaker lets nothing through (CB-3)", || {
            format!("{attempt}, though {} failed in a row and it stays open until {opens:?}", attempt.tool)
        });
        findings.hold(probes.is_empty(), at, "one probe at a time (CB-5)", || {
            format!(
                "{attempt} beside {}",
                probes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )
        });
        probes.push(attempt.clone());
        *free_from = None;
    }

    /// A call of the tool was refused because the breaker is open. So many attempts are out of time
    /// and will be seen to end only after this.
    pub(super) fn refused(
        &mut self,
        at: Duration,
        tool: &str,
        due: u32,
        sight: Sight,
        findings: &mut Findings,
    ) {
        let failures = self.failures.saturating_add(due);
        let rare = f64::from(self.policy.min_calls) * self.policy.failure_ratio;
        let possible = f64::from(failures) >= rare || failures >= self.policy.consecutive_failures;
        findings.hold(possible, at, "a breaker opens at its thresholds only (CB-1)", || {
            format!("{tool} refuses after {failures} failures")
        });
        self.settle(at, tool, findings);
        if let Known::Tripped { free_from: Some(free_from), .. } = &self.known
            && at > *free_from
            && self.started != Some(at)
            && sight == Sight::Clear
        {
            self.refused = Some(at);
        }
    }

    /// An attempt is seen to start at the tool, which says why calls were refused in that moment.
    pub(super) fn started(&mut self, at: Duration, tool: &str, findings: &mut Findings) {
        self.started = Some(at);
        self.refused.take_if(|refused| *refused == at);
        self.settle(at, tool, findings);
    }

    /// Judges a refusal once its moment has passed.
    pub(super) fn settle(&mut self, at: Duration, tool: &str, findings: &mut Findings) {
        if let Some(refused) = self.refused.take_if(|refused| *refused < at) {
            findings.hold(false, refused, "a free probe is given to the next caller (CB-6)", || {
                format!("{tool} refuses, though no probe is out")
            });
        }
    }

    pub(super) fn ended(&mut self, at: Duration, began: Duration, attempt: &Attempt, sign: Sign) {
        if matches!(sign, Sign::Failure | Sign::Unknown) {
            self.failures += 1;
        }
        match &mut self.known {
            Known::Perhaps { since, first_failure, in_a_row } => {
                match sign {
                    Sign::Neutral => {}
                    Sign::Healthy => (*since, *first_failure, *in_a_row) = (Some(at), None, 0),
                    Sign::Unknown => {
                        first_failure.get_or_insert(at);
                        (*since, *in_a_row) = (Some(at), 0);
                    }
                    Sign::Failure => {
                        let first = *first_failure.get_or_insert(at);
                        // An older attempt may be of an earlier generation, or may have tripped it.
                        if since.is_none_or(|since| began > since) {
                            *in_a_row += 1;
                        }
                        if *in_a_row >= self.policy.consecutive_failures {
                            self.trip(first, at, 0);
                        }
                    }
                }
            }
            Known::Tripped { again, healthy, probes, free_from, .. } => {
                let again = *again;
                let was = probes.len();
                probes.retain(|probe| probe != attempt);
                let probe = probes.len() < was;
                if probe && matches!(sign, Sign::Healthy | Sign::Neutral) {
                    *free_from = Some(at);
                }
                match sign {
                    // What is no probe may have counted where it cannot be told that it did not.
                    Sign::Healthy | Sign::Unknown => {
                        *healthy += 1;
                        if *healthy >= self.policy.close_after {
                            let first_failure = None;
                            self.known = Known::Perhaps { since: Some(at), first_failure, in_a_row: 0 };
                        }
                    }
                    Sign::Failure if probe => self.trip(at, at, again.saturating_add(1)),
                    Sign::Failure | Sign::Neutral => {}
                }
            }
        }
    }

    fn trip(&mut self, first_failure: Duration, by: Duration, again: u32) {
        // The first time it may have opened earlier than can be told, and a probe be out since.
        let free_from = (again > 0).then_some(by + self.policy.open_cap);
        self.known = Known::Tripped { first_failure, by, again, healthy: 0, probes: Vec::new(), free_from };
    }
}
