//! All runs at a glance, and above them those that no worker will take by itself.

use std::collections::VecDeque;
use std::time::Duration;

use dauntless_contract::{Alarm, ClaimFilter, RunCounts, RunMeta, RunState};
use dauntless_runtime::CODE_VERSION;

use super::{Headline, Look, Runs, RunsError};

/// Which runs are listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Only those that stand there.
    pub state: Option<RunState>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Those that other runs asked for as well.
    pub children: bool,
    /// At most so many, the newest.
    pub limit: usize,
}

/// The runs of a journal.
#[derive(Clone, Debug)]
pub struct Overview {
    /// How many there are.
    pub counts: RunCounts,
    /// What endangers the journal.
    pub alarms: Vec<Alarm>,
    /// Those that no worker of this program takes by itself, each with what it is, the oldest first.
    pub stuck: Vec<(RunMeta, String)>,
    /// How many more of those there are.
    pub stuck_more: usize,
    /// Those that were asked for, the newest first.
    pub rows: Vec<Row>,
    /// How many more of those there are.
    pub rows_more: usize,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it stands.
    pub meta: RunMeta,
    /// What its events say, and what the runs below it used.
    pub headline: Headline,
    /// What it waits for, in words.
    pub waits: String,
}

/// How long others may keep a transaction open before it is told.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most runs that are named as stuck.
const STUCK_MAX: usize = 20;

impl Runs<'_> {
    /// The runs, and above all those that wait for an operator.
    ///
    /// # Errors
    /// When the journal cannot be read. A single run that cannot is listed with the reason.
    pub async fn list(&self, listed: &Listed) -> Result<Overview, RunsError> {
        let (mut newest, mut matching) = (VecDeque::new(), 0_usize);
        let (mut stuck, mut stuck_all) = (Vec::new(), 0_usize);
        self.each(|meta| {
            if let Some(why) = why_stuck(&meta) {
                stuck_all += 1;
                if stuck.len() < STUCK_MAX {
                    stuck.push((meta.clone(), why));
                }
            }
            let is_meant = (listed.children || meta.parent.is_none())
                && listed.state.is_none_or(|state| state == meta.state)
                && listed.agent.as_ref().is_none_or(|agent| **agent == *meta.agent);
            if is_meant {
                matching += 1;
                newest.push_front(meta);
                newest.truncate(listed.limit);
            }
        })
        .await?;
        let filter = ClaimFilter { code_versions: Some(vec![CODE_VERSION.into()]), ..ClaimFilter::default() };
        let counts = self.journal.counts(filter).await?;
        let alarms = self.journal.alarms(PATIENCE).await?;
        let mut rows = Vec::new();
        for meta in newest {
            let mut look = self.look(meta).await?;
            // One that has ended has seen the end of all below it.
            if look.meta.state != RunState::Ended {
                self.tree(&mut look).await?;
            }
            let waits = look.waits().join("; ");
            let Look { meta, headline, .. } = look;
            rows.push(Row { meta, headline, waits });
        }
        let (stuck_more, rows_more) = (stuck_all - stuck.len(), matching - rows.len());
        Ok(Overview { counts, alarms, stuck, stuck_more, rows, rows_more })
    }
}

/// Why no worker of this program takes the run, if so.
fn why_stuck(meta: &RunMeta) -> Option<String> {
    let reason = || meta.reason.as_deref().unwrap_or("no reason was given").to_owned();
    match meta.state {
        RunState::Paused => Some(format!("is paused: {}", reason())),
        RunState::Quarantined => Some(format!("is in quarantine: {}", reason())),
        RunState::Ready if *meta.code_version != *CODE_VERSION => Some(match &*meta.code_version {
            "" => "was begun by another program, whose worker it needs".to_owned(),
            code => format!("needs a worker with code {code}; this program has {CODE_VERSION}"),
        }),
        RunState::Ready | RunState::Driven | RunState::Ended => None,
    }
}
