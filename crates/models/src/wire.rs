//! OpenAI's two APIs as they are on the wire: what we send, and what providers really send back.
//!
//! Every field of a response is read on its own, so that a surprise in one (a number for a text, an
//! object for a list, a null, a duplicate) costs that field and never the response. What fields
//! mean together is for the [`assembler`](crate::assembler) to say.

mod call_ids;
mod error;
mod fields;
mod packet;
mod request;
mod responses;
mod strict;

#[cfg(test)]
mod tests;

pub(crate) use error::WireError;
pub(crate) use packet::{Arguments, CallPart, Choice, Packet, Part, merge};
pub(crate) use request::{CALLS_KEY, Calling, ChatRequest};
pub(crate) use responses::{Items, ResponsesRequest};

/// Names of message fields that we do not understand and must send back as they came.
pub(crate) type SendBack = [String];
