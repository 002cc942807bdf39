//! When a tool that its supervisor gave up is started afresh.
//!
//! A supervisor that gives up is right for the moment and wrong for the day: what broke the tool is
//! often over in minutes. So it comes back after a cool-down, which doubles each time it did not
//! last.

use std::time::Duration;

use dauntless_contract::Timestamp;

use crate::resilience::Backoff;

/// How long a tool that was given up stays down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevivalPolicy {
    /// The first cool-down; doubles each time the tool goes down again. Default 60 s.
    pub after: Duration,
    /// The cool-down stops growing here. A tool that was up for so long starts small again.
    /// Default 10 min.
    pub cap: Duration,
}

impl Default for RevivalPolicy {
    fn default() -> Self {
        Self { after: Duration::from_secs(60), cap: Duration::from_secs(600) }
    }
}

/// The revivals of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Revival {
    cool_downs: Backoff,
    cap: Duration,
    in_a_row: u32,
    up_since: Timestamp,
}

impl Revival {
    /// A tool that starts now and was never given up.
    pub fn new(policy: &RevivalPolicy, now: Timestamp) -> Self {
        let cool_downs = Backoff::new(policy.after, 2.0, policy.cap);
        Self { cool_downs, cap: policy.cap, in_a_row: 0, up_since: now }
    }

    /// The tool was given up: answers how long it stays down.
    #[must_use = "the tool is down until it is started again"]
    pub fn on_down(&mut self, now: Timestamp) -> Duration {
        if now.since(self.up_since) >= self.cap {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.cool_downs.bound(self.in_a_row)
    }

    /// The tool takes calls again.
    pub const fn on_up(&mut self, now: Timestamp) {
        self.up_since = now;
    }
}

#[cfg(test)]
mod tests;
