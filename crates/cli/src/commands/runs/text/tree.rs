//! The runs below a run, each in a line that is indented by its level.

use dauntless_contract::{RunState, Seq};
use dauntless_daemon::runs::Branch;
use serde_json::{Value, json};

use super::{TEXT_CHARS_MAX, meta_json};
use crate::output::one_line;

/// The run whose end is in this event of the top run, and all below it.
pub(super) fn ended_at(tree: &[Branch], seq: Seq) -> &[Branch] {
    parts(tree).find(|part| part.first().is_some_and(|child| child.ended_at == Some(seq))).unwrap_or_default()
}

/// The runs whose end the top run has not seen, each with all below it.
pub(super) fn open(tree: &[Branch]) -> Vec<&Branch> {
    let is_open = |part: &&[Branch]| part.first().is_some_and(|child| child.ended_at.is_none());
    parts(tree).filter(is_open).flatten().collect()
}

/// Each child with all below it.
fn parts(tree: &[Branch]) -> impl Iterator<Item = &[Branch]> {
    tree.chunk_by(|_, next| next.level > 1)
}

/// One run.
pub(super) fn line(branch: &Branch) -> String {
    let Branch { level, meta, headline, waits, .. } = branch;
    let agent = if headline.agent.is_empty() { &meta.agent } else { &headline.agent };
    let state = match (meta.state, &meta.reason) {
        (RunState::Driven | RunState::Ready, _) => format!("{}, waits for {waits}", meta.state.as_str()),
        (state, Some(reason)) => format!("{}: {reason}", state.as_str()),
        (state, None) => state.as_str().to_owned(),
    };
    let text = format!("{agent} {}: {state}; {}", meta.run, headline.used());
    format!("{:width$}{}", "", one_line(&text, TEXT_CHARS_MAX), width = 2 * level)
}

/// One run, for programs.
pub(super) fn json(branch: &Branch) -> Value {
    let Branch { level, meta, headline, waits, ended_at } = branch;
    json!({
        "level": level, "meta": meta_json(meta), "headline": headline, "waits": waits, "ended_at": ended_at,
    })
}
