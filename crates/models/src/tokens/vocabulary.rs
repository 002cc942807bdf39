//! Counting with a vocabulary that is compiled in.

use dauntless_contract::{CountTokens, Tokens};
use tiktoken_rs::CoreBPE;
use tiktoken_rs::model::get_context_size;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// The time to split a text without white space grows with the square of its length, so it is
/// counted in pieces; each seam costs at most a token.
const PIECE_BYTES_MAX: usize = 2048;

/// One vocabulary; loaded when it is first used, and once for all models that share it.
#[derive(Debug)]
pub(super) struct Vocabulary {
    name: &'static str,
    load: fn() -> &'static CoreBPE,
}

pub(super) fn of_model(model: &str) -> Option<Vocabulary> {
    let (name, load): (_, fn() -> &'static CoreBPE) = match get_tokenizer(base_name(model))? {
        Tokenizer::O200kHarmony => ("o200k_harmony", tiktoken_rs::o200k_harmony_singleton),
        Tokenizer::O200kBase => ("o200k_base", tiktoken_rs::o200k_base_singleton),
        Tokenizer::Cl100kBase => ("cl100k_base", tiktoken_rs::cl100k_base_singleton),
        Tokenizer::P50kBase => ("p50k_base", tiktoken_rs::p50k_base_singleton),
        Tokenizer::P50kEdit => ("p50k_edit", tiktoken_rs::p50k_edit_singleton),
        Tokenizer::R50kBase | Tokenizer::Gpt2 => ("r50k_base", tiktoken_rs::r50k_base_singleton),
    };
    Some(Vocabulary { name, load })
}

pub(super) fn window(model: &str) -> Option<Tokens> {
    get_context_size(base_name(model)).and_then(|tokens| u64::try_from(tokens).ok()).map(Tokens)
}

/// The name without the vendor that gateways put before it, as in `openai/gpt-4o`.
fn base_name(model: &str) -> &str {
    model.strip_prefix("openai/").unwrap_or(model)
}

impl CountTokens for Vocabulary {
    fn vocabulary(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> u64 {
        let bpe = (self.load)();
        let mut rest = text;
        let mut count = 0;
        while !rest.is_empty() {
            let fits = |end: &usize| rest.is_char_boundary(*end);
            let end = (1..=rest.len().min(PIECE_BYTES_MAX)).rev().find(fits).unwrap_or(rest.len());
            let (piece, more) = rest.split_at(end);
            count += bpe.count_ordinary(piece);
            rest = more;
        }
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}
