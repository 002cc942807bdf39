//! The rules of trees.

pub(super) const ENDS: &str = "every run of a tree ends in its time";
pub(super) const OBSERVED: &str = "every call has one observation, in the order of the calls";
pub(super) const HONEST: &str = "a failure below is no success above";
pub(super) const TOTALS: &str = "what a run counts is what it and those below did";
pub(super) const GRANTS: &str = "what is given comes out of what is left";
pub(super) const LIMITS: &str = "the limits of a run hold for all below it";
pub(super) const DEPTH: &str = "a tree is no deeper than its limits";
pub(super) const WIDTH: &str = "no more children run at once than may";
pub(super) const STOPS: &str = "an end above reaches every run below";
pub(super) const CIRCLE: &str = "no goal goes round in a circle";
pub(super) const NAMES: &str = "an escalation names the run that failed";
pub(super) const ONE_ID: &str = "one id is one run";
pub(super) const REPLAY: &str = "a journal gives its run back";
pub(super) const ONCE: &str = "nothing is repeated that may have happened";
