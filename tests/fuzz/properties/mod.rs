//! What must hold whatever bytes a model or a provider sends: one function for each fuzz target.
//!
//! A target hands its bytes to one of these, and the ordinary tests hand them the corpus, so the
//! inputs that were once found stay tests and the targets stay true. A function returns when its
//! property holds and panics when it does not. It judges by rules of its own and takes over none of
//! the code that it tests.

pub mod arguments;
pub mod assembler;
pub mod history;
pub mod redact;
pub mod retry_after;
pub mod schema;
mod written;

/// Returns when it holds for these bytes, and panics when it does not.
pub type Property = fn(&[u8]);

/// The properties by the name of their target and their corpus.
pub const ALL: [(&str, Property); 6] = [
    ("arguments", arguments::holds),
    ("assembler", assembler::holds),
    ("history", history::holds),
    ("redact", redact::holds),
    ("retry_after", retry_after::holds),
    ("schema", schema::holds),
];
