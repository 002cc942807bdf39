//! Checks who stands in for whom: every fallback exists, and none leads round in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dauntless_contract::ToolSpec;

use super::Quarantined;

/// What is wrong with the fallbacks, by the tool that names them.
pub(super) fn problems(tools: &BTreeMap<&Arc<str>, &ToolSpec>) -> Vec<Quarantined> {
    let problem = |(name, spec): (&&Arc<str>, &&ToolSpec)| {
        let fallback = spec.fallback.as_ref()?;
        let reason = if !tools.contains_key(fallback) {
            format!(
                "tool `{name}`: its fallback `{fallback}` is not a tool of this agent: add that tool, or take the fallback out"
            )
        } else {
            let path = circle(name, tools)?;
            format!("tool `{name}`: its fallbacks lead back to it ({path}): take one of them out")
        };
        Some(Quarantined { name: Arc::clone(name), reason })
    };
    tools.iter().filter_map(problem).collect()
}

/// The way from a tool over fallbacks back to itself, if there is one.
fn circle(start: &Arc<str>, tools: &BTreeMap<&Arc<str>, &ToolSpec>) -> Option<String> {
    let mut path = format!("`{start}`");
    let mut seen = BTreeSet::new();
    let mut at = start;
    while let Some(next) = tools.get(at).and_then(|spec| spec.fallback.as_ref()) {
        path.push_str(&format!(" → `{next}`"));
        if next == start {
            return Some(path);
        }
        if !seen.insert(next) {
            return None;
        }
        at = next;
    }
    None
}
