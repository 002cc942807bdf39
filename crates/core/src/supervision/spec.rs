//! What a supervisor and its children are told to be, and which combinations make no sense.

use std::sync::Arc;
use std::time::Duration;

use super::{RestartPolicy, UnreachableLimit};

/// Names a child inside its supervisor. Keys grow: the order of keys is the order of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKey(pub u64);

/// Whose end concerns whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The child that failed is restarted, no other.
    #[default]
    OneForOne,
    /// All children are stopped, in reverse order, and started again.
    OneForAll,
    /// The child that failed and those started after it are stopped, in reverse order, and started again.
    RestForOne,
    /// As one for one, for children that come and go: an ended child is forgotten, whatever its
    /// restart type, and on shutdown all are stopped at once.
    Dynamic,
}

/// When a child that ended by itself is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    #[default]
    Permanent,
    /// After a failure, not after a normal end.
    Transient,
    /// Never. Its end also forgets it.
    Temporary,
}

/// How a child is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It is killed.
    Brutal,
    /// It is asked, and killed when it is still there after this time.
    Within(Duration),
    /// It is asked, and waited for; for supervisors, whose own children have their bounds.
    Infinite,
}

/// Whether a child works or supervises; it matters for counts and for the default shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildKind {
    /// It works.
    #[default]
    Worker,
    /// It supervises.
    Supervisor,
}

/// Whether the end of a significant child ends the supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoShutdown {
    /// It does not.
    #[default]
    Never,
    /// The first one does.
    AnySignificant,
    /// The last one does.
    AllSignificant,
}

/// What a supervisor knows of a child before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRules {
    /// Its name, of which there is one in a supervisor.
    pub id: Arc<str>,
    /// When it is started again. Default: always.
    pub restart: Restart,
    /// How it is stopped. Default: within 5 s; without a bound for a supervisor.
    pub shutdown: Shutdown,
    /// Worker or supervisor. Default: worker.
    pub kind: ChildKind,
    /// Whether its end by itself, without a restart, may end the supervisor. Default: no.
    pub significant: bool,
}

impl ChildRules {
    /// A permanent worker that gets 5 s to stop.
    pub fn worker(id: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            restart: Restart::Permanent,
            shutdown: Shutdown::Within(Duration::from_secs(5)),
            kind: ChildKind::Worker,
            significant: false,
        }
    }

    /// A permanent supervisor that gets the time it takes to stop.
    pub fn supervisor(id: impl Into<Arc<str>>) -> Self {
        Self { shutdown: Shutdown::Infinite, kind: ChildKind::Supervisor, ..Self::worker(id) }
    }
}

/// What holds for all children of a supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupervisorRules {
    /// Whose end concerns whom. Default: one for one.
    pub strategy: Strategy,
    /// Whether the end of a significant child ends the supervisor. Default: never.
    pub auto_shutdown: AutoShutdown,
    /// How many restarts, of all children together, are granted, and how fast. Default: 5 in 60 s.
    pub restarts: RestartPolicy,
}

/// Rules that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Two children have one id.
    #[error("two children are called `{id}`; give each its own id")]
    DuplicateId {
        /// The id.
        id: Arc<str>,
    },
    /// A permanent child never ends for good, so its end cannot be significant.
    #[error(
        "child `{id}` is permanent and always restarted, so it cannot be significant; make it transient or temporary"
    )]
    SignificantPermanent {
        /// The child.
        id: Arc<str>,
    },
    /// A significant child under a supervisor that never shuts down by itself.
    #[error(
        "child `{id}` is significant, but its supervisor never shuts down by itself; set `auto_shutdown`"
    )]
    SignificantWithoutAutoShutdown {
        /// The child.
        id: Arc<str>,
    },
    /// A dynamic supervisor is made to run without children.
    #[error(
        "a dynamic supervisor lives without children, so it cannot shut down by itself; use another strategy"
    )]
    DynamicAutoShutdown,
    /// A crash loop would never be given up.
    #[error(transparent)]
    Restarts(#[from] UnreachableLimit),
}

impl SupervisorRules {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        match (self.strategy, self.auto_shutdown) {
            (Strategy::Dynamic, AutoShutdown::AnySignificant | AutoShutdown::AllSignificant) => {
                Err(SpecError::DynamicAutoShutdown)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_child(&self, child: &ChildRules) -> Result<(), SpecError> {
        let id = || Arc::clone(&child.id);
        match (child.significant, child.restart, self.auto_shutdown) {
            (true, Restart::Permanent, _) => Err(SpecError::SignificantPermanent { id: id() }),
            (true, _, AutoShutdown::Never) => Err(SpecError::SignificantWithoutAutoShutdown { id: id() }),
            _ => Ok(()),
        }
    }
}
