//! What happens to a supervisor, and what it wants done.

use std::sync::Arc;

use dauntless_contract::Timestamp;

use super::{ChildKey, ChildKind, ChildRules, Restart, Shutdown, SpecError};

/// Names a request, for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How a child ended, or why it did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It stopped, of its own will or because somebody asked it to.
    Normal,
    /// It is a supervisor that gave up in order: for its own children a failure, for a transient one
    /// no reason to be started again.
    GaveUp {
        /// Why, for the operator.
        cause: Arc<str>,
    },
    /// It failed or panicked.
    Failed {
        /// Why, for the operator.
        cause: Arc<str>,
    },
    /// It failed and says that a restart cannot help.
    Terminal {
        /// Why, for the operator.
        cause: Arc<str>,
    },
    /// Somebody else killed it.
    Killed,
    /// Its task was cancelled, or it ended without a word.
    Cancelled,
}

impl ExitReason {
    pub(super) const fn is_abnormal(&self) -> bool {
        match self {
            Self::Normal | Self::GaveUp { .. } => false,
            Self::Failed { .. } | Self::Terminal { .. } | Self::Killed | Self::Cancelled => true,
        }
    }

    pub(super) fn cause(&self) -> Arc<str> {
        match self {
            Self::Normal => Arc::from("it stopped by itself"),
            Self::GaveUp { cause } | Self::Failed { cause } | Self::Terminal { cause } => Arc::clone(cause),
            Self::Killed => Arc::from("it was killed"),
            Self::Cancelled => Arc::from("its task was cancelled"),
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorEvent {
    /// The children given at the beginning shall start.
    Begun,
    /// A child runs.
    Started {
        /// The child.
        child: ChildKey,
        /// Which start it was.
        incarnation: u64,
    },
    /// A child is gone, and nothing of it runs any more; or it did not start.
    Exited {
        /// The child.
        child: ChildKey,
        /// Which start it was.
        incarnation: u64,
        /// How it ended.
        reason: ExitReason,
    },
    /// A wait is over.
    TimerFired {
        /// The child that waited.
        child: ChildKey,
        /// Which wait it was.
        timer: u64,
    },
    /// A child completed work, or was idle and answered.
    Healthy {
        /// The child.
        child: ChildKey,
    },
    /// Somebody asked for something.
    Requested {
        /// For the reply.
        ticket: Ticket,
        /// What.
        request: Request,
    },
    /// The supervisor shall stop its children and end.
    ShutdownRequested,
}

/// What a supervisor may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Add a child and start it.
    Start {
        /// A key greater than every one before.
        child: ChildKey,
        /// What it is.
        rules: ChildRules,
    },
    /// Stop a child; a restart that is due is cancelled.
    Terminate {
        /// The child.
        id: Arc<str>,
    },
    /// Start a child that is down.
    Restart {
        /// The child.
        id: Arc<str>,
    },
    /// Forget a child that is down.
    Delete {
        /// The child.
        id: Arc<str>,
    },
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorEffect {
    /// Start a child; its end, if only of the attempt, comes back as an event.
    StartChild {
        /// The child.
        child: ChildKey,
        /// Which start it is.
        incarnation: u64,
    },
    /// Stop a child, or its start.
    StopChild {
        /// The child.
        child: ChildKey,
        /// Which start it was.
        incarnation: u64,
        /// How.
        shutdown: Shutdown,
    },
    /// The child will not come back: drop what was kept for it.
    ForgetChild {
        /// The child.
        child: ChildKey,
    },
    /// Call back.
    StartTimer {
        /// The child that waits.
        child: ChildKey,
        /// Which wait it is.
        timer: u64,
        /// When.
        at: Timestamp,
    },
    /// Answer a request: with the child, or with the reason it was refused.
    Reply {
        /// Which.
        ticket: Ticket,
        /// What.
        reply: Result<ChildKey, RequestError>,
    },
    /// Every child given at the beginning runs.
    Ready,
    /// No child is left: end.
    End(End),
}

/// A request that was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A child of this id runs.
    #[error("child `{0}` is already running")]
    AlreadyStarted(Arc<str>),
    /// A child of this id is known and down.
    #[error("child `{0}` is known and down: restart it or delete it first")]
    AlreadyPresent(Arc<str>),
    /// A child of this id is about to be restarted.
    #[error("child `{0}` is being restarted: ask again, or terminate it first")]
    Restarting(Arc<str>),
    /// There is no such child.
    #[error("there is no child `{0}`")]
    NotFound(Arc<str>),
    /// The child is not down, which this request needs.
    #[error("child `{0}` is running: terminate it first")]
    Running(Arc<str>),
    /// The child did not start.
    #[error("child `{id}` did not start: {cause}")]
    StartFailed {
        /// The child.
        id: Arc<str>,
        /// Why.
        cause: Arc<str>,
    },
    /// The child was terminated before it ran.
    #[error("child `{0}` was terminated before it ran")]
    Terminated(Arc<str>),
    /// The rules of the child make no sense here.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A dynamic supervisor keeps no child that is down.
    #[error("a dynamic supervisor forgets a child that is down: start `{0}` anew")]
    Dynamic(Arc<str>),
    /// The supervisor is ending.
    #[error("the supervisor is shutting down")]
    ShuttingDown,
}

/// One failure that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When.
    pub at: Timestamp,
    /// Which child.
    pub child: Arc<str>,
    /// Why, for the operator.
    pub cause: Arc<str>,
}

/// Why a supervisor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to.
    Requested,
    /// A significant child ended, or the last of them.
    Significant {
        /// The child.
        child: Arc<str>,
    },
    /// Children failed more often than the restart intensity grants.
    TooManyFailures {
        /// The child that failed last.
        child: Arc<str>,
        /// Failures within the period, the last included.
        count: u32,
        /// The latest of them, at most 20, oldest first.
        history: Vec<Failed>,
    },
    /// A child that is needed says that a restart cannot help.
    Terminal {
        /// The child, and what it says.
        failed: Failed,
    },
    /// A child given at the beginning did not start.
    StartFailed {
        /// The child, and why.
        failed: Failed,
    },
}

/// What a child is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// Not running, and not about to.
    Down,
    /// To be started when those before it are, or when its wait is over.
    Restarting {
        /// When, if it waits.
        at: Option<Timestamp>,
    },
    /// Its start is under way.
    Starting,
    /// Running.
    Running,
    /// Told to stop, and not gone yet.
    Stopping,
}

/// One child, as a query shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildInfo {
    /// Its key.
    pub key: ChildKey,
    /// Its name.
    pub id: Arc<str>,
    /// What it is doing.
    pub state: ChildState,
    /// How often it was started.
    pub starts: u64,
    /// When it is started again.
    pub restart: Restart,
    /// Worker or supervisor.
    pub kind: ChildKind,
}

/// How many children there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Known.
    pub specs: usize,
    /// Running, or told to stop and not gone yet.
    pub active: usize,
    /// Known supervisors.
    pub supervisors: usize,
    /// Known workers.
    pub workers: usize,
}
