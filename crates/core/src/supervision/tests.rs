//! The machine against a world that starts and stops what it is told to, and writes everything down.
//!
//! `sup_NN_*` are rules of ours by number, `otp_*` are the cases of Erlang's `supervisor_SUITE` by
//! name. Not here, because they have no counterpart: `sup_start_ignore_*` (a start gives a child or an
//! error), `extra_return` and `simple_one_for_one_extra` (a start gives nothing else), `child_specs`,
//! `sup_flags` and `sup_start_map_faulty_specs` as far as a type rules the mistake out, `code_change_*`,
//! `get_callback_module`, `faulty_application_shutdown`, `simple_global_supervisor`, `format_log_*`
//! and hibernation. Those about time, links and kills are with the shell.

mod otp;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::Timestamp;

use super::*;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn failed(cause: &str) -> ExitReason {
    ExitReason::Failed { cause: cause.into() }
}

fn worker(id: &str) -> ChildRules {
    ChildRules::worker(id)
}

fn with(id: &str, restart: Restart) -> ChildRules {
    ChildRules { restart, ..worker(id) }
}

fn significant(id: &str, restart: Restart) -> ChildRules {
    ChildRules { significant: true, ..with(id, restart) }
}

fn rules(strategy: Strategy, intensity: u32, period_s: u64) -> SupervisorRules {
    let restarts = RestartPolicy { intensity, period: secs(period_s), ..RestartPolicy::default() };
    SupervisorRules { strategy, restarts, ..SupervisorRules::default() }
}

/// What a world does with an effect it could carry out at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Carries it out.
    Prompt,
    /// Leaves starts and stops to the test.
    Slow,
}

struct World {
    machine: SupervisorMachine,
    now: Timestamp,
    pace: Pace,
    names: BTreeMap<ChildKey, Arc<str>>,
    /// Children whose starts fail.
    broken: BTreeSet<&'static str>,
    /// Which start of a child runs, or is under way.
    alive: BTreeMap<ChildKey, u64>,
    timers: Vec<(Timestamp, ChildKey, u64)>,
    log: Vec<String>,
    ended: Option<End>,
    next: u64,
}

impl World {
    fn try_new(rules: SupervisorRules, children: &[ChildRules]) -> Result<Self, SpecError> {
        let keyed: Vec<_> = (1..).map(ChildKey).zip(children.iter().cloned()).collect();
        Ok(Self {
            names: keyed.iter().map(|(key, child)| (*key, Arc::clone(&child.id))).collect(),
            next: keyed.len() as u64 + 1,
            machine: SupervisorMachine::new(rules, keyed, 7)?,
            now: Timestamp::ZERO,
            pace: Pace::Prompt,
            broken: BTreeSet::new(),
            alive: BTreeMap::new(),
            timers: Vec::new(),
            log: Vec::new(),
            ended: None,
        })
    }

    /// A supervisor whose children run.
    fn new(rules: SupervisorRules, children: &[ChildRules]) -> Self {
        let mut world = Self::try_new(rules, children).unwrap();
        world.on(SupervisorEvent::Begun);
        world.log.clear();
        world
    }

    fn on(&mut self, event: SupervisorEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.on(self.now, event) {
                events.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: SupervisorEffect) -> Option<SupervisorEvent> {
        let prompt = self.pace == Pace::Prompt;
        match effect {
            SupervisorEffect::StartChild { child, incarnation } => {
                let id = Arc::clone(&self.names[&child]);
                self.log.push(format!("start {id}"));
                assert_eq!(self.alive.insert(child, incarnation), None, "{id} runs twice");
                if self.broken.contains(&*id) {
                    self.alive.remove(&child);
                    let reason = failed("no start");
                    return Some(SupervisorEvent::Exited { child, incarnation, reason });
                }
                return prompt.then_some(SupervisorEvent::Started { child, incarnation });
            }
            SupervisorEffect::StopChild { child, incarnation, shutdown } => {
                let how = match shutdown {
                    Shutdown::Brutal => "kill",
                    Shutdown::Within(_) => "stop",
                    Shutdown::Infinite => "await",
                };
                self.log.push(format!("{how} {}", self.names[&child]));
                if prompt {
                    self.alive.remove(&child);
                    return Some(SupervisorEvent::Exited { child, incarnation, reason: ExitReason::Normal });
                }
            }
            SupervisorEffect::ForgetChild { child } => {
                assert!(!self.alive.contains_key(&child), "forgotten while it runs");
                self.names.remove(&child);
            }
            SupervisorEffect::StartTimer { child, timer, at } => {
                self.log.push(format!("wait {}", self.names[&child]));
                self.timers.push((at, child, timer));
            }
            SupervisorEffect::Reply { ticket: _, reply } => self.log.push(match reply {
                Ok(_) => "ok".into(),
                Err(error) => error.to_string(),
            }),
            SupervisorEffect::Ready => self.log.push("ready".into()),
            SupervisorEffect::End(end) => {
                assert!(self.alive.is_empty(), "ended before its children");
                self.log.push("end".into());
                self.ended = Some(end);
            }
        }
        None
    }

    fn key(&self, id: &str) -> ChildKey {
        self.machine.key(id).unwrap_or_else(|| panic!("no child {id}"))
    }

    fn exit(&mut self, id: &str, reason: ExitReason) {
        let child = self.key(id);
        let incarnation = self.alive.remove(&child).unwrap_or_else(|| panic!("{id} does not run"));
        self.on(SupervisorEvent::Exited { child, incarnation, reason });
    }

    fn crash(&mut self, id: &str) {
        self.exit(id, failed("crashed"));
    }

    fn up(&mut self, id: &str) {
        let child = self.key(id);
        let incarnation = self.alive[&child];
        self.on(SupervisorEvent::Started { child, incarnation });
    }

    /// Lets time pass, and fires what is due on the way.
    fn pass(&mut self, length: Duration) {
        let until = self.now + length;
        while let Some(next) = self.timers.iter().copied().filter(|(at, ..)| *at <= until).min() {
            self.timers.retain(|timer| *timer != next);
            let (at, child, timer) = next;
            self.now = at;
            self.on(SupervisorEvent::TimerFired { child, timer });
        }
        self.now = until;
    }

    fn request(&mut self, request: Request) {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.on(SupervisorEvent::Requested { ticket, request });
    }

    fn start(&mut self, rules: ChildRules) {
        let child = ChildKey(self.next);
        self.names.insert(child, Arc::clone(&rules.id));
        self.request(Request::Start { child, rules });
    }

    fn terminate(&mut self, id: &str) {
        self.request(Request::Terminate { id: id.into() });
    }

    fn restart(&mut self, id: &str) {
        self.request(Request::Restart { id: id.into() });
    }

    fn delete(&mut self, id: &str) {
        self.request(Request::Delete { id: id.into() });
    }

    /// What was done since the last look.
    fn seen(&mut self) -> String {
        std::mem::take(&mut self.log).join(", ")
    }

    fn states(&self) -> String {
        let one = |child: ChildInfo| {
            let state = match child.state {
                ChildState::Down => "down",
                ChildState::Restarting { .. } => "restarting",
                ChildState::Starting => "starting",
                ChildState::Running => "running",
                ChildState::Stopping => "stopping",
            };
            format!("{} {state}", child.id)
        };
        self.machine.children().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Known, active, supervisors, workers: as OTP counts them.
    fn counts(&self) -> [usize; 4] {
        let Counts { specs, active, supervisors, workers } = self.machine.count();
        [specs, active, supervisors, workers]
    }
}
