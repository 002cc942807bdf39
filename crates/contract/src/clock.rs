//! Time as a value, and the port that gives it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in microseconds since the Unix epoch.
///
/// A clock anchors it to the wall clock once and then counts monotonically, so it never steps
/// back while a process lives and still means something to the next process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch; a handy start for tests.
    pub const ZERO: Self = Self(0);

    /// A point that no deadline reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// Takes microseconds since the Unix epoch.
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at [`Timestamp::MAX`].
impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        let us = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(us))
    }
}

/// Saturates at zero.
impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, length: Duration) -> Self {
        let us = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(us))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_micros(self.0))
    }
}

/// Gives the present. The only way any part of Dauntless learns the time.
pub trait Clock: Send + Sync + 'static {
    /// The present. Never smaller than an earlier answer of the same clock.
    fn now(&self) -> Timestamp;
}
