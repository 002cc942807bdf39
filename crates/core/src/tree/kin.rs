//! Who asked whom for what: the ids of children, and goals that go round in a circle.

use std::fmt::Write as _;
use std::sync::Arc;

use dauntless_contract::{Ancestor, GoalDigest, Json, Lineage, RunId};
use serde::{Deserialize, Serialize};

use crate::arguments::Tree;
use crate::excerpt::shortened;
use crate::toolbox::Digest;

/// The id of a child: the same each time for the same place in the same run, and its own for each try.
///
/// It sorts with its parent: the time in it is the parent's. The version is 8, for an id of one's own making.
pub fn child_run(parent: RunId, place: &str, attempt: u32) -> RunId {
    const TIME: u128 = !0 << 80;
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let digest = Digest::of(&[&parent.to_string(), place, &attempt.to_string()]).value();
    let marked = digest & !(TIME | VERSION | VARIANT) | 8 << 76 | 0b10 << 62;
    RunId::from_u128(parent.as_u128() & TIME | marked)
}

/// What makes two goals the same: case, white space and the punctuation at their ends do not count,
/// nor does the order of keys where a goal is JSON.
pub fn digest(goal: &str) -> GoalDigest {
    let canonical = Tree::parse(goal).map_or_else(|_| goal.to_owned(), |(tree, _)| tree.sorted().to_string());
    let bare = canonical.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | '?' | '"'));
    let words: Vec<String> = bare.split_whitespace().map(str::to_lowercase).collect();
    GoalDigest::from_u128(Digest::of(&[&words.join(" ")]).value())
}

/// The goal of a child in words: the text of an input that holds nothing but `goal`, else the input
/// itself.
pub fn goal_of(input: &Json) -> Arc<str> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plain {
        goal: Arc<str>,
    }
    input.to::<Plain>().map_or_else(|_| input.as_str().into(), |plain| plain.goal)
}

/// A run with those above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kin {
    run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
    root: RunId,
    /// From the root to the run itself.
    path: Vec<Ancestor>,
}

impl Kin {
    /// A run that works for an agent on a goal.
    pub fn new(run: RunId, agent: &Arc<str>, goal: &str, above: Option<Lineage>) -> Self {
        let parent = above.as_ref().map(|above| above.parent);
        let (root, mut path) = above.map_or_else(|| (run, Vec::new()), |above| (above.root, above.path));
        path.push(Ancestor { agent: Arc::clone(agent), goal: digest(goal) });
        Self { run, parent, root, path }
    }

    /// The run itself.
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// The run that started it, if one did.
    pub const fn parent(&self) -> Option<RunId> {
        self.parent
    }

    /// The topmost run of its tree.
    pub const fn root(&self) -> RunId {
        self.root
    }

    /// The lineage of its children.
    pub fn of_child(&self) -> Lineage {
        Lineage { parent: self.run, root: self.root, path: self.path.clone() }
    }

    /// The way from an agent down to this run and to that agent again, if it is at work above on the
    /// same goal and waits for what this run does.
    pub fn circle(&self, agent: &str, goal: &str) -> Option<String> {
        let goal = digest(goal);
        let start = self.path.iter().position(|above| &*above.agent == agent && above.goal == goal)?;
        let mut chain = String::new();
        for Ancestor { agent, .. } in self.path.iter().skip(start) {
            let _ = write!(chain, "`{}` → ", shortened(agent, 64));
        }
        let _ = write!(chain, "`{agent}`");
        Some(chain)
    }
}

#[cfg(test)]
mod tests;
