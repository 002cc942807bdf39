//! What an event costs a run that is short and one that is long, and how long it takes to go on
//! with a long one. Each figure is the best of several rounds: what disturbs only makes it worse.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{
    AgentSpec, CallKey, CallRecord, CallVerdict, Finish, MicroUsd, ModelReply, ModelSpec, PanicPolicy, Price,
    RawCall, Recorded, ResiliencePolicy, RunEvent, RunId, RunLimits, Seq, Snapshot, Timestamp, Tokens,
    ToolOutput, ToolSpec,
};
use dauntless_core::redact::Redactor;
use dauntless_core::run::{FOLD_VERSION, Recovery, RunEffect, RunMachine, RunSpec, toolbox};
use serde_json::json;

const ROUNDS: usize = 15;
const TAIL: Seq = 200;

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    for (window, name) in [(Some(Tokens(200_000)), "200,000 tokens"), (None, "unknown")] {
        let spec = spec(window)?;
        let mut run = Run::start(Arc::clone(&spec))?;
        let early = step(&spec, &run.until(100)?)?;
        let late = step(&spec, &run.until(10_000)?)?;
        println!("context window {name}:");
        println!("  one event after    100: {early:>9.2?}");
        println!(
            "  one event after 10,000: {late:>9.2?}, {:.2} times that",
            late.as_secs_f64() / early.as_secs_f64()
        );
        let snapshot = run.until(100_000 - TAIL)?;
        run.until(100_000)?;
        let whole = best(1, || resume(&spec, None, &run.events))?;
        let resumed = best(ROUNDS, || resume(&spec, Some(&snapshot), &run.events))?;
        println!(
            "  resume after 100,000: {resumed:.2?} from {} KiB and {TAIL} events; {whole:.2?} from all events",
            snapshot.body.len() / 1024
        );
    }
    Ok(())
}

/// The time that an event takes after a snapshot: the run has its conversation for itself there.
fn step(spec: &Arc<RunSpec>, snapshot: &Snapshot) -> Result<Duration, Problem> {
    let whole = best(ROUNDS, || {
        let machine = RunMachine::restore(RUN, Arc::clone(spec), snapshot)?;
        let mut run = Run { machine, events: Vec::new(), next: snapshot.seq, now: Timestamp::ZERO };
        let begun = Instant::now();
        run.drive(snapshot.seq + TAIL)?;
        Ok(begun.elapsed())
    })?;
    Ok(whole / u32::try_from(TAIL)?)
}

fn resume(
    spec: &Arc<RunSpec>,
    snapshot: Option<&Snapshot>,
    events: &[Recorded],
) -> Result<Duration, Problem> {
    let begun = Instant::now();
    let mut recovery = Recovery::begin(RUN, Arc::clone(spec), snapshot);
    let after = usize::try_from(recovery.seq())?;
    events.iter().skip(after).try_for_each(|event| recovery.fold(event.clone()))?;
    recovery.finish()?;
    Ok(begun.elapsed())
}

fn best(rounds: usize, mut round: impl FnMut() -> Result<Duration, Problem>) -> Result<Duration, Problem> {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        best = best.min(round()?);
    }
    Ok(best)
}

const RUN: RunId = RunId::from_u128(1);

/// A run that calls one tool a turn, each time with something new to ask and to find.
struct Run {
    machine: RunMachine,
    events: Vec<Recorded>,
    next: Seq,
    now: Timestamp,
}

impl Run {
    fn start(spec: Arc<RunSpec>) -> Result<Self, Problem> {
        let mut run =
            Self { machine: RunMachine::new(RUN, spec), events: Vec::new(), next: 0, now: Timestamp::ZERO };
        let limits = RunLimits {
            turns: u32::MAX,
            tokens: Tokens(u64::MAX),
            cost: MicroUsd(u64::MAX),
            wall_clock: Duration::from_secs(1 << 32),
            tool_calls: u32::MAX,
            depth: 1,
            ..RunLimits::default()
        };
        run.answer(RunEvent::RunStarted {
            agent: "a".into(),
            goal: "Find out everything.".into(),
            limits,
            history: Default::default(),
            repairs: Vec::new(),
            attendance: Default::default(),
            tools: vec!["find".into()],
            lineage: None,
        })?;
        Ok(run)
    }

    /// Goes on to this event, and takes a snapshot.
    fn until(&mut self, seq: Seq) -> Result<Snapshot, Problem> {
        self.drive(seq)?;
        Ok(Snapshot { seq: self.next, fold_version: FOLD_VERSION, body: self.machine.snapshot().into() })
    }

    fn drive(&mut self, seq: Seq) -> Result<(), Problem> {
        // What the run wanted when it was left at an event.
        let mut owed = self.answer(RunEvent::Interrupted {})?;
        while self.next < seq {
            owed = self.answer(owed)?;
        }
        Ok(())
    }

    /// Gives the machine an event, and makes the one that answers what it wants then.
    fn answer(&mut self, event: RunEvent) -> Result<RunEvent, Problem> {
        self.events.push(Recorded { at: self.now, event: event.clone() });
        self.next += 1;
        let effects = self.machine.on(self.now, event);
        let n = self.next;
        let text = format!("The {n}th thing that was found, {} words long. ", n % 7).repeat(4);
        let event = effects.into_iter().find_map(|effect| match effect {
            RunEffect::CallModel { turn, model, .. } => {
                let arguments = format!(r#"{{"q":"thing {n}"}}"#).into();
                let call = RawCall { id: "c".into(), name: "find".into(), arguments, garbled: None };
                let reply =
                    ModelReply { calls: vec![call], finish: Finish::ToolCalls, ..ModelReply::text("Next.") };
                Some(RunEvent::ModelReplied { turn, model, reply, attempts: 1 })
            }
            RunEffect::Summarise { turn, model, .. } => {
                let reply = ModelReply::text("Much was found.");
                Some(RunEvent::SummaryReplied { turn, model, reply, attempts: 1 })
            }
            RunEffect::Dispatch { call, .. } => Some(ended(call, &text)),
            _ => None,
        });
        event.ok_or_else(|| format!("the run wants nothing: {:?}", self.machine.outcome()).into())
    }
}

fn ended(call: CallKey, text: &str) -> RunEvent {
    let verdict = CallVerdict::Succeeded(ToolOutput { text: text.into() });
    let waited = Duration::ZERO;
    let record = CallRecord { verdict, attempts: 1, waited, stopped_by: None, out_for: None, by: None };
    RunEvent::CallEnded { call, record }
}

fn spec(context_window: Option<Tokens>) -> Result<Arc<RunSpec>, Problem> {
    let agent = AgentSpec {
        name: "a".into(),
        instructions: "Be thorough.".into(),
        on_panic: PanicPolicy::Observe,
        answer: None,
        ask_user: false,
        notes: false,
        messages: false,
    };
    let model = ModelSpec {
        name: "m".into(),
        provider: "none".into(),
        price: Price::default(),
        output_tokens_max: None,
        context_window,
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    let parameters = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
    let tool = ToolSpec::new("find", "Finds things.", parameters);
    let (toolbox, _) = toolbox(&agent, vec![Arc::new(tool)]);
    Ok(Arc::new(RunSpec {
        agent,
        toolbox,
        answer: None,
        model: Arc::new(model),
        fallbacks: Vec::new(),
        links: Default::default(),
        redactor: Redactor::new([], &[])?,
    }))
}
