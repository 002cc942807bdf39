//! The exit codes: one table, from which the codes, the help and the tests are taken.
//!
//! A script must be able to tell every end from every other, so each stop reason has a code of its
//! own. Codes from 64 on are those of `sysexits.h` where it has one, and 128 and the signal's
//! number where a signal ended the run. 2 is what every parser of arguments uses.

use std::fmt::Write as _;

use dauntless_contract::StopReason;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// What the shell sees.
    pub(crate) code: u8,
    /// The name; for a stop reason its own.
    pub(crate) name: &'static str,
    /// What it means.
    meaning: &'static str,
}

impl Exit {
    pub(crate) const COMPLETED: Self = Self::new(0, "completed", "the model gave its answer");
    pub(crate) const USAGE: Self = Self::new(2, "usage", "the command line is wrong");
    pub(crate) const CALL_FAILED: Self =
        Self::new(30, "call_failed", "`tools call`: the call ended in a failure");
    pub(crate) const PROBE_FAILED: Self =
        Self::new(31, "probe_failed", "`check --probe`: a model does not work as it is configured");
    pub(crate) const DIFFERS: Self = Self::new(32, "differs", "`replay`: the run would go otherwise today");
    pub(crate) const NOT_NOW: Self =
        Self::new(33, "not_now", "the run is not in a state for what was asked of it");
    pub(crate) const SCRIPT: Self = Self::new(65, "script", "the script of a model cannot be followed");
    pub(crate) const UNREADABLE: Self =
        Self::new(66, "unreadable", "a file or standard input cannot be read");
    pub(crate) const NO_RUN: Self = Self::new(67, "no_run", "no run of the journal is meant, or several are");
    pub(crate) const NOT_RUNNING: Self =
        Self::new(68, "not_running", "`tools --status` and `switch`: no such process can be asked");
    pub(crate) const CANNOT_START: Self =
        Self::new(69, "cannot_start", "a tool or an agent cannot start on this machine");
    pub(crate) const INTERNAL: Self = Self::new(70, "internal", "Dauntless itself broke");
    pub(crate) const UNWRITABLE: Self = Self::new(74, "unwritable", "standard output cannot be written");
    pub(crate) const JOURNAL: Self = Self::new(75, "journal", "the journal of runs cannot be used");
    pub(crate) const NO_KEY: Self = Self::new(77, "no_key", "the key of a model is missing");
    pub(crate) const CONFIGURATION: Self =
        Self::new(78, "configuration", "there are mistakes in the configuration");
    pub(crate) const HANGUP: Self = Self::new(129, "hangup", "cancelled: the terminal went away");
    pub(crate) const INTERRUPTED: Self = Self::new(130, "interrupted", "cancelled by Ctrl-C");
    pub(crate) const TERMINATED: Self = Self::new(143, "terminated", "cancelled by SIGTERM");

    const ALL: [Self; 31] = [
        Self::COMPLETED,
        Self::USAGE,
        Self::new(10, "tool_terminal", "a tool failed in a way that nobody in the run can fix"),
        Self::new(11, "tool_exhausted", "a tool stayed broken through all retries"),
        Self::new(12, "model_failed", "the model could not be reached or would not answer"),
        Self::new(13, "model_refusal", "the model refused"),
        Self::new(14, "content_filtered", "the provider's filter held the answer back"),
        Self::new(15, "truncated", "the output limit cut the model again and again"),
        Self::new(16, "empty_response", "the model kept saying nothing"),
        Self::new(17, "malformed_output", "the model kept writing what is no call and no answer"),
        Self::new(18, "stuck", "the model kept doing the same thing"),
        Self::new(19, "limit_reached", "a limit of the run was reached"),
        Self::new(20, "cancelled", "the run was cancelled"),
        Self::new(21, "child_failed", "a run that this one delegated to failed"),
        Self::CALL_FAILED,
        Self::PROBE_FAILED,
        Self::DIFFERS,
        Self::NOT_NOW,
        Self::SCRIPT,
        Self::UNREADABLE,
        Self::NO_RUN,
        Self::NOT_RUNNING,
        Self::CANNOT_START,
        Self::INTERNAL,
        Self::UNWRITABLE,
        Self::JOURNAL,
        Self::NO_KEY,
        Self::CONFIGURATION,
        Self::HANGUP,
        Self::INTERRUPTED,
        Self::TERMINATED,
    ];

    const fn new(code: u8, name: &'static str, meaning: &'static str) -> Self {
        Self { code, name, meaning }
    }

    /// The one for a stop reason; a reason without a row counts as broken.
    pub(crate) fn of(reason: &StopReason) -> Self {
        Self::ALL.into_iter().find(|exit| exit.name == reason.name()).unwrap_or(Self::INTERNAL)
    }
}

/// Ends the command early: nothing more to do, and what to say.
#[derive(Debug)]
pub(crate) struct Stop {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// What standard error is told.
    pub(crate) message: String,
}

impl Stop {
    /// One sentence, which gets the name of the command before it.
    pub(crate) fn new(exit: Exit, sentence: impl std::fmt::Display) -> Self {
        Self::verbatim(exit, format!("dauntless: {sentence}"))
    }

    /// A text that stands for itself.
    pub(crate) fn verbatim(exit: Exit, text: impl std::fmt::Display) -> Self {
        Self { exit, message: text.to_string() }
    }
}

/// The table for the help.
pub(crate) fn help() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for Exit { code, name, meaning } in Exit::ALL {
        let _ = writeln!(text, "  {code:>3}  {name:<17} {meaning}");
    }
    text
}

#[cfg(test)]
mod tests;
