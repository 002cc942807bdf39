//! A run with a hundred children against as many runs that know nothing of each other.

use dauntless::RunLimits;

use crate::contender::Plan;
use crate::ours::{self, Team};
use crate::report::{Pair, compare};

/// What a tree may take of the processor, against as many runs alone.
const RATIO_MAX: f64 = 1.15;

/// The agent that does the work for another.
pub(crate) const WORKER: &str = "bench";
/// How the name of a model ends that asks agents.
pub(crate) const COORDINATES: &str = "-coordinates";

/// Compares the two.
pub(crate) fn run(rounds: usize) -> Result<(), String> {
    compare(
        rounds,
        &Pair { scenario: "tree", without: "ours", with: "tree", place: "", ratio_max: RATIO_MAX },
    )
}

/// An agent that asks another one for all parts of the plan at once.
pub(crate) async fn team(plan: Plan, url: &str) -> Result<Team, String> {
    let parts = plan.runs - 1;
    let children = u32::try_from(parts).map_err(|error| error.to_string())?;
    let limits = RunLimits { turns: 1000, ..RunLimits::default() };
    let worker = ours::worker(plan, url)?.description("Does one part.").limits(limits.clone());
    let coordinating = Plan { turns: 1, calls: parts, ..plan };
    let model = ours::model(format!("{}{COORDINATES}", coordinating.model()), url)?;
    // As many at once as the runs that it is compared with.
    let limits = RunLimits { children, children_at_once: children, ..limits };
    let coordinator = dauntless::Agent::new("coordinator")
        .instructions("Have the work done.")
        .model(model)
        .limits(limits)
        .delegate(&worker);
    Team::of(coordinator, None).await
}
