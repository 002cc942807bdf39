//! Brings every answer to its call.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Faults, HistoryFault, Loose, LooseCall};
use crate::{History, Json, Observation, Round, ToolCall};

const NAME_BYTES_MAX: usize = 64;
const NOTHING_TO_SHOW: &str = "The call worked. It has nothing to show.";
const BEGINNING: &str = "[The beginning of this conversation is missing.]";

enum Entry {
    System(Arc<str>),
    User(Arc<str>),
    Answer { text: Arc<str>, extra: Option<Json> },
    Round { at: usize, text: Option<Arc<str>>, extra: Option<Json>, calls: Vec<OpenCall> },
}

struct OpenCall {
    call: LooseCall,
    answer: Option<Arc<str>>,
}

/// The conversation, with the answers at their calls.
pub(super) fn pair(messages: Vec<(usize, Loose)>, faults: &mut Faults) -> History {
    let mut entries = Vec::with_capacity(messages.len());
    let mut opened = false;
    for (at, message) in messages {
        match message {
            Loose::System(text) | Loose::User(text) if text.trim().is_empty() => {
                faults.add(at, HistoryFault::EmptyMessage);
            }
            Loose::System(text) if entries.is_empty() => entries.push(Entry::System(text)),
            Loose::System(text) => {
                faults.add(at, HistoryFault::LateInstructions);
                opened = true;
                entries.push(Entry::User(text));
            }
            Loose::User(text) => {
                opened = true;
                entries.push(Entry::User(text));
            }
            Loose::Assistant { text, calls, extra } => {
                let text = text.filter(|text| !text.trim().is_empty());
                let entry = match text {
                    None if calls.is_empty() => {
                        faults.add(at, HistoryFault::EmptyMessage);
                        continue;
                    }
                    Some(text) if calls.is_empty() => Entry::Answer { text, extra },
                    text => {
                        let calls = calls.into_iter().map(|call| OpenCall { call, answer: None }).collect();
                        Entry::Round { at, text, extra, calls }
                    }
                };
                if !std::mem::replace(&mut opened, true) {
                    faults.add(at, HistoryFault::NoUserFirst);
                    entries.push(Entry::User(BEGINNING.into()));
                }
                entries.push(entry);
            }
            Loose::Tool { id, name, text } => answer(&mut entries, at, (&id, &name), text, faults),
        }
    }
    close(entries, faults)
}

/// Gives an answer to the call it is for: the latest that still waits for one with this id, or,
/// for an answer without an id, the first of the last round by name or order.
fn answer(entries: &mut [Entry], at: usize, (id, name): (&str, &str), text: Arc<str>, faults: &mut Faults) {
    let last = entries.len().saturating_sub(1);
    let mut is_known = false;
    for (place, entry) in entries.iter_mut().enumerate().rev() {
        let Entry::Round { calls, .. } = entry else { continue };
        let is_meant = |open: &OpenCall| match id {
            "" => name.is_empty() || *open.call.name == *name,
            id => *open.call.id == *id,
        };
        is_known |= calls.iter().any(|open| !id.is_empty() && is_meant(open));
        let Some(index) = calls.iter().position(|open| open.answer.is_none() && is_meant(open)) else {
            if id.is_empty() {
                break;
            }
            continue;
        };
        let overtaken = calls.iter().skip(index + 1).any(|open| open.answer.is_some());
        if place < last || overtaken {
            faults.add(at, HistoryFault::MisplacedAnswer);
        }
        if let Some(open) = calls.get_mut(index) {
            open.answer = Some(text);
        }
        return;
    }
    let fault = if is_known { HistoryFault::SecondAnswer } else { HistoryFault::AnswerWithoutCall };
    faults.replaced(at, fault, &text);
}

/// Puts the conversation together; calls get ids, legal names and, where there is none, an answer.
fn close(entries: Vec<Entry>, faults: &mut Faults) -> History {
    let mut history = History::default();
    let mut ids = Ids::of(&entries);
    for entry in entries {
        match entry {
            Entry::System(text) => history.system(text),
            Entry::User(text) => history.user(text),
            Entry::Answer { text, extra } => history.answer(text, extra),
            Entry::Round { at, text, extra, calls } => {
                let calls = calls.into_iter().map(|open| close_call(at, open, &mut ids, faults)).collect();
                history.round(Round { text, extra, calls });
            }
        }
    }
    history
}

fn close_call(at: usize, open: OpenCall, ids: &mut Ids, faults: &mut Faults) -> (ToolCall, Observation) {
    let OpenCall { call: LooseCall { id, name, arguments }, answer } = open;
    let own = ids.take(&id);
    if own != id {
        faults.replaced(at, HistoryFault::CallId, &id);
    }
    let legal = legal(&name);
    if *legal != *name {
        faults.replaced(at, HistoryFault::ToolName, &name);
    }
    let text = match answer {
        Some(text) if text.trim().is_empty() => {
            faults.add(at, HistoryFault::EmptyMessage);
            NOTHING_TO_SHOW.into()
        }
        Some(text) => text,
        None => {
            faults.add(at, HistoryFault::UnansweredCall);
            unanswered(&legal)
        }
    };
    (ToolCall { id: own, name: legal, arguments }, Observation { text })
}

/// What the model reads for a call that was never answered.
fn unanswered(tool: &str) -> Arc<str> {
    format!(
        r#"{{"error":"outcome_unknown","message":"The conversation was interrupted before this call of `{tool}` was answered.","hint":"It may have happened. Check whether it did before you repeat the call.","effect":"unknown"}}"#
    )
    .into()
}

/// The name as providers take it.
fn legal(name: &Arc<str>) -> Arc<str> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_legal) {
        return Arc::clone(name);
    }
    let legal: String =
        name.chars().map(|c| if is_legal(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
    if legal.is_empty() { "unnamed".into() } else { legal.into() }
}

/// Ids that no two calls of the conversation share.
struct Ids {
    given: BTreeSet<Arc<str>>,
    taken: BTreeSet<Arc<str>>,
    made: usize,
}

impl Ids {
    fn of(entries: &[Entry]) -> Self {
        let rounds = entries.iter().filter_map(|entry| match entry {
            Entry::Round { calls, .. } => Some(calls),
            Entry::System(_) | Entry::User(_) | Entry::Answer { .. } => None,
        });
        let given = rounds.flatten().map(|open| Arc::clone(&open.call.id)).collect();
        Self { given, taken: BTreeSet::new(), made: 0 }
    }

    /// The id itself, the first time it comes; else one that is nowhere in the conversation.
    fn take(&mut self, id: &Arc<str>) -> Arc<str> {
        if !id.trim().is_empty() && self.taken.insert(Arc::clone(id)) {
            return Arc::clone(id);
        }
        loop {
            self.made += 1;
            let made: Arc<str> = format!("call_{}", self.made).into();
            if !self.given.contains(&made) {
                return made;
            }
        }
    }
}
