//! What is left out of a conversation that has grown too large, and in which order.
//!
//! First the texts of older observations, then, of the newest round, what takes more than half the
//! room; last, whole rounds, the oldest first. Instructions, goal and the newest round stay. A call
//! and its observation move together, because a history knows no other way.

use std::ops::Range;
use std::sync::Arc;

use dauntless_contract::{History, Message, Tokens, Trim};
use serde::{Deserialize, Serialize};

use super::reader::READ_RESULT;
use super::{Context, Room, summary};
use crate::observation;
use crate::toolbox::Toolbox;

/// Rounds whose observations are left as they are as long as that is possible.
const RECENT_ROUNDS: usize = 2;

/// What a conversation still needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fit {
    /// Nothing that could be done here.
    Done,
    /// A summary of its oldest rounds.
    Summary {
        /// What it is to replace.
        plan: Plan,
        /// The request for it.
        request: Arc<History>,
    },
}

/// The oldest pieces of a conversation, about to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// How many pieces.
    blocks: usize,
    /// How many of them are rounds of calls.
    rounds: u32,
    /// The longest text that may stand for them, in bytes.
    bytes_max: usize,
    /// The room for the request, in tokens.
    limit: u64,
}

impl Plan {
    /// The request for a summary of these pieces.
    pub(crate) fn request(&self, history: &History) -> Arc<History> {
        let last = self.blocks.checked_sub(1).and_then(|last| history.blocks().nth(last));
        let until = last.map_or(0, |last| last.end);
        Arc::new(summary::request(history, until, self.bytes_max, self.limit))
    }
}

/// One trim, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trimmed {
    pub(crate) trim: Trim,
    pub(crate) before: Tokens,
    pub(crate) after: Tokens,
}

impl Context {
    /// Makes the conversation fit the room, as far as that goes without asking a model.
    pub(crate) fn fit(
        &mut self,
        history: &mut Arc<History>,
        room: Room,
        toolbox: &Toolbox,
    ) -> (Fit, Option<Trimmed>) {
        if self.total + room.tools <= room.limit {
            return (Fit::Done, None);
        }
        let low_water = room.low_water();
        let blocks: Vec<Range<usize>> = history.blocks().collect();
        let rounds: Vec<&Range<usize>> = blocks.iter().filter(|block| block.len() > 1).collect();
        let newest = rounds.last().copied().or(blocks.last()).map_or(0, |block| block.start);
        let recent =
            rounds.iter().rev().nth(RECENT_ROUNDS - 1).or(rounds.first()).map_or(0, |round| round.start);

        let before = self.total;
        let history = Arc::make_mut(history);
        let mut shortened = self.shorten_old(history, recent, low_water, toolbox);
        if let Some(newest) = rounds.last() {
            shortened += self.shorten_newest(history, newest, room, toolbox);
        }
        let trim = Trim::Shortened { observations: shortened };
        let trimmed = (shortened > 0).then(|| self.trimmed(trim, before, room));
        let fit = match self.plan(&blocks, newest, room) {
            Some(plan) => Fit::Summary { plan, request: plan.request(history) },
            None => Fit::Done,
        };
        (fit, trimmed)
    }

    /// Puts a summary in the place of what it was planned for, or a note where there is none.
    pub(crate) fn replace(
        &mut self,
        history: &mut Arc<History>,
        plan: Plan,
        summary: Option<&str>,
        room: Room,
    ) -> Trimmed {
        let Plan { blocks, rounds, bytes_max, limit: _ } = plan;
        let before = self.total;
        self.rounds_gone += rounds;
        let told: Option<Arc<str>> = match summary {
            Some(text) => Some(summary::within(text, bytes_max)),
            // What an earlier summary knew is still known.
            None => self.summary.take(),
        };
        let text = match summary {
            Some(_) => summary::message(self.rounds_gone, told.as_deref().unwrap_or_default()),
            None => summary::note(self.rounds_gone, told.as_deref()),
        };
        let history = Arc::make_mut(history);
        let (head, had) = (history.head_len(), history.messages().len());
        if history.replace_oldest(blocks, text) {
            let gone = had + 1 - history.messages().len();
            let tokens = history.messages().get(head).map_or(0, |message| self.measure(message));
            self.entries.splice(head..head + gone, [super::Entry { tokens, call: None }]);
            self.total = self.entries.iter().map(|entry| entry.tokens).sum();
            self.summary = told;
        }
        let trim = match summary {
            Some(_) => Trim::Summarised { rounds },
            None => Trim::Dropped { rounds },
        };
        self.trimmed(trim, before, room)
    }

    fn trimmed(&self, trim: Trim, before: u64, room: Room) -> Trimmed {
        let size = |total| room.tokens(total + room.tools);
        Trimmed { trim, before: size(before), after: size(self.total) }
    }

    /// Shortens observations before the message `until`, the oldest first, until the conversation
    /// is small enough. Answers how many.
    fn shorten_old(&mut self, history: &mut History, until: usize, enough: u64, toolbox: &Toolbox) -> u32 {
        let mut shortened = 0;
        for index in history.head_len()..until.min(history.messages().len()) {
            if self.total <= enough {
                break;
            }
            shortened += u32::from(self.shorten(history, index, observation::GLIMPSE_BYTES_MAX, toolbox));
        }
        shortened
    }

    /// Shortens the observations of the newest round, the largest most, if it takes more than half
    /// of the room beside the head. Answers how many.
    fn shorten_newest(
        &mut self,
        history: &mut History,
        round: &Range<usize>,
        room: Room,
        toolbox: &Toolbox,
    ) -> u32 {
        let size = |context: &Self, range: Range<usize>| -> u64 {
            context.entries.get(range).unwrap_or_default().iter().map(|entry| entry.tokens).sum()
        };
        let head = size(self, 0..history.head_len());
        let asked = size(self, round.start..round.start + 1);
        let allowed = (room.limit.saturating_sub(room.tools + head) / 2).saturating_sub(asked);
        let answers = round.start + 1..round.end;
        if size(self, answers.clone()) <= allowed {
            return 0;
        }
        let share = fair_share(self.entries.get(answers.clone()).unwrap_or_default(), allowed);
        let mut shortened = 0;
        for index in answers {
            let tokens = self.entries.get(index).map_or(0, |entry| entry.tokens);
            if tokens > share {
                let bytes = history.messages().get(index).map_or(0, text_bytes);
                let bytes_max = bytes.saturating_mul(narrow(share)) / narrow(tokens);
                shortened += u32::from(self.shorten(history, index, bytes_max, toolbox));
            }
        }
        shortened
    }

    /// Gives one observation a text of at most so many bytes, or of a glimpse if that is more.
    fn shorten(&mut self, history: &mut History, index: usize, bytes_max: usize, toolbox: &Toolbox) -> bool {
        let Some(Message::Tool { name, text, .. }) = history.messages().get(index) else { return false };
        let Some(call) = self.entries.get(index).and_then(|entry| entry.call) else { return false };
        let bytes_max = bytes_max.max(observation::GLIMPSE_BYTES_MAX);
        if text.len() <= bytes_max {
            return false;
        }
        let (name, shown) = (Arc::clone(name), Arc::clone(text));
        let whole = self.results.get(call).unwrap_or(&shown).clone();
        let id = match &*name {
            // What it read is kept already, under the name that it was read by.
            READ_RESULT => None,
            _ => self.keep(call, &whole, toolbox),
        };
        if !history.retell(index, observation::shortened_later(&whole, bytes_max, id)) {
            return false;
        }
        let tokens = history.messages().get(index).map_or(0, |message| self.measure(message));
        if let Some(entry) = self.entries.get_mut(index) {
            self.total = self.total + tokens - entry.tokens;
            entry.tokens = tokens;
        }
        true
    }

    /// The fewest of the oldest pieces without which the conversation is small enough, all but the
    /// newest round where it takes that. None where that would gain too little to be worth a request.
    fn plan(&self, blocks: &[Range<usize>], newest: usize, room: Room) -> Option<Plan> {
        let enough = room.low_water();
        let place = (enough / 8).clamp(64, 2048);
        let (mut freed, limit) = (0, room.limit);
        let mut plan = Plan { blocks: 0, rounds: 0, bytes_max: narrow(place * 3), limit };
        for block in blocks.iter().take_while(|block| block.start < newest) {
            if (self.total + place).saturating_sub(freed) <= enough {
                break;
            }
            freed += self.entries.get(block.clone())?.iter().map(|entry| entry.tokens).sum::<u64>();
            plan.blocks += 1;
            plan.rounds += u32::from(block.len() > 1);
        }
        (freed > place * 2).then_some(plan)
    }
}

/// The most tokens that each may have so that all together have no more than `allowed`.
fn fair_share(entries: &[super::Entry], allowed: u64) -> u64 {
    let mut sizes: Vec<u64> = entries.iter().map(|entry| entry.tokens).collect();
    sizes.sort_unstable();
    let (mut left, mut sharers) = (allowed, u64::try_from(sizes.len()).unwrap_or(u64::MAX));
    for size in sizes {
        let share = left / sharers.max(1);
        if size > share {
            return share;
        }
        left -= size;
        sharers -= 1;
    }
    left
}

fn text_bytes(message: &Message) -> usize {
    match message {
        Message::Tool { text, .. } | Message::System { text } | Message::User { text } => text.len(),
        Message::Assistant { .. } => 0,
    }
}

fn narrow(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
