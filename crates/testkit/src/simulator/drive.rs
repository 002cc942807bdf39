//! Carries a plan out on a runtime of its own and writes down what is seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallVerdict, FailureCode, Json, RunLimits, ToolSpec};
use dauntless_runtime::{Agent, Canceller, Runtime};
use tokio::task::{AbortHandle, JoinSet};

use super::history::{Fact, Operation};
use super::model::GOAL;
use super::plan::{Ending, Plan, Step};
use super::stage::Stage;

/// What a run gets beyond its own limits until it counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the last run is started again: the breaker of the model may stay open for minutes.
const LAST_RUNS_MAX: u32 = 30;
const LAST_RUN_EVERY: Duration = Duration::from_secs(10);

/// A world to carry a plan out in.
pub(super) struct World {
    pub(super) stage: Stage,
    pub(super) runtime: Runtime,
    pub(super) agent: Agent,
    /// The tools of the agent.
    pub(super) specs: Vec<Arc<ToolSpec>>,
    /// What a tool is called with by hand.
    pub(super) arguments: Arc<BTreeMap<Arc<str>, Json>>,
    pub(super) limits: RunLimits,
    /// What an agent of the user's is told; the default one is told the number of its run.
    pub(super) goal: Option<Arc<str>>,
}

pub(super) struct Driver {
    world: Arc<World>,
    streams: BTreeMap<u32, Canceller>,
    futures: BTreeMap<u32, AbortHandle>,
    runs: JoinSet<()>,
    by_hand: JoinSet<()>,
}

impl Driver {
    pub(super) fn new(world: World) -> Self {
        Self {
            world: Arc::new(world),
            streams: BTreeMap::new(),
            futures: BTreeMap::new(),
            runs: JoinSet::new(),
            by_hand: JoinSet::new(),
        }
    }

    pub(super) async fn carry_out(mut self, plan: Plan) {
        let mut last = 0;
        for Step { after, operation } in plan.steps {
            tokio::time::sleep(after).await;
            if let Operation::Stream(run) | Operation::Run(run) = operation {
                last = run;
            }
            self.apply(operation).await;
        }
        match plan.ending {
            Ending::Calm => self.calm_down(last).await,
            Ending::Abrupt => self.by_hand.shutdown().await,
        }
        self.world.stage.did(Operation::Shutdown);
        self.world.runtime.shutdown(Duration::from_secs(10)).await;
        self.join().await;
        self.world.rest();
    }

    async fn apply(&mut self, operation: Operation) {
        self.world.stage.did(operation.clone());
        match operation {
            Operation::Stream(run) => self.stream(run).await,
            Operation::Run(run) => {
                let world = Arc::clone(&self.world);
                let task = self.runs.spawn(async move {
                    let outcome = world.runtime.run(&world.agent, world.goal(run)).await;
                    world.stage.run_ended(run, outcome);
                });
                self.futures.insert(run, task);
            }
            Operation::Cancel(run) => {
                if let Some(canceller) = self.streams.get(&run) {
                    canceller.cancel("the simulator");
                }
            }
            Operation::Drop(run) => {
                if let Some(task) = self.futures.get(&run) {
                    task.abort();
                }
            }
            Operation::ByHand { tool } => {
                let world = Arc::clone(&self.world);
                self.by_hand.spawn(async move {
                    // How it ended is in the history.
                    let _ = world.call(&tool).await;
                });
            }
            Operation::EndFaults | Operation::Shutdown => {}
        }
    }

    async fn stream(&mut self, run: u32) {
        let world = Arc::clone(&self.world);
        let Ok(mut stream) = world.runtime.stream(&world.agent, world.goal(run)).await else { return };
        world.stage.name_run(stream.id(), run);
        self.streams.insert(run, stream.canceller());
        self.runs.spawn(async move {
            while let Some(progress) = stream.next().await {
                world.stage.saw(run, progress);
            }
        });
    }

    /// The faults end: every tool must serve again in time, every run end, a last run go through.
    async fn calm_down(&mut self, last: u32) {
        self.world.stage.did(Operation::EndFaults);
        let mut probes = JoinSet::new();
        for spec in &self.world.specs {
            if self.world.arguments.contains_key(&spec.name) {
                let (world, spec) = (Arc::clone(&self.world), Arc::clone(spec));
                probes.spawn(async move { world.probe(&spec).await });
            }
        }
        while probes.join_next().await.is_some() {}
        self.join().await;
        for run in (last + 1..).take(usize::try_from(LAST_RUNS_MAX).unwrap_or(1)) {
            self.apply(Operation::Stream(run)).await;
            self.join().await;
            if self.world.stage.has_completed(run) {
                break;
            }
            tokio::time::sleep(LAST_RUN_EVERY).await;
        }
        self.world.rest();
    }

    /// Waits for whatever was started, but not for what is lost.
    async fn join(&mut self) {
        let (runs, by_hand) = (&mut self.runs, &mut self.by_hand);
        let all = async {
            while runs.join_next().await.is_some() {}
            while by_hand.join_next().await.is_some() {}
        };
        // What is missing then is missing in the history, too, and found there.
        let _ = tokio::time::timeout(self.world.limits.wall_clock + PATIENCE, all).await;
    }
}

impl World {
    fn goal(&self, run: u32) -> Arc<str> {
        self.goal.clone().unwrap_or_else(|| format!("{GOAL}{run}.").into())
    }

    fn rest(&self) {
        self.stage.note(Fact::Rested { running: self.stage.running() });
    }

    /// Calls a tool by hand; answers what kept it from serving, if anything did.
    async fn call(&self, tool: &Arc<str>) -> Result<(), String> {
        let arguments = self.arguments.get(tool).map_or("{}", Json::as_str);
        let called = self.runtime.call_tool(&self.agent, tool, arguments, |_| {}).await;
        let (record, served) = match called {
            Err(error) => (None, Err(error.to_string())),
            Ok(by_hand) => {
                let served = match &by_hand.record.verdict {
                    CallVerdict::Failed(failure) if refused(failure.code) => Err(failure.to_string()),
                    CallVerdict::Succeeded(_) | CallVerdict::Failed(_) => Ok(()),
                };
                (Some(Box::new(by_hand.record)), served)
            }
        };
        self.stage.note(Fact::HandEnded { tool: Arc::clone(tool), record });
        served
    }

    /// Calls a tool until it serves, for twice as long as its breaker may stay open.
    async fn probe(&self, spec: &ToolSpec) {
        let cap = spec.resilience.breaker.open_cap;
        let give_up = self.stage.now() + 2 * cap;
        while let Err(last) = self.call(&spec.name).await {
            if self.stage.now() >= give_up {
                return self.stage.note(Fact::Unserved { tool: Arc::clone(&spec.name), last });
            }
            tokio::time::sleep(cap / 16).await;
        }
    }
}

/// Whether a call was refused before its tool was asked.
const fn refused(code: FailureCode) -> bool {
    matches!(code, FailureCode::ToolDown | FailureCode::Overloaded | FailureCode::RateLimited)
}
