//! What the end of a process means. The one place where it becomes a value or a failure code.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;

use dauntless_contract::{EffectState, Failure, FailureCode, Json, ToolOutput};
use rustix::io::Errno;

use super::config::OutputFormat;
use super::process::Ended;
use crate::config::{Reader, failure_code};
use crate::excerpt::{Excerpt, last_lines, quoted};

/// Longest part of the error output that the model gets, in bytes.
const WORDS_BYTES_MAX: usize = 500;

/// How the ends of one tool's processes are read.
pub(super) struct EndReader {
    pub(super) exit_codes: BTreeMap<i32, FailureCode>,
    pub(super) output: OutputFormat,
    pub(super) output_bytes_max: usize,
    /// Whether the command can change anything.
    pub(super) changes_nothing: bool,
}

/// Reads the operator's own reading of some exit codes.
pub(super) fn read_exit_codes(
    table: &BTreeMap<String, String>,
    reader: &mut Reader<'_>,
) -> BTreeMap<i32, FailureCode> {
    let mut codes = BTreeMap::new();
    for (key, code) in table {
        let field = format!("exit_codes.{key}");
        let code = reader.take(&field, failure_code(code));
        match key.parse::<u8>() {
            Ok(exit @ 1..) => codes.extend(code.map(|code| (i32::from(exit), code))),
            Ok(0) => reader.mistake(field, "exit code 0 is success"),
            Err(_) => reader.mistake(field, format!("`{key}` is no exit code: write one from 1 to 255")),
        }
    }
    codes
}

impl EndReader {
    pub(super) fn read(&self, ended: Ended) -> Result<ToolOutput, Failure> {
        let Ended { status, stdout, stderr } = ended;
        if status.success() {
            return self.success(stdout);
        }
        let (stdout, stderr) = (stdout.into_text(), stderr.into_text());
        let failure = match status.code() {
            Some(exit) => {
                let code = self.exit_codes.get(&exit).copied().unwrap_or(FailureCode::ToolError);
                Failure::new(code, self.sentence(&format!("ended with exit code {exit}"), &stdout, &stderr))
            }
            None => {
                let signal = status.signal().unwrap_or_default();
                Failure::crashed(self.sentence(&format!("was ended by signal {signal}"), &stdout, &stderr))
            }
        };
        let effect = self.effect(failure.effect);
        Err(failure.effect(effect).source(format!("{status}: {stderr}")))
    }

    fn success(&self, stdout: Excerpt) -> Result<ToolOutput, Failure> {
        let dropped = stdout.dropped();
        let text = stdout.into_text();
        match self.output {
            OutputFormat::Text => Ok(ToolOutput::text(text.trim_end_matches(['\n', '\r']))),
            OutputFormat::Json if dropped > 0 => Err(Failure::too_large(format!(
                "The command wrote more JSON than the {} bytes that are kept.",
                self.output_bytes_max
            ))
            .hint("Ask for less at once.")
            .effect(self.effect(EffectState::Happened))),
            OutputFormat::Json => match Json::parse(&text) {
                Ok(json) => Ok(ToolOutput::text(json.as_str())),
                Err(error) => {
                    Err(Failure::tool_error("The command ended well, but what it wrote is not JSON.")
                        .source(format!("{error}: {}", last_lines(&text, WORDS_BYTES_MAX)))
                        .effect(self.effect(EffectState::Happened)))
                }
            },
        }
    }

    /// Says how it ended, with the last lines it wrote: on stderr, or else on stdout.
    fn sentence(&self, how: &str, stdout: &str, stderr: &str) -> String {
        let words = if stderr.trim().is_empty() { stdout } else { stderr };
        match last_lines(words, WORDS_BYTES_MAX) {
            "" => format!("The command {how} and wrote nothing about it."),
            words => format!("The command {how}. It wrote: {}", quoted(words)),
        }
    }

    /// What happened by then, when a command is stopped or its end is not known.
    pub(super) fn effect(&self, effect: EffectState) -> EffectState {
        if self.changes_nothing { EffectState::None } else { effect }
    }
}

/// A process that did not start: nothing happened.
pub(super) fn not_started(error: &io::Error) -> Failure {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let failure = match errno {
        Some(Errno::NOENT | Errno::NOTDIR) => {
            Failure::gone("The command's program, its interpreter or its folder no longer exists.")
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            Failure::permission_denied("The command's program may not be started.")
        }
        Some(Errno::TOOBIG) => Failure::too_large("The arguments are longer than a command may get."),
        Some(Errno::TXTBSY) => {
            Failure::unavailable("The command's program is being replaced in this moment.")
        }
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
            Failure::overloaded("The machine has no room for another process.")
        }
        _ => Failure::tool_error("The command could not be started."),
    };
    failure.effect(EffectState::None).source(error)
}
