//! Puts a reply together: from one body, or from the chunks of a stream.
//!
//! Providers number the fragments of calls wrongly, repeat ids or leave them out. There is one
//! assembler for all of them, so that a deviation is handled the same way wherever it comes from.
//! It joins fragments only where one reading is possible; where more than one is, the calls in
//! question are marked as garbled, and nobody executes them.

use std::collections::HashSet;
use std::sync::Arc;

use dauntless_contract::{Finish, Json, ModelReply, RawCall, Usage};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::wire::{Arguments, CALLS_KEY, CallPart, Packet, merge};
use route::Route;

mod route;

#[cfg(test)]
mod tests;

/// A reply in the making.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    refusal: String,
    calls: Vec<OpenCall>,
    extra: Map<String, Value>,
    finish: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    has_choice: bool,
    has_end: bool,
}

/// A call that may still grow.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
    garbled: Option<&'static str>,
}

impl Assembler {
    /// Takes a whole body: every call in it is complete, whatever its number says.
    pub(crate) fn whole(packet: Packet) -> Self {
        let mut assembler = Self::default();
        assembler.add(packet, Self::open);
        assembler
    }

    /// Marks every call as one that cannot be trusted.
    pub(crate) fn garbled(mut self, reason: &'static str) -> Self {
        self.calls.iter_mut().for_each(|call| call.doubt(reason));
        self
    }

    /// Takes the next chunk of a stream.
    pub(crate) fn push(&mut self, packet: Packet) {
        // Usage without a choice is what a provider sends after the last piece.
        self.has_end |= packet.choice.is_none() && packet.usage.is_some() && self.has_choice;
        let unplaced = |part: &&CallPart| part.index.is_none() && part.id.is_none() && part.name.is_none();
        let choice = packet.choice.as_ref();
        let alone = choice.is_none_or(|choice| choice.part.calls.iter().filter(unplaced).count() < 2);
        self.add(packet, |assembler, part| assembler.join(part, alone));
    }

    fn add(&mut self, packet: Packet, mut take: impl FnMut(&mut Self, CallPart)) {
        self.model = packet.model.or(self.model.take());
        self.usage = packet.usage.or(self.usage.take());
        let Some(choice) = packet.choice else { return };
        self.has_choice = true;
        self.text.push_str(&choice.part.text);
        self.refusal.push_str(&choice.part.refusal);
        merge(&mut self.extra, choice.part.extra);
        for part in choice.part.calls {
            take(self, part);
        }
        if let Some(word) = choice.finish {
            self.has_end = true;
            // That something was cut or held back stays true, whatever is said later.
            if !matches!(self.finish.as_deref().map(finish_of), Some(Finish::Length | Finish::ContentFilter))
            {
                self.finish = Some(word);
            }
        }
    }

    /// Whether any choice came at all.
    pub(crate) fn has_choice(&self) -> bool {
        self.has_choice
    }

    /// Whether the provider said that the reply is complete.
    pub(crate) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Whether the provider gave an error as the reason to stop.
    pub(crate) fn ended_in_error(&self) -> bool {
        self.finish.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("error"))
    }

    fn join(&mut self, part: CallPart, alone: bool) {
        match route::route(&self.calls, &part, alone) {
            Route::Nowhere => {}
            Route::Open => self.open(part),
            Route::Join(at) => {
                if let Some(call) = self.calls.get_mut(at) {
                    call.join(part);
                }
            }
            Route::OpenInDoubt(at, reason) => {
                if let Some(call) = self.calls.get_mut(at) {
                    call.doubt(reason);
                }
                self.open(part);
                if let Some(call) = self.calls.last_mut() {
                    call.doubt(reason);
                }
            }
            Route::Unclear(reason) => {
                for call in &mut self.calls {
                    call.doubt(reason);
                }
            }
        }
    }

    fn open(&mut self, part: CallPart) {
        if !route::says_nothing(&part) {
            let mut call = OpenCall::default();
            call.join(part);
            self.calls.push(call);
        }
    }

    /// Ends the reply. `output_limit` is what we asked for; `taken` are the call ids of the
    /// conversation so far, which no call of this reply may repeat.
    pub(crate) fn finish(self, output_limit: Option<u32>, mut taken: HashSet<&str>) -> ModelReply {
        let finish = self.decide_finish(output_limit);
        let ids = unique_ids(&self.calls, &mut taken);
        let mut extra = self.extra;
        let mut call_extra = Map::new();
        let mut calls = Vec::with_capacity(self.calls.len());
        for (mut call, id) in self.calls.into_iter().zip(ids) {
            if call.name.is_empty() {
                call.doubt("the call has no name");
            }
            if !call.extra.is_empty() {
                call_extra.insert(id.to_string(), call.extra.into());
            }
            calls.push(RawCall {
                id,
                name: call.name.into(),
                arguments: call.arguments.into(),
                garbled: call.garbled.map(Into::into),
            });
        }
        if !call_extra.is_empty() {
            extra.insert(CALLS_KEY.to_owned(), call_extra.into());
        }
        let refused = self.finish.is_some_and(|word| word.eq_ignore_ascii_case("refusal"));
        let refusal = match (self.refusal.is_empty(), refused) {
            (false, _) => Some(self.refusal),
            (true, true) if self.text.is_empty() => Some("The model refused to answer.".to_owned()),
            (true, true) => Some(self.text.clone()),
            (true, false) => None,
        };
        ModelReply {
            text: Some(self.text).filter(|text| !text.is_empty()).map(Into::into),
            calls,
            finish,
            refusal: refusal.map(Into::into),
            usage: self.usage,
            output_limit,
            model: self.model.map(Into::into),
            extra: (!extra.is_empty()).then(|| Json::from(Value::Object(extra))),
        }
    }

    /// Providers contradict themselves, so that there are calls counts for more than the word.
    fn decide_finish(&self, output_limit: Option<u32>) -> Finish {
        let said = self.finish.as_deref().map_or(Finish::Stop, finish_of);
        if matches!(said, Finish::Length | Finish::ContentFilter) {
            return said;
        }
        let used = self.usage.map_or(0, |usage| usage.completion.0);
        let spent = output_limit.is_some_and(|limit| used >= u64::from(limit));
        // Some providers call a reply whole that they cut. A whole call is left in peace.
        if spent && (self.calls.is_empty() || self.calls.iter().any(OpenCall::is_broken)) {
            return Finish::Length;
        }
        match said {
            _ if !self.calls.is_empty() => Finish::ToolCalls,
            Finish::ToolCalls => Finish::Stop,
            said => said,
        }
    }
}

impl OpenCall {
    fn join(&mut self, part: CallPart) {
        self.index = self.index.or(part.index);
        self.id = self.id.take().or(part.id);
        merge(&mut self.extra, part.extra);
        if let Some(name) = part.name
            && name != self.name
        {
            self.name.push_str(&name);
        }
        match part.arguments {
            Arguments::Absent => {}
            Arguments::Text(text) => self.arguments.push_str(&text),
            Arguments::Value(json) if self.has_no_arguments() => self.arguments = json,
            Arguments::Value(json) if is_same(&self.arguments, &json) => {}
            Arguments::Value(_) => self.doubt("its arguments came both in pieces and as a whole"),
            Arguments::NotText => {
                self.doubt("its arguments hold half of a surrogate pair, which is no character")
            }
        }
    }

    fn doubt(&mut self, reason: &'static str) {
        self.garbled.get_or_insert(reason);
    }

    fn has_no_arguments(&self) -> bool {
        self.arguments.trim().is_empty()
    }

    /// Whether the arguments are a whole object, so that nothing can follow them.
    fn is_closed(&self) -> bool {
        self.arguments.trim_start().starts_with('{') && is_json(&self.arguments)
    }

    fn is_broken(&self) -> bool {
        !self.has_no_arguments() && !is_json(&self.arguments)
    }
}

/// Whether both say the same, however they are spaced.
fn is_same(one: &str, other: &str) -> bool {
    let value = |text| serde_json::from_str::<Value>(text).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Keeps the ids that are there and used once; makes one for every other call.
fn unique_ids(calls: &[OpenCall], taken: &mut HashSet<&str>) -> Vec<Arc<str>> {
    let mut used: HashSet<Arc<str>> = HashSet::new();
    let given: Vec<Option<Arc<str>>> = calls
        .iter()
        .map(|call| {
            let id: Arc<str> = call.id.as_deref().filter(|id| !taken.contains(id))?.into();
            used.insert(Arc::clone(&id)).then_some(id)
        })
        .collect();
    let mut number = taken.len();
    let mut make = || loop {
        number += 1;
        let id: Arc<str> = format!("call_{number}").into();
        if !taken.contains(&*id) && !used.contains(&id) {
            return id;
        }
    };
    given.into_iter().map(|id| id.unwrap_or_else(&mut make)).collect()
}

/// What a provider's word for the end of a reply means.
fn finish_of(word: &str) -> Finish {
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "complete" | "completed" => {
            Finish::Stop
        }
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => Finish::ToolCalls,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        // Google adds the reason after a colon.
        filtered if filtered.starts_with("content_filter") => Finish::ContentFilter,
        _ => Finish::Other(word.into()),
    }
}
