//! What reached the outside of the workers, in the order in which it arrived, and the moments in
//! which one of them is to be struck. No worker can hide from it and none can change it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::trees;

/// A number of ours for a worker's process.
pub type WorkerNo = u64;

/// What one call is asked to do once. Its name goes through the model, the run and the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intent {
    /// The number of the run, from its goal.
    pub run: u64,
    /// The turn, counted from 1.
    pub turn: u32,
    /// The place in the turn.
    pub index: u32,
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.run, self.turn, self.index)
    }
}

impl FromStr for Intent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(run, call)| Some((run, call.split_once('.')?)));
        let parts = parts.and_then(|(run, (turn, index))| {
            Some(Self { run: run.parse().ok()?, turn: turn.parse().ok()?, index: index.parse().ok()? })
        });
        parts.ok_or_else(|| format!("`{text}` names no intent"))
    }
}

/// The tools, by what a repetition of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing.
    ReadOnly,
    /// The same again.
    Idempotent,
    /// Nothing, by its key.
    Keyed,
    /// Harm, and one can ask whether it is one.
    Verifiable,
    /// Harm.
    Once,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ReadOnly, Self::Idempotent, Self::Keyed, Self::Verifiable, Self::Once];

    /// The word that a configuration has for it, and the name of the tool.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Idempotent => "idempotent",
            Self::Keyed => "keyed",
            Self::Verifiable => "verifiable",
            Self::Once => "once",
        }
    }
}

/// Where in the life of a call its worker is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// About when the reply of the model, which is the intent, is written.
    BeforeIntent,
    /// The request of a call has left the worker and had no effect.
    BeforeEffect,
    /// It had its effect and no answer.
    AfterEffect,
    /// The model is asked with the results, so that they are recorded.
    AfterRecord,
    /// The model is asked by a run that another one has just started.
    ChildStarted,
    /// About when a run that another one waits for writes its end.
    ChildEnded,
    /// Whenever it is.
    Random,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::BeforeIntent,
        Self::BeforeEffect,
        Self::ChildStarted,
        Self::AfterEffect,
        Self::AfterRecord,
        Self::ChildEnded,
        Self::Random,
    ];

    /// For a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeIntent => "around the intent",
            Self::BeforeEffect => "between intent and effect",
            Self::AfterEffect => "between effect and record",
            Self::AfterRecord => "after the record",
            Self::ChildStarted => "after the start of a child",
            Self::ChildEnded => "around the end of a child",
            Self::Random => "at any time",
        }
    }
}

/// The moment to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// Where.
    pub point: Point,
    /// In a call of which class, where it is in one.
    pub class: Class,
    /// How long what arrived then goes without an answer.
    pub hold: Duration,
}

/// The moment has come: this worker waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The worker.
    pub worker: WorkerNo,
    /// The call, where it is one.
    pub intent: Option<Intent>,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The model was asked for a turn.
    Model {
        /// By which worker.
        worker: WorkerNo,
        /// The run.
        run: u64,
        /// The turn.
        turn: u32,
    },
    /// A tool was called.
    Tool {
        /// By which worker.
        worker: WorkerNo,
        /// What for.
        intent: Intent,
        /// Which tool.
        class: Class,
        /// The idempotency key.
        key: Option<String>,
        /// Whether it had its effect.
        executed: bool,
    },
    /// Somebody asked whether a call had its effect.
    Question {
        /// By which worker.
        worker: WorkerNo,
        /// The call.
        intent: Intent,
    },
    /// The journal was seen to say that a run is over.
    Over {
        /// The run.
        run: u64,
    },
}

/// A request of the model.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// By which worker.
    pub worker: WorkerNo,
    /// For which run.
    pub run: u64,
    /// For which turn.
    pub turn: u32,
    /// What it shows of the calls of the turn before.
    pub shown: &'a [&'a str],
    /// Whether the reply ends the run.
    pub ends: bool,
}

/// All that arrived.
#[derive(Debug)]
pub struct Ledger {
    book: Mutex<Book>,
    hits: Mutex<Sender<Hit>>,
}

/// What the ledger holds.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order of arrival.
    pub requests: Vec<Request>,
    /// What the model was shown for each call, each text once.
    pub observed: BTreeMap<Intent, Vec<String>>,
    /// The runs that are known to be over.
    over: BTreeSet<u64>,
    aim: Option<Aim>,
    /// The first result under each key.
    results: BTreeMap<String, String>,
    /// How often each request of the newest turn of each run was made: of the model, or of a call.
    attempts: BTreeMap<(u64, u32, Option<u32>), u32>,
}

impl Book {
    fn attempted(&mut self, run: u64, turn: u32, index: Option<u32>) {
        self.attempts.retain(|(of, before, _), _| *of != run || *before >= turn);
        *self.attempts.entry((run, turn, index)).or_default() += 1;
    }

    /// Runs of which one request was made that often, and that have got no further since.
    pub fn at_a_standstill(&self, attempts: u32) -> BTreeSet<u64> {
        let often = self.attempts.iter().filter(|(_, made)| **made >= attempts);
        often.map(|((run, ..), _)| *run).collect()
    }

    /// Begins to count anew for these runs.
    pub fn forget(&mut self, runs: &BTreeSet<u64>) {
        self.attempts.retain(|(run, ..), _| !runs.contains(run));
    }

    /// A tool that said to one worker that a call did not happen lets no other do it any more.
    fn asked_by_another(&self, worker: WorkerNo, intent: Intent) -> bool {
        self.requests.iter().any(
            |request| matches!(request, Request::Question { worker: by, intent: of } if *of == intent && *by > worker),
        )
    }
}

impl Ledger {
    /// An empty one that tells of moments there.
    pub fn new(hits: Sender<Hit>) -> Self {
        Self { book: Mutex::default(), hits: Mutex::new(hits) }
    }

    /// What it holds.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a moment, or for none any more.
    pub fn aim(&self, aim: Option<Aim>) {
        self.book().aim = aim;
    }

    /// Takes in a request of the model. Answers how long the reply has to wait.
    pub fn model(&self, asked: Asked<'_>) -> Duration {
        let Asked { worker, run, turn, shown, ends } = asked;
        let mut book = self.book();
        book.attempted(run, turn, None);
        book.requests.push(Request::Model { worker, run, turn });
        for (index, text) in (0..).zip(shown) {
            let texts = book.observed.entry(Intent { run, turn: turn - 1, index }).or_default();
            if !texts.iter().any(|known| known == text) {
                texts.push((*text).to_owned());
            }
        }
        let wanted = |aim: &Aim| match aim.point {
            Point::BeforeIntent => true,
            Point::AfterRecord => turn > 1,
            Point::ChildStarted => turn == 1 && trees::is_below(run),
            Point::ChildEnded => ends && trees::is_below(run),
            Point::BeforeEffect | Point::AfterEffect | Point::Random => false,
        };
        match book.aim.take_if(|aim| wanted(aim)) {
            Some(aim) => {
                self.hit(Hit { worker, intent: None });
                match aim.point {
                    Point::AfterRecord | Point::ChildStarted => aim.hold,
                    _ => Duration::ZERO,
                }
            }
            None => Duration::ZERO,
        }
    }

    /// Takes in a call. Answers what the tool says, where it does not refuse, and how long that has to
    /// wait.
    pub fn tool(
        &self,
        worker: WorkerNo,
        class: Class,
        intent: Intent,
        key: Option<String>,
    ) -> (Option<String>, Duration) {
        let mut book = self.book();
        let aim = book.aim.take_if(|aim| {
            aim.class == class && matches!(aim.point, Point::BeforeEffect | Point::AfterEffect)
        });
        let known = key.as_ref().filter(|_| class == Class::Keyed).and_then(|key| book.results.get(key));
        let refused = class == Class::Verifiable && book.asked_by_another(worker, intent);
        let executed = known.is_none() && !refused && aim.is_none_or(|aim| aim.point == Point::AfterEffect);
        let said = known.cloned().unwrap_or_else(|| done(intent));
        if let Some(key) = key.clone().filter(|_| executed) {
            book.results.insert(key, said.clone());
        }
        book.attempted(intent.run, intent.turn, Some(intent.index));
        book.requests.push(Request::Tool { worker, intent, class, key, executed });
        if aim.is_some() {
            self.hit(Hit { worker, intent: Some(intent) });
        }
        ((!refused).then_some(said), aim.map_or(Duration::ZERO, |aim| aim.hold))
    }

    /// Takes in that the journal says that these runs are over.
    pub fn over(&self, runs: impl IntoIterator<Item = u64>) {
        let mut book = self.book();
        for run in runs {
            if book.over.insert(run) {
                book.requests.push(Request::Over { run });
            }
        }
    }

    /// Takes in the question whether a call had its effect. Answers what the tool said then.
    pub fn verify(&self, worker: WorkerNo, intent: Intent) -> Option<String> {
        let mut book = self.book();
        book.requests.push(Request::Question { worker, intent });
        let happened = book.requests.iter().any(
            |request| matches!(request, Request::Tool { intent: of, executed: true, .. } if *of == intent),
        );
        happened.then(|| done(intent))
    }

    fn hit(&self, hit: Hit) {
        // Whoever waited for it may be gone at the end.
        let _ = self.hits.lock().unwrap_or_else(PoisonError::into_inner).send(hit);
    }
}

/// What a tool says.
fn done(intent: Intent) -> String {
    format!("{intent} is done")
}
