//! How often a snapshot of a run is made: so that resuming reads little, and what is written for it
//! stays in proportion to what is new.

use dauntless_contract::{CallVerdict, ModelReply, RunEvent, Verified, VerifyVerdict};

/// Resuming reads no more events than this after a snapshot.
const EVENTS_MAX: u32 = 200;
/// Nor much more than this, or than the snapshot itself.
const BYTES_MAX: usize = 256 * 1024;
/// What an event takes besides its texts.
const EVENT_BYTES: usize = 200;

/// What came since the last snapshot of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotPace {
    events: u32,
    bytes: usize,
    snapshot_bytes: usize,
}

impl SnapshotPace {
    /// Nothing yet, after a snapshot of so many bytes; 0 where there is none.
    pub const fn after(snapshot_bytes: usize) -> Self {
        Self { events: 0, bytes: 0, snapshot_bytes }
    }

    /// Counts an event.
    pub fn saw(&mut self, event: &RunEvent) {
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(EVENT_BYTES + text_bytes(event));
    }

    /// Whether it is time for another snapshot: after 200 events, or after as many bytes as the last
    /// snapshot has, and 256 KiB at least.
    pub fn is_due(&self) -> bool {
        self.events >= EVENTS_MAX || self.bytes > self.snapshot_bytes.max(BYTES_MAX)
    }
}

/// What an event adds to what a run knows.
fn text_bytes(event: &RunEvent) -> usize {
    match event {
        RunEvent::ModelReplied { reply, .. } | RunEvent::SummaryReplied { reply, .. } => said(reply),
        RunEvent::CallEnded { record, .. } | RunEvent::OutcomeResolved { record, .. } => {
            match &record.verdict {
                CallVerdict::Succeeded(output) => output.text.len(),
                CallVerdict::Failed(failure) => failure.message.len(),
            }
        }
        RunEvent::CallVerified { verdict: VerifyVerdict::Answered(Verified::Happened(output)), .. } => {
            output.text.len()
        }
        RunEvent::ChildEnded { outcome, .. } => outcome.text.as_ref().map_or(0, |text| text.len()),
        RunEvent::InputGiven { text, .. } | RunEvent::MessageReceived { text, .. } => text.len(),
        RunEvent::RunStarted { .. }
        | RunEvent::AttemptFailed { .. }
        | RunEvent::CallVerified { .. }
        | RunEvent::ModelFailed { .. }
        | RunEvent::SummaryFailed { .. }
        | RunEvent::TimerFired { .. }
        | RunEvent::CancelRequested { .. }
        | RunEvent::Interrupted {}
        | RunEvent::Suspended { .. }
        | RunEvent::ConfigChosen { .. }
        | RunEvent::LetterSetAside { .. } => 0,
    }
}

fn said(reply: &ModelReply) -> usize {
    let extra = reply.extra.as_ref().map_or(0, |extra| extra.as_str().len());
    let calls = reply.calls.iter().map(|call| call.name.len() + call.arguments.len());
    reply.text.as_ref().map_or(0, |text| text.len()) + extra + calls.sum::<usize>()
}
