//! One tool call without a model: for operators who want to see how a tool behaves.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Clock, Observation, Progress, RawCall, StoppedBy, Timestamp, ToolSpec,
};
use dauntless_core::observation;
use dauntless_core::resilience::CallEnd;
use dauntless_core::run::CancelReach;
use dauntless_core::toolbox::Admission;
use tokio::sync::oneshot;
use tracing::Span;

use crate::error::SubmitError;
use crate::guarded::{GuardedHandle, Job, JobTicket, ReplySlot};
use crate::id;
use crate::orchestrator::Crew;
use crate::ports::{ToolPort, ToolReply, ToolRequest, Wanted};
use crate::telemetry;
use crate::watch::Watch;

/// How a call by hand ended, and what a model would have read of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallByHand {
    /// How it ended.
    pub record: CallRecord,
    /// The observation, capped as a model's would be.
    pub observation: Observation,
}

impl CallByHand {
    fn new(record: CallRecord, spec: &ToolSpec) -> Self {
        let observation = match &record.verdict {
            CallVerdict::Succeeded(output) => observation::success(output, spec),
            CallVerdict::Failed(failure) => observation::failure(failure, record.attempts, spec.effect),
        };
        Self { record, observation }
    }
}

const CALL: CallKey = CallKey { turn: 1, index: 0 };

pub(crate) async fn call(
    crew: &Crew,
    clock: &dyn Clock,
    name: &str,
    arguments: &str,
    mut see: impl FnMut(&Progress),
) -> Result<CallByHand, SubmitError> {
    let tool = crew.tool(name)?;
    let spec = Arc::clone(tool.port().tool.spec());
    let raw = RawCall { id: "by-hand".into(), name: name.into(), arguments: arguments.into(), garbled: None };
    let arguments = match crew.toolbox().admit(&raw, None) {
        Admission::Run { call, .. } => call.arguments,
        Admission::Answered { failure, .. } => {
            let record = CallRecord {
                verdict: CallVerdict::Failed(failure),
                attempts: 0,
                waited: Duration::ZERO,
                stopped_by: Some(StoppedBy::Permanent),
                out_for: None,
                by: None,
            };
            return Ok(CallByHand::new(record, &spec));
        }
    };
    let run = id::run_id();
    let (reply, mut ended) = oneshot::channel();
    let (watch, mut events) = Watch::open();
    let job = Job {
        request: Arc::new(ToolRequest {
            wanted: Wanted::Call,
            run,
            call: CALL,
            arguments,
            idempotency_key: format!("{run}-{CALL}").into(),
        }),
        deadline: Timestamp::MAX,
        attempts_made: 0,
        watch,
        span: telemetry::tool_span(&Span::current(), CALL, name, spec.effect),
        reply: ReplySlot::new(tool.name(), reply),
    };
    let ticket = tool.submit(clock.now(), job);
    let _guard = CancelOnDrop { tool, ticket };
    loop {
        tokio::select! {
            biased;
            Some(progress) = events.next() => see(&progress),
            end = &mut ended => {
                let CallEnd { result, attempts, waited, stopped_by, out_for } =
                    end.map_err(|_| SubmitError::Stopped)?;
                let verdict = match result {
                    Ok(ToolReply::Output(output)) => CallVerdict::Succeeded(output),
                    // Nobody asked for one.
                    Ok(ToolReply::Verdict(_)) => return Err(SubmitError::Stopped),
                    Err(failure) => CallVerdict::Failed(failure),
                };
                let record = CallRecord { verdict, attempts, waited, stopped_by, out_for, by: None };
                return Ok(CallByHand::new(record, &spec));
            }
        }
    }
}

/// A call that nobody waits for any more is stopped; one that has ended is left alone.
struct CancelOnDrop<'a> {
    tool: &'a GuardedHandle<ToolPort>,
    ticket: JobTicket,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.tool.cancel(self.ticket, CancelReach::Running);
    }
}
