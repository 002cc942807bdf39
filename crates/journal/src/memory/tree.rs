//! What the runs of one tree share.

use std::sync::Arc;

use dauntless_contract::{ChildRun, JournalError, Letter, Pad, Posted, RunId, RunState};

use super::runs::Inner;
use super::state::Run;
use crate::stored::{NOTE_BYTES_MAX, bounded};

impl Inner {
    pub(super) fn post(
        &mut self,
        run: RunId,
        letter: Letter,
        unread_max: usize,
    ) -> Result<Posted, JournalError> {
        let found = self.run(run)?;
        if found.knows(&letter.id) {
            return Ok(Posted::Again);
        }
        if found.state == RunState::Ended {
            return Ok(Posted::Ended);
        }
        if found.unread().count() >= unread_max {
            return Ok(Posted::Full);
        }
        self.send(run, letter).map(|_| Posted::New)
    }

    pub(super) fn children(&self, parent: RunId) -> Vec<ChildRun> {
        let mut children: Vec<_> = self.runs.iter().filter(|(_, run)| run.parent == Some(parent)).collect();
        children.sort_by_key(|(id, run)| (run.created, **id));
        let child = |(id, run): (&RunId, &Run)| ChildRun {
            run: *id,
            agent: Arc::clone(&run.agent),
            state: run.state,
        };
        children.into_iter().map(child).collect()
    }

    pub(super) fn pad(&self, root: RunId) -> Result<Option<Pad>, JournalError> {
        Ok(self.run(root)?.pad.clone())
    }

    pub(super) fn put_pad(
        &mut self,
        root: RunId,
        expected: u64,
        body: Arc<[u8]>,
    ) -> Result<bool, JournalError> {
        bounded("a pad", body.len(), NOTE_BYTES_MAX, "bytes")?;
        let run = self.run_mut(root)?;
        let is_expected = run.pad.as_ref().map_or(0, |pad| pad.version) == expected;
        if is_expected {
            run.pad = Some(Pad { version: expected + 1, body });
        }
        Ok(is_expected)
    }
}
