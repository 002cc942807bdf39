//! A run that asks a hundred agents at once, against the same work in as many runs that know nothing of
//! each other: what a child costs more than a run.

use std::sync::Arc;
use std::time::Instant;

use dauntless::prelude::*;

use crate::contender::Plan;
use crate::measure::{Figures, cpu};
use crate::ours;

/// Children of the tree.
const CHILDREN: usize = 100;
/// Processor time is told in steps of 10 ms, so the tree grows so often.
const TIMES: u32 = 50;

/// The agents of both ways.
pub(crate) struct Grove {
    runtime: Runtime,
    worker: Agent,
    /// Asks a hundred workers.
    boss: Agent,
    /// Makes a hundred calls in place of that.
    alone: Agent,
}

impl Grove {
    pub(crate) async fn new(plan: Plan, url: &str) -> Result<Self, String> {
        let fan = Plan { turns: 1, calls: CHILDREN, ..plan };
        let limits = RunLimits { tool_calls: 100_000, children_at_once: 1000, ..RunLimits::default() };
        let agent = |name: &str, model: &str| -> Result<Agent, String> {
            let model = ours::model(model, url)?;
            Ok(Agent::new(name).instructions("Do the work.").shared_model(model).limits(limits.clone()))
        };
        let tool: Arc<dyn Tool> = Arc::new(ours::work(plan));
        let worker = agent("worker", &plan.model())?.tools([Arc::clone(&tool)]);
        let alone = agent("alone", &fan.model())?.tools([tool]);
        let boss = agent("boss", &format!("{}-worker", fan.model()))?.delegate(&worker);
        let runtime = Runtime::builder().agent(&boss).agent(&alone).build().await;
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())?, worker, boss, alone })
    }

    /// Grows the tree, or runs its parts apart, some times.
    pub(crate) async fn measure(&self, contender: &str) -> Result<Figures, String> {
        self.once(contender).await?;
        let (cpu_before, start) = (cpu(), Instant::now());
        for _ in 0..TIMES {
            self.once(contender).await?;
        }
        Ok(Figures { wall: start.elapsed() / TIMES, cpu: (cpu() - cpu_before) / TIMES, bytes_per_run: 0.0 })
    }

    async fn once(&self, contender: &str) -> Result<(), String> {
        let apart = std::iter::repeat_n(&self.worker, CHILDREN).chain([&self.alone]);
        let agents: Vec<&Agent> = if contender == "tree" { vec![&self.boss] } else { apart.collect() };
        let tasks: Vec<_> = agents
            .into_iter()
            .map(|agent| {
                let (runtime, agent) = (self.runtime.clone(), agent.clone());
                tokio::spawn(async move { runtime.run(&agent, "Begin.").await })
            })
            .collect();
        let children = if contender == "tree" { CHILDREN } else { 0 };
        for task in tasks {
            let outcome = task.await.map_err(|error| error.to_string())?;
            let all = usize::try_from(outcome.totals.children) == Ok(children);
            if !outcome.is_completed() || !all || outcome.totals.failed_calls > 0 {
                return Err(format!("{} {:?} {:?}", outcome.reason, outcome.explanation, outcome.totals));
            }
        }
        Ok(())
    }
}
