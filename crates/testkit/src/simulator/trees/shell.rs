//! The processes of a tree: each drives one run, keeps its journal, and may end at any moment.
//!
//! A run is its machine and what the machine wants done. Between runs go signals, which wait for
//! nobody: the start of a child, the wish that it stops, its end. What a process had begun is lost
//! with it; a wish to stop is not. All of it follows from the seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Attendance, CallKey, CallVerdict, EffectState, Failure, History, Lineage, Outcome, Recorded, RunEvent,
    RunId, RunLimits, RunTotals, Snapshot, StopReason, Timestamp, Tokens,
};
use dauntless_core::plan::PlanMachine;
use dauntless_core::run::{FOLD_VERSION, Offer, Recovery, RunEffect};
use dauntless_core::tree::Delegation;

use super::books::{Books, Origin};
use super::mind::{Asking, Thought, record, work};
use super::process::{Machine, Pending, Process, Up, Voice};
use super::rules;
use super::signals::{Due, Post, Signal, What};
use super::world::{Worker, World};
use crate::simulator::chance::Chance;

/// The root of every tree.
pub(super) const ROOT: RunId = RunId::from_u128(1 << 80);

/// More events than any tree has that ends.
const EVENTS_MAX: u64 = 200_000;

/// A tree while it grows and ends.
pub(super) struct Tree {
    world: World,
    post: Post,
    chance: Chance,
    now: Timestamp,
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
    processes: BTreeMap<RunId, Process>,
    /// Runs that were to stop before they were started.
    never: BTreeSet<RunId>,
    pub(super) books: Books,
    pub(super) events: u64,
}

impl Tree {
    pub(super) fn new(seed: u64, world: World, post: Post, books: Books) -> Self {
        Self {
            world,
            post,
            chance: Chance::new(seed, 1),
            now: Timestamp::ZERO,
            due: BinaryHeap::new(),
            number: 0,
            processes: BTreeMap::new(),
            never: BTreeSet::new(),
            books,
            events: 0,
        }
    }

    /// Lets the tree live until nothing is due any more.
    pub(super) fn live(&mut self) {
        let (root, limits) = (Arc::clone(&self.world.root), self.world.limits.clone());
        self.start(ROOT, None, root, "The whole.".into(), None, limits, None);
        if let Some(after) = self.world.temper.cancelled_at {
            self.schedule(after, What::Cancel);
        }
        while let Some(Reverse(Due { at, what, .. })) = self.due.pop() {
            self.now = at;
            if self.events > EVENTS_MAX {
                return self.books.find(self.now, rules::ENDS, "it goes on and on".to_owned());
            }
            match what {
                What::Signal(signal) => self.arrive(signal),
                What::Answer { run, token, event } => self.answer(run, token, *event),
                What::Restart(run) => self.restart(run),
                What::Cancel => self.tell(ROOT, RunEvent::CancelRequested { by: "the simulator".into() }),
            }
        }
        let dead = |run: &RunId| self.processes.get(run).is_some_and(|process| process.up == Up::Dead);
        self.books.close(self.now, dead);
    }

    fn schedule(&mut self, after: Duration, what: What) {
        self.number += 1;
        self.due.push(Reverse(Due { at: self.now + after, number: self.number, what }));
    }

    fn send(&mut self, after: Duration, signal: Signal) {
        for signal in (self.post.wire)(signal) {
            self.schedule(after, What::Signal(signal));
        }
    }

    fn arrive(&mut self, signal: Signal) {
        match signal {
            Signal::Start { life, delegation } => self.start_child(life, *delegation),
            Signal::Stop { run, parent, call, by } => self.stop_child(run, parent, call, by),
            Signal::Ended { parent, call, attempt, outcome } => {
                // One that has ended or is down hears nothing; a process that starts again asks again.
                if self.drives(parent) {
                    self.take(parent, RunEvent::ChildEnded { call, attempt, outcome });
                }
            }
            Signal::Timer { run, life, timer } => {
                if self.drives(run) && self.processes.get(&run).is_some_and(|process| process.life == life) {
                    self.take(run, RunEvent::TimerFired { timer });
                }
            }
        }
    }

    fn drives(&self, run: RunId) -> bool {
        self.processes
            .get(&run)
            .is_some_and(|process| process.up == Up::Yes && process.machine.outcome().is_none())
    }

    #[expect(clippy::too_many_arguments, reason = "all that a run is started with")]
    fn start(
        &mut self,
        run: RunId,
        above: Option<(RunId, CallKey, u32)>,
        agent: Arc<str>,
        goal: Arc<str>,
        history: Option<Arc<History>>,
        limits: RunLimits,
        lineage: Option<Lineage>,
    ) {
        let Some(worker) = self.world.workers.get(&agent) else {
            return self.books.find(self.now, rules::GRANTS, format!("there is no agent {agent}"));
        };
        let (temper, chance) = (self.world.temper, &mut self.chance);
        let voice = match above {
            Some(_) if chance.percent(temper.silent) => Voice::Silent,
            Some(_) if chance.percent(temper.late) => Voice::Late(chance.length_ms(1000, 600_000)),
            Some(_) | None => Voice::Prompt,
        };
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let process = Process {
            number,
            agent: Arc::clone(&agent),
            goal: Arc::clone(&goal),
            above,
            host: chance.below(temper.workers.into()),
            machine: Machine::new(run, worker),
            journal: Vec::new(),
            up: Up::Yes,
            life: 0,
            letters: Vec::new(),
            pending: Pending::default(),
            used: None,
            voice,
        };
        self.processes.insert(run, process);
        self.books.started(
            self.now,
            run,
            Origin { number, agent: &agent, goal: &goal, above, limits: &limits },
        );
        let event = RunEvent::RunStarted {
            agent,
            goal,
            limits,
            history: history.map(Arc::unwrap_or_clone).unwrap_or_default(),
            repairs: Vec::new(),
            attendance: Attendance::Unattended,
            tools: Vec::new(),
            lineage,
        };
        self.take(run, event);
    }

    fn start_child(&mut self, life: u32, delegation: Delegation) {
        let Delegation { call, attempt, run, agent, goal, history, limits, lineage } = delegation;
        let parent = lineage.parent;
        if self.processes.get(&parent).is_none_or(|process| process.life != life) || self.never.contains(&run)
        {
            return;
        }
        let above = Some((parent, call, attempt));
        match self.processes.get(&run) {
            None => self.start(run, above, agent, goal, history, limits, Some(lineage)),
            Some(process) => {
                if process.above != above {
                    let what = format!("call {call} of {parent} has the id of another run, {run}");
                    self.books.find(self.now, rules::ONE_ID, what);
                }
                self.tell_end(run);
            }
        }
    }

    fn stop_child(&mut self, run: RunId, parent: RunId, call: CallKey, by: Arc<str>) {
        if self.processes.contains_key(&run) {
            self.tell(run, RunEvent::CancelRequested { by });
            return self.tell_end(run);
        }
        let Some(attempt) = self.books.attempt_of(parent, call) else { return };
        self.never.insert(run);
        let outcome = Box::new(Outcome {
            run,
            reason: StopReason::Cancelled { by },
            text: None,
            explanation: None,
            totals: RunTotals::default(),
            elapsed: Duration::ZERO,
        });
        self.books.never_started(run, &outcome);
        self.send(self.world.temper.hop, Signal::Ended { parent, call, attempt, outcome });
    }

    /// Something that a run is told even if its process is down.
    fn tell(&mut self, run: RunId, event: RunEvent) {
        if self.drives(run) {
            return self.take(run, event);
        }
        if let Some(process) = self.processes.get_mut(&run).filter(|process| process.up == Up::No) {
            process.letters.push(event);
        }
    }

    /// Tells the run above how a run has ended, if it has.
    fn tell_end(&mut self, run: RunId) {
        let Some(process) = self.processes.get(&run) else { return };
        let (Some(outcome), Some((parent, call, attempt))) = (process.machine.outcome(), process.above)
        else {
            return;
        };
        let after = match process.voice {
            _ if process.up != Up::Yes => return,
            Voice::Prompt => self.world.temper.hop,
            Voice::Late(more) => self.world.temper.hop + more,
            Voice::Silent => return,
        };
        let outcome = Box::new(outcome.clone());
        self.send(after, Signal::Ended { parent, call, attempt, outcome });
    }

    fn answer(&mut self, run: RunId, token: u64, event: RunEvent) {
        if !self.drives(run) {
            return;
        }
        let Some(process) = self.processes.get_mut(&run) else { return };
        match &event {
            RunEvent::CallEnded { call, .. } if process.pending.calls.get(call) == Some(&token) => {
                process.pending.calls.remove(call);
            }
            RunEvent::ModelReplied { reply, .. } if process.pending.model == Some(token) => {
                process.pending.model = None;
                if let Some(usage) = reply.usage {
                    let longest = process.used.map_or(Tokens::ZERO, |(_, longest)| longest);
                    process.used = Some((usage, longest.max(usage.completion)));
                }
            }
            RunEvent::ModelFailed { .. } if process.pending.model == Some(token) => {
                process.pending.model = None
            }
            _ => return,
        }
        self.take(run, event);
    }

    /// A run takes an event: it is in the journal before anything follows from it.
    fn take(&mut self, run: RunId, event: RunEvent) {
        self.events += 1;
        let crash = self.chance.below(1000) < u64::from(self.world.temper.crash_permille);
        let moment = if crash { self.chance.below(4) } else { u64::MAX };
        let first = matches!(event, RunEvent::RunStarted { .. });
        if moment == 0 && !first {
            if let (RunEvent::CancelRequested { .. }, Some(process)) = (&event, self.processes.get_mut(&run))
            {
                process.letters.push(event);
            }
            return self.crash(run);
        }
        let Some(process) = self.processes.get_mut(&run) else { return };
        process.journal.push(Recorded { at: self.now, event: event.clone() });
        let effects = process.machine.on(self.now, event.clone());
        self.books.took(self.now, run, &event, &effects, self.world.workers.get(&process.agent));
        if let Some(outcome) = process.machine.outcome() {
            let history = match &process.machine {
                Machine::Agent(machine) => Some(machine.history()),
                Machine::Plan(_) => None,
            };
            self.books.ended(self.now, run, outcome, history.map(|history| history.messages()));
        }
        let carried = match moment {
            0 | 1 => 0,
            2 => usize::try_from(self.chance.below(effects.len() as u64 + 1)).unwrap_or(0),
            _ => effects.len(),
        };
        for effect in effects.into_iter().take(carried) {
            self.carry_out(run, effect);
        }
        if crash {
            if moment == 3 && self.chance.percent(50) && self.drives(run) {
                self.suspend(run);
            }
            self.crash(run);
        }
    }

    /// A process lets go of its run in good order: what it had begun is named.
    fn suspend(&mut self, run: RunId) {
        let Some(process) = self.processes.get_mut(&run) else { return };
        let (calls, model) =
            (process.pending.calls.keys().copied().collect(), process.pending.model.is_some());
        let event = RunEvent::Suspended { calls, model };
        process.journal.push(Recorded { at: self.now, event: event.clone() });
        drop(process.machine.on(self.now, event));
    }

    fn carry_out(&mut self, run: RunId, effect: RunEffect) {
        let hop = self.world.temper.hop;
        let Some(process) = self.processes.get_mut(&run) else { return };
        let life = process.life;
        match effect {
            RunEffect::CallModel { turn, model, offer, .. } => self.ask(run, turn, model, &offer),
            RunEffect::CancelModel { .. } => process.pending.model = None,
            RunEffect::Dispatch { call, tool, .. } => {
                let (verdict, happened) = work(&tool, call, &mut self.chance);
                if happened {
                    self.books.happened(run);
                }
                let after = self.chance.length_ms(1, 3000);
                self.will_answer(run, call, verdict, after);
            }
            RunEffect::CancelCall { call, .. } if process.pending.calls.contains_key(&call) => {
                let failure = Failure::cancelled("Stopped.").effect(EffectState::Unknown);
                self.will_answer(run, call, CallVerdict::Failed(failure), Duration::from_millis(1));
            }
            RunEffect::Delegate(delegation) => {
                self.send(hop, Signal::Start { life, delegation: Box::new(delegation) });
            }
            RunEffect::CancelChild { call, run: child, by } => {
                self.send(hop, Signal::Stop { run: child, parent: run, call, by });
            }
            RunEffect::StartTimer { timer, at } => {
                self.send(at.since(self.now), Signal::Timer { run, life, timer });
            }
            RunEffect::End => self.tell_end(run),
            // No tool here is parked or verified, and no conversation grows too large.
            RunEffect::CancelCall { .. }
            | RunEffect::Summarise { .. }
            | RunEffect::Verify(_)
            | RunEffect::Park { .. }
            | RunEffect::Report(_) => {}
        }
    }

    fn ask(&mut self, run: RunId, turn: u32, model: u32, offer: &Offer) {
        let Some(process) = self.processes.get_mut(&run) else { return };
        let Some(Worker::Agent(spec)) = self.world.workers.get(&process.agent) else { return };
        let before = process.used;
        let asking = Asking { number: process.number, goal: &process.goal, spec, offer, before };
        let event = match asking.think(&self.world.temper, &mut self.chance) {
            Thought::Reply(reply) => RunEvent::ModelReplied { turn, model, reply, attempts: 1 },
            Thought::Failure(failure) => RunEvent::ModelFailed { turn, model, failure, attempts: 1 },
            Thought::Nothing => return,
        };
        self.number += 1;
        process.pending.model = Some(self.number);
        let (token, after) = (self.number, self.chance.length_ms(10, 4000));
        self.schedule(after, What::Answer { run, token, event: Box::new(event) });
    }

    fn will_answer(&mut self, run: RunId, call: CallKey, verdict: CallVerdict, after: Duration) {
        let Some(process) = self.processes.get_mut(&run) else { return };
        self.number += 1;
        process.pending.calls.insert(call, self.number);
        let (token, event) = (self.number, RunEvent::CallEnded { call, record: record(verdict) });
        self.schedule(after, What::Answer { run, token, event: Box::new(event) });
    }

    /// The process of a run ends, at times with all others of its host.
    fn crash(&mut self, run: RunId) {
        let host = self.processes.get(&run).map(|process| process.host);
        let all = self.chance.percent(30);
        let is_struck = |id: &RunId, process: &Process| *id == run || all && Some(process.host) == host;
        let up = self.processes.iter().filter(|(_, process)| process.up == Up::Yes);
        let struck: Vec<RunId> =
            up.filter(|(id, process)| is_struck(id, process)).map(|(id, _)| *id).collect();
        for run in struck {
            let dies = run != ROOT && self.chance.percent(self.world.temper.death);
            let after = self.chance.length_ms(10, 20_000);
            let Some(process) = self.processes.get_mut(&run) else { continue };
            process.life += 1;
            process.pending = Pending::default();
            process.up = if dies { Up::Dead } else { Up::No };
            self.books.crashed(self.now, run, if dies { Duration::ZERO } else { after });
            if !dies {
                self.schedule(after, What::Restart(run));
            }
        }
    }

    /// A process drives a run on from its journal.
    fn restart(&mut self, run: RunId) {
        let short = self.chance.percent(30);
        let Some(process) = self.processes.get_mut(&run) else { return };
        let mut journal = process.journal.clone();
        (self.post.memory)(&mut journal);
        let folded = match (&process.machine, self.world.workers.get(&process.agent)) {
            (Machine::Agent(machine), Some(Worker::Agent(spec))) => {
                let seq = u64::try_from(journal.len()).unwrap_or(u64::MAX);
                let snapshot =
                    || Snapshot { seq, fold_version: FOLD_VERSION, body: machine.snapshot().into() };
                let snapshot = short.then(snapshot);
                let mut recovery = Recovery::begin(run, Arc::clone(spec), snapshot.as_ref());
                let after = usize::try_from(recovery.seq()).unwrap_or(0);
                let folded = journal.iter().skip(after).try_for_each(|event| recovery.fold(event.clone()));
                folded.and_then(|()| recovery.finish()).map(|machine| Machine::Agent(Box::new(machine)))
            }
            (Machine::Plan(_), Some(Worker::Plan(spec))) => {
                PlanMachine::recover(run, Arc::clone(spec), journal.clone())
                    .map(|machine| Machine::Plan(Box::new(machine)))
            }
            (Machine::Agent(_) | Machine::Plan(_), _) => return,
        };
        match folded {
            Ok(machine) if machine == process.machine => {}
            Ok(_) => {
                let what = format!("run {} is folded to another state than it had", process.number);
                return self.books.find(self.now, rules::REPLAY, what);
            }
            Err(error) => return self.books.find(self.now, rules::REPLAY, error.to_string()),
        }
        process.up = Up::Yes;
        if process.machine.outcome().is_some() {
            return self.tell_end(run);
        }
        self.take(run, RunEvent::Interrupted {});
        let Some(process) = self.processes.get_mut(&run) else { return };
        for letter in std::mem::take(&mut process.letters) {
            self.tell(run, letter);
        }
    }

    /// The agents of the runs that were started, for a report.
    pub(super) fn runs(&self) -> u64 {
        self.processes.len() as u64
    }
}
