//! The way in for tests that make up what a provider sends, without a provider.
//!
//! It exists only with the feature `fuzzing`, holds to no version and decides nothing: it hands
//! bytes to the code that reads a provider's answer and gives back what the runtime would get.

use std::collections::HashSet;

use dauntless_contract::ModelReply;
use serde_json::value::RawValue;

use crate::assembler::Assembler;
use crate::openai::failed_generation;
use crate::wire::{Packet, WireError};

/// What a client knows when a reply comes in.
#[derive(Clone, Debug, Default)]
pub struct Setting<'a> {
    /// Names of fields that go back to the provider.
    pub send_back: &'a [String],
    /// The output limit that was asked for.
    pub output_limit: Option<u32>,
    /// The call ids of the conversation so far.
    pub taken: HashSet<&'a str>,
}

/// Reads one body; none where it is no JSON, or an error and no reply.
pub fn whole(body: &str, setting: &Setting<'_>) -> Option<ModelReply> {
    let packet = read(body, setting)?;
    if let Some(error) = &packet.error {
        return unreadable(error, setting);
    }
    finish(Assembler::whole(packet), setting)
}

/// Reads the chunks of a stream; none where one is no JSON, or an error and no reply.
pub fn streamed<'c>(chunks: impl IntoIterator<Item = &'c str>, setting: &Setting<'_>) -> Option<ModelReply> {
    let mut assembler = Assembler::default();
    for chunk in chunks {
        let packet = read(chunk, setting)?;
        if let Some(error) = &packet.error {
            return unreadable(error, setting);
        }
        assembler.push(packet);
    }
    finish(assembler, setting)
}

fn read(text: &str, setting: &Setting<'_>) -> Option<Packet> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Some(Packet::read(raw, setting.send_back))
}

fn finish(assembler: Assembler, setting: &Setting<'_>) -> Option<ModelReply> {
    let has_reply = assembler.has_choice() && !assembler.ended_in_error();
    has_reply.then(|| assembler.finish(setting.output_limit, setting.taken.clone()))
}

fn unreadable(error: &WireError, setting: &Setting<'_>) -> Option<ModelReply> {
    let call = Assembler::whole(failed_generation::call(error)?).garbled("it could not be read");
    Some(call.finish(setting.output_limit, setting.taken.clone()))
}
