//! The Responses API on the wire. What comes back is read into the same packets as chat completions,
//! so that one assembler decides what a deviation means, whichever API it came by.

mod items;
mod request;

#[cfg(test)]
mod tests;

pub(crate) use items::Items;
pub(crate) use request::ResponsesRequest;

/// Where a reply keeps its sealed reasoning: before its text with the message, and before a call
/// with that call.
const REASONING_KEY: &str = "reasoning_items";
