//! Messages between runs: left in the journal of the receiver, or given to it where there is none.

use std::sync::Arc;

use dauntless_contract::{
    EffectState, Failure, Letter, LetterContent, Posted, RunEvent, RunId, SharedJournal, ToolCtx, ToolOutput,
};
use dauntless_core::tree::TreeTool;
use dauntless_core::tree::address::{self, PARENT};
use dauntless_core::tree::mailbox::{self, MESSAGES_MAX};
use tokio::sync::oneshot;

use super::{Commons, Member};
use crate::orchestrator::RunMsg;

/// One message on its way.
pub(crate) struct Message {
    /// Its name: the same each time that it is sent.
    pub(crate) letter: Arc<str>,
    from: RunId,
    agent: Arc<str>,
    text: Arc<str>,
}

impl Message {
    pub(crate) fn event(self) -> RunEvent {
        let Self { letter, from, agent, text } = self;
        RunEvent::MessageReceived { letter, from, agent, text }
    }

    fn letter(&self) -> Letter {
        let (from, agent, text) = (self.from, Arc::clone(&self.agent), Arc::clone(&self.text));
        LetterContent::Message { from, agent, text }.letter(Arc::clone(&self.letter))
    }
}

impl Commons {
    pub(super) async fn send_message(
        &self,
        ctx: &ToolCtx,
        to: &str,
        text: &str,
    ) -> Result<ToolOutput, Failure> {
        let caller = self.caller(ctx.run)?;
        mailbox::check(text)?;
        let parent = caller.kin.parent().ok_or_else(address::alone)?;
        let siblings = self.siblings(parent).await?;
        let receiver = match to {
            PARENT => parent,
            to => siblings.find(ctx.run, to)?,
        };
        let message = Message {
            letter: Arc::clone(&ctx.idempotency_key),
            from: ctx.run,
            agent: siblings.name(ctx.run).unwrap_or(caller.agent),
            text: self.redactor.text(text).into(),
        };
        let posted = match &self.journal {
            Some(journal) => self.post(&**journal, receiver, to, &message).await?,
            None => self.give(receiver, to, message).await?,
        };
        match posted {
            Posted::New | Posted::Again => Ok(mailbox::sent(to)),
            Posted::Full => Err(mailbox::full(to)),
            Posted::Ended => Err(mailbox::ended(to)),
        }
    }

    async fn post(
        &self,
        journal: &dyn SharedJournal,
        receiver: RunId,
        to: &str,
        message: &Message,
    ) -> Result<Posted, Failure> {
        let here = self.member(receiver);
        let takes = match &here {
            Some(member) => member.takes_messages,
            None => takes_messages(journal, receiver).await?,
        };
        if !takes {
            return Err(mailbox::reads_none(to));
        }
        let letter = message.letter();
        let posted = journal.post(receiver, letter.clone(), MESSAGES_MAX).await.map_err(|error| {
            Failure::unavailable("The journal did not say whether the message was left.")
                .effect(EffectState::Unknown)
                .source(error)
        })?;
        if let (Posted::New | Posted::Again, Some(member)) = (posted, here) {
            let _ = member.actor.send_message(RunMsg::Letter(letter));
        }
        Ok(posted)
    }

    /// Gives a message to a run of this process that has no journal for it.
    async fn give(&self, receiver: RunId, to: &str, message: Message) -> Result<Posted, Failure> {
        let Some(Member { takes_messages, actor, .. }) = self.member(receiver) else {
            return Ok(Posted::Ended);
        };
        if !takes_messages {
            return Err(mailbox::reads_none(to));
        }
        let (reply, answer) = oneshot::channel();
        let _ = actor.send_message(RunMsg::Message { message, reply });
        // Who is gone by now answers nothing.
        Ok(answer.await.unwrap_or(Posted::Ended))
    }
}

/// Whether a run that is driven elsewhere takes part: the tools that it had at its start say so.
async fn takes_messages(journal: &dyn SharedJournal, run: RunId) -> Result<bool, Failure> {
    let first = journal.read(run, 0, 1).await.map_err(|error| {
        Failure::unavailable("The journal of the receiver cannot be read at present.").source(error)
    })?;
    Ok(first.into_iter().any(|first| match first.event {
        RunEvent::RunStarted { tools, .. } => {
            tools.iter().any(|tool| **tool == *TreeTool::SendMessage.name())
        }
        _ => false,
    }))
}
