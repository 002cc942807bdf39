//! What goes up when a supervisor cannot go on.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dauntless_core::supervision::{Failed, SpecError};
use ractor::ActorProcessingErr;

pub(super) type SharedError = Arc<dyn Error + Send + Sync>;

/// A supervisor gave up: the error its actor fails with, for every supervisor above it.
#[derive(Clone, Debug)]
pub struct GaveUp {
    /// The child whose failure was too much.
    pub child: Arc<str>,
    /// In what way.
    pub why: GaveUpWhy,
    /// The latest failures of all its children, at most 20, oldest first; the times are those of
    /// its own clock.
    pub history: Vec<Failed>,
    pub(super) error: Option<SharedError>,
}

/// Why a supervisor gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUpWhy {
    /// Its children failed more often than the restart intensity grants.
    TooManyFailures {
        /// Failures within the period, the last included.
        count: u32,
        /// How long a failure counts.
        period: Duration,
    },
    /// A child it needs says that a restart cannot help.
    Terminal,
}

impl GaveUp {
    /// The error of the child, if it is of this type; looks through supervisors that gave up below.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        let error: &(dyn Error + 'static) = self.error.as_deref()?;
        if let Some(below) = error.downcast_ref::<Self>() {
            return below.downcast_ref();
        }
        error.downcast_ref().or_else(|| error.downcast_ref::<Terminal>()?.0.downcast_ref())
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let child = &self.child;
        match self.why {
            GaveUpWhy::TooManyFailures { count, period } => {
                write!(f, "gave up after {count} failures within {period:?}, the last of child `{child}`")?;
            }
            GaveUpWhy::Terminal => {
                write!(f, "gave up because child `{child}` cannot be helped by a restart")?
            }
        }
        self.history.last().map_or(Ok(()), |last| write!(f, ": {}", last.cause))
    }
}

impl Error for GaveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let error: &(dyn Error + 'static) = self.error.as_deref()?;
        Some(error)
    }
}

/// Says, as the error of an actor, that a restart cannot help: revoked credentials, a wrong schema.
///
/// A permanent or transient child that ends with it, or does not start with it, is not restarted;
/// its supervisor gives up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Terminal(pub ActorProcessingErr);

impl Terminal {
    /// Marks an error.
    pub fn new(error: impl Into<ActorProcessingErr>) -> Self {
        Self(error.into())
    }
}

/// A supervisor did not start. None of its children runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its rules contradict each other.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A child did not start; those before it were stopped.
    #[error("child `{child}` did not start: {error}")]
    Child {
        /// The child.
        child: Arc<str>,
        /// Why.
        #[source]
        error: ActorProcessingErr,
    },
    /// Its children failed too often before all of them ran.
    #[error(transparent)]
    GaveUp(GaveUp),
    /// The supervisor was stopped while it started, or the one above it is ending.
    #[error("the supervisor was stopped before its children ran")]
    Stopped,
}
