//! Keeps the conversation of a run within its model's context window.
//!
//! It knows how large each message is, counted once when it came; what the provider reported and
//! refused; and the texts that the model was shown shortened. It decides what to leave out and
//! never touches the world: a summary is asked for by the run machine. Without a known window it
//! leaves everything as it is until a provider refuses a request.

mod measure;
mod reader;
mod results;
mod summary;
mod trim;

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{
    CallKey, Failure, History, Json, Message, ModelSpec, TokenCounter, Tokens, ToolSpec, Usage,
};
use serde::{Deserialize, Serialize};

use crate::toolbox::Toolbox;
pub(crate) use measure::estimate;
pub(crate) use results::ResultId;
use results::Results;
pub(crate) use trim::{Fit, Plan, Trimmed};

/// How often in one turn a request that the provider refused as too large is made smaller.
const OVERFLOWS_MAX: u32 = 4;
/// The most tokens reserved for a reply whose length has no limit.
const REPLY_TOKENS_MAX: u64 = 4096;
/// Reported sizes below this say more about the provider's own additions than about our counting.
const TELLING_TOKENS: u64 = 512;

/// Most tokens of a model for a thousand of ours that are believed.
const RATIO_MAX: u64 = 4000;

/// The size of a conversation, what is known of the models it goes to, and what was kept of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Context {
    /// One for each message of the history.
    entries: Vec<Entry>,
    total: u64,
    /// What counts them, once the room gets scarce; they are estimated until then.
    #[serde(skip)]
    counter: Option<TokenCounter>,
    results: Results,
    models: BTreeMap<u32, Known>,
    /// What was refused in the turn under way.
    refused: Option<Refused>,
    /// The size of the request under way.
    asked: u64,
    /// Rounds that gave way to a summary or a note.
    rounds_gone: u32,
    /// The summary that stands for them.
    summary: Option<Arc<str>>,
}

/// A message, as far as its size matters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
struct Entry {
    tokens: u64,
    /// The call that an observation answers.
    call: Option<CallKey>,
}

/// An entry as a snapshot has it: there is one for each message of a long conversation.
type Packed = (u64, Option<(u32, u32)>);

impl From<Packed> for Entry {
    fn from((tokens, call): Packed) -> Self {
        Self { tokens, call: call.map(|(turn, index)| CallKey { turn, index }) }
    }
}

impl From<Entry> for Packed {
    fn from(Entry { tokens, call }: Entry) -> Self {
        (tokens, call.map(|CallKey { turn, index }| (turn, index)))
    }
}

/// What was learned of one model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Its window, where a provider's refusal said or implied it.
    window: Option<u64>,
    /// Its tokens for a thousand of ours.
    ratio_milli: u64,
}

impl Default for Known {
    /// Counted or estimated, a request has marks of the provider's that we do not see.
    fn default() -> Self {
        Self { window: None, ratio_milli: 1050 }
    }
}

/// A request that a provider refused as too large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Refused {
    model: u32,
    size: u64,
    times: u32,
    attempts: u32,
    failure: Failure,
}

/// The room for one request, in our tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Room {
    /// A request above this is trimmed.
    limit: u64,
    /// What the tools on offer take of it.
    tools: u64,
    ratio_milli: u64,
}

impl Room {
    /// How small a conversation without tools is made once it must be: far enough below the limit
    /// that many turns follow, which the provider's cache of the beginning serves, before the next.
    const fn low_water(&self) -> u64 {
        self.limit.saturating_sub(self.tools) * 65 / 100
    }

    /// A size of ours in the model's tokens.
    const fn tokens(&self, ours: u64) -> Tokens {
        Tokens(ours * self.ratio_milli / 1000)
    }
}

impl Context {
    /// Counts the messages that came since it was last asked. Their observations answer the calls
    /// of `turn`.
    pub(crate) fn take_in(&mut self, history: &History, turn: u32) {
        let mut index = 0;
        for message in history.messages().iter().skip(self.entries.len()) {
            let call = matches!(message, Message::Tool { .. }).then(|| {
                index += 1;
                CallKey { turn, index: index - 1 }
            });
            let tokens = self.measure(message);
            self.total += tokens;
            self.entries.push(Entry { tokens, call });
        }
    }

    /// Whether a vocabulary counts the tokens.
    pub(crate) const fn is_sharp(&self) -> bool {
        self.counter.is_some()
    }

    /// Gives a restored context its vocabulary again.
    pub(crate) fn restore(&mut self, counter: Option<TokenCounter>) {
        self.counter = counter;
    }

    fn measure(&self, message: &Message) -> u64 {
        measure::message(message, self.counter.as_ref())
    }

    /// Counts with the model's vocabulary from now on, if it is time: a vocabulary takes time to
    /// load, and most conversations stay far below their window. Answers whether that has changed
    /// the sizes.
    pub(crate) fn sharpen(&mut self, history: &History, counter: Option<&TokenCounter>, room: Room) -> bool {
        let Some(counter) = counter else { return false };
        if self.counter.is_some() || self.total + room.tools <= room.limit / 3 {
            return false;
        }
        self.counter = Some(counter.clone());
        for (entry, message) in self.entries.iter_mut().zip(history.messages()) {
            entry.tokens = measure::message(message, Some(counter));
        }
        self.total = self.entries.iter().map(|entry| entry.tokens).sum();
        // What was learned was about the estimate.
        for known in self.models.values_mut() {
            known.ratio_milli = Known::default().ratio_milli;
        }
        if let Some(refused) = &mut self.refused {
            refused.size = self.total + room.tools;
        }
        true
    }

    /// A new turn begins.
    pub(crate) fn turn_started(&mut self) {
        self.refused = None;
    }

    /// The room that a model has for a request, where its window is known or was felt.
    pub(crate) fn room(&self, number: u32, model: &ModelSpec, tools: u64) -> Option<Room> {
        let Known { window: felt, ratio_milli } = self.models.get(&number).copied().unwrap_or_default();
        let declared = model.context_window.map(|window| window.0);
        let window = [felt, declared].into_iter().flatten().min();
        let by_window = window.map(|window| {
            let reply = model.output_tokens_max.map_or((window / 8).min(REPLY_TOKENS_MAX), u64::from);
            (window - reply.min(window / 2)).saturating_mul(1000) / ratio_milli
        });
        // What was refused is not tried again in this turn, whatever the numbers say.
        let by_refusal = self.refusal(number).map(|refused| refused.size * 9 / 10);
        let limit = [by_window, by_refusal].into_iter().flatten().min()?;
        Some(Room { limit, tools, ratio_milli })
    }

    /// A request with tools of this size goes out.
    ///
    /// # Errors
    /// When as much was refused in this turn already: the refusal, and the attempts made.
    pub(crate) fn may_send(&mut self, model: u32, tools: u64) -> Result<(), (&Failure, u32)> {
        let size = self.total + tools;
        self.asked = size;
        match self.refusal(model) {
            Some(refused) if refused.size <= size => Err((&refused.failure, refused.attempts)),
            Some(_) | None => Ok(()),
        }
    }

    fn refusal(&self, model: u32) -> Option<&Refused> {
        self.refused.as_ref().filter(|refused| refused.model == model)
    }

    /// The model answered; what the provider reports about the request corrects our counting.
    pub(crate) fn replied(&mut self, model: u32, usage: Option<Usage>) {
        let prompt = usage.map_or(0, |usage| usage.prompt.0);
        if self.asked >= TELLING_TOKENS && prompt > 0 {
            // Within reason: some count only what their cache did not know, some count all turns.
            let ratio = ratio_milli(prompt, self.asked).clamp(500, RATIO_MAX);
            self.models.entry(model).or_default().ratio_milli = ratio;
        }
    }

    /// The provider refused the last request as too large, after so many attempts.
    ///
    /// # Errors
    /// When that was once too often in this turn: the attempts of them all.
    pub(crate) fn overflowed(
        &mut self,
        model: u32,
        declared: Option<Tokens>,
        failure: &Failure,
        attempts: u32,
    ) -> Result<(), u32> {
        let known = self.models.entry(model).or_default();
        let told = failure.window.map(|tokens| u64::from(tokens.get()));
        if let Some(window) = told {
            // It was more than the window, in their tokens.
            known.ratio_milli = ratio_milli(window, self.asked).min(RATIO_MAX).max(known.ratio_milli);
        }
        let felt = self.asked * known.ratio_milli / 1000 * 9 / 10;
        let window = told.unwrap_or_else(|| declared.map_or(felt, |declared| felt.min(declared.0)));
        known.window = Some(known.window.map_or(window, |known| known.min(window)));
        let (times, before) = self.refusal(model).map_or((0, 0), |refused| (refused.times, refused.attempts));
        let (times, attempts) = (times + 1, before + attempts);
        self.refused = Some(Refused { model, size: self.asked, times, attempts, failure: failure.clone() });
        if times > OVERFLOWS_MAX { Err(attempts) } else { Ok(()) }
    }

    /// Keeps what a call gave, if there is a way to read it and it is not too large; its id then.
    pub(crate) fn keep(&mut self, call: CallKey, text: &Arc<str>, toolbox: &Toolbox) -> Option<ResultId> {
        let readable = toolbox.get(reader::READ_RESULT).is_none();
        (readable && self.results.keep(call, text)).then_some(ResultId::of(call))
    }

    /// The tool that reads what was kept, once there is something to read and no tool of the agent
    /// has its name.
    pub(crate) fn reader(&self, toolbox: &Toolbox) -> Option<&'static Arc<ToolSpec>> {
        let offered = !self.results.is_empty() && toolbox.get(reader::READ_RESULT).is_none();
        offered.then(reader::declaration)
    }

    /// What its declaration takes of a context window.
    pub(crate) fn reader_tokens(&self, toolbox: &Toolbox) -> u64 {
        self.reader(toolbox).map_or(0, |_| reader::gate().declared_tokens())
    }

    /// What checks a call of a tool with this name: the run's own reader, or the agent's toolbox.
    pub(crate) fn gate<'t>(&self, name: &str, toolbox: &'t Toolbox) -> &'t Toolbox {
        match name == reader::READ_RESULT && self.reader(toolbox).is_some() {
            true => reader::gate(),
            false => toolbox,
        }
    }

    /// The answer to a call that passed the reader's gate; none for a call of any other tool.
    pub(crate) fn answer(&self, tool: &Arc<ToolSpec>, arguments: &Json) -> Option<Result<Arc<str>, Failure>> {
        Arc::ptr_eq(tool, reader::declaration()).then(|| reader::answer(&self.results, arguments))
    }
}

/// What the provider counted for a thousand of our tokens, and a little more.
fn ratio_milli(theirs: u64, ours: u64) -> u64 {
    theirs.saturating_mul(1020) / ours.max(1)
}

#[cfg(test)]
mod tests;
