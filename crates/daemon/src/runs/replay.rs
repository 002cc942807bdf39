//! Folds a journal with the code and the configuration of today, and says where they part.

use dauntless_contract::{Recorded, RunMeta, RunState, Seq};
use dauntless_core::run::RecoverError;
use dauntless_core::story::{Line, Story};

use super::machine::Machine;
use super::{Exported, Runs, RunsError, agent_of};
use crate::config::Config;
use crate::wiring::{self, Environment, Spec};

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Every recorded answer answers what is asked today.
    Same {
        /// How many events there are.
        events: Seq,
    },
    /// The first event that does not.
    Differs(Difference),
}

/// Where today's run parts from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The event; none for the end, which is no event.
    pub seq: Option<Seq>,
    /// What was recorded.
    pub recorded: String,
    /// What would happen today.
    pub today: String,
}

impl Runs<'_> {
    /// Replays a run of the journal.
    ///
    /// # Errors
    /// When it cannot be read, or its agent is no longer configured.
    pub async fn replay(&self, meta: &RunMeta) -> Result<Replayed, RunsError> {
        let events = self.events(meta.run, meta.head).await?;
        let ended = meta.reason.clone().filter(|_| meta.state == RunState::Ended);
        let run = Exported { run: meta.run, agent: agent_of(meta, &events), ended, events };
        Ok(compare(&run, &self.spec(&run.agent)?))
    }
}

/// Replays a run that was exported.
///
/// # Errors
/// When its agent is not configured.
pub fn replay(run: &Exported, config: &Config, environment: Environment<'_>) -> Result<Replayed, RunsError> {
    let redactor = wiring::redactor(config, environment)?;
    let spec = wiring::spec(config, &run.agent, environment, redactor)?;
    Ok(compare(run, &spec))
}

fn compare(run: &Exported, spec: &Spec) -> Replayed {
    let told = |events: &[Recorded]| {
        let mut story = Story::new(spec.redactor().clone());
        events.iter().for_each(|event| story.see(event));
        story.timeline().last().map_or_else(|| "nothing".to_owned(), |Line { text, .. }| text.clone())
    };
    let fold = |events: &[Recorded]| Machine::recover(run.run, spec, events);
    let differs = |seq, recorded, today| Replayed::Differs(Difference { seq, recorded, today });
    let before =
        |seq: Seq| run.events.get(..usize::try_from(seq).unwrap_or(0).saturating_sub(1)).unwrap_or_default();
    let until = |seq: Seq| run.events.get(..usize::try_from(seq).unwrap_or(0)).unwrap_or_default();
    let events = run.events.len() as Seq;
    match fold(&run.events) {
        Ok(machine) => {
            let today = machine.outcome().map(|outcome| outcome.reason.to_string());
            match (&run.ended, today) {
                (Some(ended), None) => differs(None, format!("the run ended: {ended}"), expected(&machine)),
                (Some(ended), Some(today)) if **ended != *today => {
                    differs(None, format!("the run ended: {ended}"), format!("the run ends: {today}"))
                }
                _ => Replayed::Same { events },
            }
        }
        Err(RecoverError::NoStart(_)) => {
            differs(Some(1), told(until(1)), "a journal begins with the start of the run".to_owned())
        }
        Err(RecoverError::MissingTool { seq, tool, .. }) => {
            differs(Some(seq), told(until(seq)), format!("the agent has no tool `{tool}`"))
        }
        Err(RecoverError::Diverged { seq, .. }) => {
            let today =
                fold(before(seq)).map_or_else(|error| error.to_string(), |machine| expected(&machine));
            differs(Some(seq), told(until(seq)), today)
        }
    }
}

/// What the run does next.
fn expected(machine: &Machine) -> String {
    if let Some(outcome) = machine.outcome() {
        return format!("the run ends: {}", outcome.reason);
    }
    let waits: Vec<String> = machine.waits().iter().map(ToString::to_string).collect();
    format!("the run waits for {}", waits.join(" and for "))
}
