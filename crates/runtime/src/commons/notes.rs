//! The notes of a tree: read, changed by the rules of `core`, and written if nobody else did meanwhile.

use std::sync::{Arc, PoisonError};

use dauntless_contract::{EffectState, Failure, JournalError, RunId, SharedJournal, ToolCtx, ToolOutput};
use dauntless_core::tree::notes::{Change, Notes};

use super::{Commons, Member, not_read};

/// How often a change gives way to others in one attempt. Each time another one got on.
const WAYS_GIVEN_MAX: u32 = 32;

impl Commons {
    pub(super) async fn read_notes(&self, ctx: &ToolCtx, name: Option<&str>) -> Result<ToolOutput, Failure> {
        let root = self.caller(ctx.run)?.kin.root();
        match &self.journal {
            Some(journal) => stored(&**journal, root).await?.1.read(name),
            None => self.change_here(root, |notes| notes.read(name)),
        }
    }

    pub(super) async fn write_notes(
        &self,
        ctx: &ToolCtx,
        (name, version, text): (Arc<str>, u64, Arc<str>),
    ) -> Result<ToolOutput, Failure> {
        let caller = self.caller(ctx.run)?;
        let (key, by) = (Arc::clone(&ctx.idempotency_key), caller.agent);
        let change = Change { key, by, name, version, text: self.redactor.text(&text).into() };
        let root = caller.kin.root();
        let version = match &self.journal {
            Some(journal) => change_stored(&**journal, root, &change).await?,
            None => self.change_here(root, |notes| notes.change(change.clone()))?,
        };
        Ok(change.made(version))
    }

    fn change_here<T>(
        &self,
        root: RunId,
        change: impl FnOnce(&mut Notes) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Member { notes, .. } =
            self.member(root).ok_or_else(|| Failure::cancelled("The run above this one has ended."))?;
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut notes)
    }
}

async fn stored(journal: &dyn SharedJournal, root: RunId) -> Result<(u64, Notes), Failure> {
    let Some(pad) = journal.pad(root).await.map_err(not_read)? else { return Ok((0, Notes::default())) };
    Ok((pad.version, Notes::from_bytes(&pad.body)?))
}

async fn change_stored(journal: &dyn SharedJournal, root: RunId, change: &Change) -> Result<u64, Failure> {
    for _ in 0..WAYS_GIVEN_MAX {
        let (seen, mut notes) = stored(journal, root).await?;
        if let Some(version) = notes.made(&change.key) {
            return Ok(version);
        }
        let version = notes.change(change.clone())?;
        if journal.put_pad(root, seen, notes.to_bytes().into()).await.map_err(not_written)? {
            return Ok(version);
        }
    }
    Err(Failure::unavailable("Too many others write notes at this moment."))
}

fn not_written(error: JournalError) -> Failure {
    match error {
        JournalError::TooLarge(size) => {
            Failure::too_large(format!("The notes are too large together: {size}."))
        }
        error => Failure::unavailable("The journal did not say whether the note was written.")
            .effect(EffectState::Unknown)
            .source(error),
    }
}
