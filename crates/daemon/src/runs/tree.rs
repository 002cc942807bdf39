//! The runs below a run, and what all of them used together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dauntless_contract::{JournalError, ListQuery, RunId, RunMeta, Seq};

use super::{Headline, Look, PAGE, Runs, RunsError};

/// A run below the one that is looked at.
#[derive(Clone, Debug)]
pub struct Branch {
    /// How many levels below it.
    pub level: usize,
    /// Where it stands.
    pub meta: RunMeta,
    /// What its events say.
    pub headline: Headline,
    /// What it waits for, in words.
    pub waits: String,
    /// The event of its parent that holds its end; none where the parent has not seen it.
    pub ended_at: Option<Seq>,
}

impl Runs<'_> {
    /// The runs below a run, each before those below itself, siblings in the order in which they were
    /// created. What those used whose end it has not seen is added to its headline.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn tree(&self, top: &mut Look) -> Result<Vec<Branch>, RunsError> {
        let mut below = self.by_parent(&top.meta).await?;
        let mut open = Vec::new();
        let put = |open: &mut Vec<_>, below: &mut BTreeMap<RunId, Vec<RunMeta>>, level, parent: &Look| {
            let mut children = below.remove(&parent.meta.run).unwrap_or_default();
            children.sort_by_key(|child| (Reverse(child.age), child.run));
            let ended = |child: &RunMeta| parent.ends.get(&child.run).copied();
            open.extend(children.into_iter().rev().map(|child| (level, ended(&child), child)));
        };
        put(&mut open, &mut below, 1, top);
        let mut branches = Vec::new();
        while let Some((level, ended_at, meta)) = open.pop() {
            let look = self.look(meta).await?;
            put(&mut open, &mut below, level + 1, &look);
            let waits = look.waits().join("; ");
            let Look { meta, headline, .. } = look;
            branches.push(Branch { level, meta, headline, waits, ended_at });
        }
        take_in(&mut top.headline, &branches);
        Ok(branches)
    }

    /// All runs of its tree but the root, each under its parent.
    async fn by_parent(&self, meta: &RunMeta) -> Result<BTreeMap<RunId, Vec<RunMeta>>, JournalError> {
        let mut below: BTreeMap<RunId, Vec<RunMeta>> = BTreeMap::new();
        let (root, mut after) = (Some(meta.root.unwrap_or(meta.run)), None);
        loop {
            let page = self.journal.list(ListQuery { state: None, root, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(below) };
            after = Some(last.run);
            for child in page {
                if let Some(parent) = child.parent {
                    below.entry(parent).or_default().push(child);
                }
            }
        }
    }
}

/// Adds what the events of a run do not tell: the parts of the tree whose end has not come up.
fn take_in(headline: &mut Headline, branches: &[Branch]) {
    let mut inside_ended = None;
    for Branch { level, headline: child, ended_at, .. } in branches {
        if inside_ended.is_some_and(|ended| *level > ended) {
            continue;
        }
        inside_ended = ended_at.map(|_| *level);
        if ended_at.is_none() {
            headline.take_in(child);
        }
    }
}
