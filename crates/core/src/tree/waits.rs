//! Which run waits for which: a wait that would close a circle is refused when it begins, not when its
//! time is over. The others go on.

use std::collections::BTreeMap;

use dauntless_contract::RunId;
use serde::{Deserialize, Serialize};

/// The waits of one tree. A run waits for one other at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits(BTreeMap<RunId, RunId>);

impl Waits {
    /// A run begins to wait for another one.
    ///
    /// # Errors
    /// The way from the run back to itself, if the other one waits for it already, over others or
    /// not. The wait is not begun.
    pub fn begin(&mut self, run: RunId, awaited: RunId) -> Result<(), Vec<RunId>> {
        let mut way = vec![run, awaited];
        let mut at = awaited;
        while at != run {
            // No circle is ever closed, so every way has an end.
            let Some(next) = self.0.get(&at) else {
                self.0.insert(run, awaited);
                return Ok(());
            };
            way.push(*next);
            at = *next;
        }
        Err(way)
    }

    /// A run waits no longer: it has its answer, gave up, or ended.
    pub fn end(&mut self, run: RunId) {
        self.0.remove(&run);
    }
}

#[cfg(test)]
mod tests;
