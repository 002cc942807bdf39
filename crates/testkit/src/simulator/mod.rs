//! Runs whole runtimes through seeded trouble, and holds what happened against the rules.
//!
//! A simulation has its own single-threaded executor under a paused clock, faults around every tool,
//! a model that misbehaves, and operations drawn beforehand: runs that are started, cancelled and
//! dropped, calls by hand, a shutdown. Chance comes from the seed alone, so a seed that finds a
//! defect finds it again. It looks from outside, as a user could, and trusts nothing that the
//! runtime says about itself. It does not simulate a network or a second process.

mod chance;
mod checker;
mod drive;
mod faults;
mod history;
mod model;
mod plan;
mod stage;
pub mod trees;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use dauntless_contract::{Json, RunLimits, Tool};
use dauntless_runtime::{Agent, BuildError, Runtime};
use serde_json::{Value, json};

use chance::Chance;
use drive::{Driver, World};
use faults::Faulted;
use model::SeededModel;
use plan::Plan;
use stage::Stage;

pub use checker::{Checker, Violation};
pub use faults::FaultRates;
pub use history::{Attempt, AttemptEnd, Entry, Fact, History, Operation, Who};

#[cfg(test)]
mod tests;

/// Entries of a history that a report shows.
const SHOWN_MAX: usize = 200;

/// Tempers of tools: how much more or less often than the rates say their faults strike, in percent.
const TEMPERS: [u32; 6] = [0, 50, 100, 100, 200, 300];

/// Tools whose code is simply broken, in percent.
const BROKEN: u32 = 8;

type MakeAgent = Arc<dyn Fn() -> Agent + Send + Sync>;

/// A way to make worlds from seeds and run them. Cheap to clone.
///
/// # Examples
/// ```
/// use dauntless_testkit::simulator::Simulation;
///
/// let history = Simulation::builder().runs(3).build().run(7).unwrap_or_else(|found| panic!("{found}"));
/// assert_eq!(history, Simulation::builder().runs(3).build().run(7).unwrap());
/// ```
#[derive(Clone)]
pub struct Simulation {
    runs_max: u32,
    rates: FaultRates,
    own: Option<Own>,
    arguments: BTreeMap<Arc<str>, Json>,
    limits: Option<RunLimits>,
}

/// The agent of a user, in place of the default world.
#[derive(Clone)]
struct Own {
    make: MakeAgent,
    goal: Arc<str>,
}

/// Says what to simulate; ends with [`build`](Self::build).
#[derive(Clone)]
#[must_use = "a simulation starts with `build`"]
pub struct SimulationBuilder {
    simulation: Simulation,
}

impl SimulationBuilder {
    /// The most runs of one simulation. Default 4.
    pub const fn runs(mut self, runs_max: u32) -> Self {
        self.simulation.runs_max = runs_max;
        self
    }

    /// How often which fault strikes. Each tool has its own temper, drawn from the seed: from none of
    /// these to three times as many; and if panics are among them, a few tools panic most of the time.
    pub const fn faults(mut self, rates: FaultRates) -> Self {
        self.simulation.rates = rates;
        self
    }

    /// Runs your agent on `goal` in place of the default one, with faults around each of its tools.
    ///
    /// `make` is called for every seed, so that nothing is left over from the last. An agent without
    /// a model gets one that asks for its tools with the [`arguments`](Self::arguments) given.
    pub fn agent(
        mut self,
        goal: impl Into<Arc<str>>,
        make: impl Fn() -> Agent + Send + Sync + 'static,
    ) -> Self {
        self.simulation.own = Some(Own { make: Arc::new(make), goal: goal.into() });
        self
    }

    /// Arguments that fit a tool of your agent. Only tools with arguments are called by hand, and
    /// only they must serve again once the faults have ended.
    pub fn arguments(mut self, tool: impl Into<Arc<str>>, arguments: impl Into<Value>) -> Self {
        self.simulation.arguments.insert(tool.into(), arguments.into().into());
        self
    }

    /// The limits of every run. By default drawn: 8 turns, 12 to 40 calls, 15 s to 2 min.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.simulation.limits = Some(limits);
        self
    }

    /// The simulation.
    pub fn build(self) -> Simulation {
        self.simulation
    }
}

/// A seed under which a rule was broken.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The seed; running it again gives this again.
    pub seed: u64,
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// What happened.
    pub history: History,
    replay: String,
}

/// What many seeds came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Simulations.
    pub seeds: u64,
    /// Runs in them that reached their outcome.
    pub runs: u64,
    /// Attempts that reached a tool.
    pub attempts: u64,
    /// Entries of the histories.
    pub events: u64,
}

impl Simulation {
    /// Starts to say what to simulate.
    pub fn builder() -> SimulationBuilder {
        SimulationBuilder {
            simulation: Self {
                runs_max: 4,
                rates: FaultRates::default(),
                own: None,
                arguments: BTreeMap::new(),
                limits: None,
            },
        }
    }

    /// Makes the world of one seed, runs it to its end and checks what happened.
    ///
    /// Needs no executor and must not be called on one.
    ///
    /// # Errors
    /// [`Counterexample`], when a rule was broken.
    ///
    /// # Panics
    /// When your agent cannot run at all, or inside an asynchronous context.
    pub fn run(&self, seed: u64) -> Result<History, Box<Counterexample>> {
        let (history, checker) = self.play(seed);
        let violations = checker.check(&history);
        if violations.is_empty() {
            return Ok(history);
        }
        let replay = match &self.own {
            None => format!("cargo xtask simulate --from {seed} --seeds 1 --verbose"),
            Some(_) => format!("this simulation with `.run({seed})`"),
        };
        Err(Box::new(Counterexample { seed, violations, history, replay }))
    }

    /// Runs many seeds, spread over `threads`, and stops at the first that breaks a rule.
    ///
    /// # Errors
    /// [`Counterexample`], of the smallest seed that was found before all threads stopped.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_all(&self, seeds: Range<u64>, threads: usize) -> Result<Totals, Box<Counterexample>> {
        let work = Mutex::new((seeds, Totals::default(), None::<Box<Counterexample>>));
        let lock = || work.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let next = {
                            let mut work = lock();
                            if work.2.is_some() { None } else { work.0.next() }
                        };
                        let Some(seed) = next else { return };
                        let result = self.run(seed);
                        let mut work = lock();
                        match result {
                            Ok(history) => work.1.add(&history),
                            Err(found) if work.2.as_ref().is_none_or(|known| found.seed < known.seed) => {
                                work.2 = Some(found);
                            }
                            Err(_) => {}
                        }
                    }
                });
            }
        });
        let (_, totals, found) = work.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        found.map_or(Ok(totals), Err)
    }

    #[expect(clippy::panic, reason = "an agent that cannot run must not look like one that passes")]
    fn play(&self, seed: u64) -> (History, Checker) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let executor = executor.unwrap_or_else(|error| panic!("no executor for the simulation: {error}"));
        executor.block_on(async {
            let stage = Stage::new();
            match self.world(seed, stage.clone()).await {
                Ok((world, checker)) => {
                    let by_hand: Vec<Arc<str>> = world.arguments.keys().cloned().collect();
                    Driver::new(world).carry_out(Plan::draw(seed, self.runs_max, &by_hand)).await;
                    (stage.take_history(), checker)
                }
                Err(error) => panic!("the agent cannot be simulated: {error}"),
            }
        })
    }

    async fn world(&self, seed: u64, stage: Stage) -> Result<(World, Checker), BuildError> {
        let mut chance = Chance::new(seed, 0);
        let limits = self.limits.clone().unwrap_or_else(|| RunLimits {
            turns: 8,
            tool_calls: chance.count(12, 40),
            wall_clock: chance.length_ms(15_000, 120_000),
            ..RunLimits::default()
        });
        let agent = self.own.as_ref().map_or_else(|| world::agent(seed), |own| (own.make)());
        let mut specs = Vec::new();
        let agent = agent.limits(limits.clone()).map_tools(|inner| {
            specs.push(Arc::clone(inner.spec()));
            let rates = self.rates.scaled(chance.pick(&TEMPERS));
            let rates = if chance.percent(BROKEN) { rates.panicking() } else { rates };
            let chance = Mutex::new(Chance::new(seed, 100 + specs.len() as u64));
            Arc::new(Faulted { inner, rates, stage: stage.clone(), chance }) as Arc<dyn Tool>
        });
        let mut arguments = self.arguments.clone();
        if self.own.is_none() {
            arguments.extend(specs.iter().map(|spec| (Arc::clone(&spec.name), json!({ "n": 7 }).into())));
        }
        let arguments = Arc::new(arguments);
        let known = Arc::new(self.arguments.clone());
        let runtime = Runtime::builder()
            .model(SeededModel::new(stage.clone(), seed, known))
            .clock(stage.clone())
            .seed(seed)
            .agent(&agent)
            .build()
            .await?;
        let checker = match &self.own {
            None => Checker::new(specs.clone(), limits.clone()).expecting_completion(),
            Some(_) => Checker::new(specs.clone(), limits.clone()),
        };
        let goal = self.own.as_ref().map(|own| Arc::clone(&own.goal));
        Ok((World { stage, runtime, agent, specs, arguments, limits, goal }, checker))
    }
}

impl Totals {
    fn add(&mut self, history: &History) {
        self.seeds += 1;
        self.events += history.entries.len() as u64;
        for entry in &history.entries {
            match entry.fact {
                Fact::RunEnded { .. } => self.runs += 1,
                Fact::AttemptBegan { .. } => self.attempts += 1,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violations, history, replay } = self;
        writeln!(f, "seed {seed} breaks a rule {} times", violations.len())?;
        violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))?;
        writeln!(f, "what was done:")?;
        let done = history.entries.iter().filter(|entry| matches!(entry.fact, Fact::Did(_)));
        done.into_iter().try_for_each(|entry| writeln!(f, "{entry}"))?;
        write!(f, "what happened:\n{}replay it: {replay}", history.tail(SHOWN_MAX))
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("runs_max", &self.runs_max)
            .field("rates", &self.rates)
            .field("own", &self.own.is_some())
            .finish_non_exhaustive()
    }
}
