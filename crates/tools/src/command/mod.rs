//! A tool that is one process.
//!
//! A call ends when the process that was started ends; what that process leaves behind can neither
//! hold up the call (by keeping a pipe open) nor outlive it. Arguments reach the program as whole
//! elements or on its standard input, and never pass through a shell.

mod config;
mod ending;
mod process;
mod program;
mod reaper;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, Effect, EffectState, Failure, Json, Tool, ToolCtx, ToolOutput, ToolSpec,
};
use tokio::process::Command;

pub use self::config::{CommandConfig, OutputFormat, StdinFormat};
use self::ending::{EndReader, not_started, read_exit_codes};
use self::process::Exchange;
pub use self::reaper::ProcessReaper;
use crate::arguments::Arguments;
use crate::config::{Reader, ToolConfigError};
use crate::environment::Environment;
use crate::excerpt::Excerpt;
use crate::template::Template;

/// Longest end of the error output that is kept, in bytes.
const STDERR_BYTES_MAX: usize = 2 * 1024;
/// What a program gets of our own environment, where it is set.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
const IDEMPOTENCY_KEY: &str = "DAUNTLESS_IDEMPOTENCY_KEY";

/// A tool that is one process, made from a [`CommandConfig`].
///
/// # Limits
/// Of the output at most `output_bytes_max` bytes are kept, of the error output the last 2 KiB. A
/// call ends with its process; what others still write into the pipes is read for 200 ms more.
///
/// # Cancel safety
/// Dropping the future of a call, or its cancel signal, sends SIGTERM to the process and to all it
/// started, and SIGKILL after `stop_grace`; the [`ProcessReaper`] knows when they are gone.
pub struct CommandTool {
    spec: Arc<ToolSpec>,
    process: ProcessTemplate,
    end: EndReader,
    stop_grace: Duration,
    reaper: Arc<ProcessReaper>,
    secrets: Vec<String>,
}

/// What every process is made from.
struct ProcessTemplate {
    program: PathBuf,
    /// The program's name as it was written, and its arguments.
    argv: Vec<Template>,
    allow_dash: bool,
    stdin: StdinFormat,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
}

impl fmt::Debug for CommandTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandTool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl CommandTool {
    /// Builds the tool; `env` looks up environment variables.
    ///
    /// # Errors
    /// Every mistake in the configuration, each with its place under `command`.
    pub fn build(
        spec: Arc<ToolSpec>,
        config: CommandConfig,
        env: &dyn Fn(&str) -> Option<String>,
        reaper: Arc<ProcessReaper>,
    ) -> Result<Self, Vec<ToolConfigError>> {
        let mut reader = Reader::new("command", &spec.parameters, Environment::new(env));
        let process = ProcessTemplate::read(&config, &mut reader);
        let exit_codes = read_exit_codes(&config.exit_codes, &mut reader);
        if config.output_bytes_max == 0 {
            reader.mistake("output_bytes_max", "0 keeps nothing of the output: use 1 or more");
        }
        let (process, secrets) = reader.finish(process)?;
        let end = EndReader {
            exit_codes,
            output: config.output,
            output_bytes_max: config.output_bytes_max,
            changes_nothing: spec.effect == Effect::ReadOnly,
        };
        Ok(Self { spec, process, end, stop_grace: config.stop_grace, reaper, secrets })
    }

    /// What came from the environment and must never be shown to anyone.
    pub fn secrets(&self) -> Vec<String> {
        self.secrets.clone()
    }

    async fn run(&self, ctx: &ToolCtx, arguments: &Json) -> Result<ToolOutput, Failure> {
        let mut command = self.process.render(&Arguments::read(arguments)?, &ctx.idempotency_key)?;
        if ctx.cancel.is_cancelled() {
            return Err(Failure::cancelled("The call was cancelled before the command started."));
        }
        let exchange = Exchange {
            // In valid JSON a line end is always white space between two tokens.
            input: arguments.as_str().replace(['\n', '\r'], " ") + "\n",
            stdout: Excerpt::both_ends(self.end.output_bytes_max),
            stderr: Excerpt::end(STDERR_BYTES_MAX),
        };
        let process = process::start(&mut command, exchange, &self.reaper, self.stop_grace);
        let process = process.map_err(|error| not_started(&error))?;
        let in_doubt = self.end.effect(EffectState::Unknown);
        let unknown_end = |cause: &dyn fmt::Display| {
            Failure::crashed("It is not known how the command ended.").effect(in_doubt).source(cause)
        };
        tokio::select! {
            ended = process => {
                let ended = ended.map_err(|error| unknown_end(&error))?.map_err(|error| unknown_end(&error))?;
                self.end.read(ended)
            }
            () = ctx.cancel.cancelled() => {
                Err(Failure::cancelled("The command was stopped before it ended.").effect(in_doubt))
            }
        }
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move { self.run(&ctx, &arguments).await })
    }
}

impl ProcessTemplate {
    fn read(config: &CommandConfig, reader: &mut Reader<'_>) -> Option<Self> {
        let argv: Vec<_> = (0..)
            .zip(&config.argv)
            .map(|(index, text): (usize, _)| reader.template(format_args!("argv.{index}"), text))
            .collect();
        let argv: Option<Vec<Template>> = argv.into_iter().collect();
        if let Some(index) = argv.as_deref().and_then(program::script_with_values) {
            reader.mistake(
                format_args!("argv.{index}"),
                "the shell would run the values in this script as code: pass them as arguments, like \
                 [\"sh\", \"-c\", \"grep \\\"$1\\\" log\", \"sh\", \"{word}\"]",
            );
        }
        if argv.as_ref().is_some_and(|argv| !argv.is_empty()) && config.stdin == StdinFormat::None {
            let way_out = "put it in an element, set `stdin = \"json\"`, or take it out of the schema";
            reader.refuse_unused("argv", way_out);
        }
        let cwd = config.cwd.as_ref().map(|cwd| match std::path::absolute(cwd) {
            Ok(folder) if folder.is_dir() => Ok(folder),
            _ => Err(format!("there is no folder `{}`", cwd.display())),
        });
        let cwd = reader.take("cwd", cwd.transpose());
        let env = read_env(&config.env, reader);
        let folder = cwd.as_ref().and_then(Option::as_deref);
        let program = find_program(&config.argv, folder, env.get("PATH").map(String::as_str));
        let program = reader.take("argv.0", program);
        let (allow_dash, stdin) = (config.allow_dash, config.stdin);
        Some(Self { program: program?, argv: argv?, allow_dash, stdin, cwd: cwd?, env })
    }

    /// The process of one call, not yet started.
    fn render(&self, arguments: &Arguments, idempotency_key: &str) -> Result<Command, Failure> {
        let mut command = Command::new(&self.program);
        let mut options_end = self.allow_dash;
        for (index, template) in self.argv.iter().enumerate() {
            let Some(element) = template.render(arguments, str::to_owned)? else { continue };
            if let Some(name) = template.holes().map(|(name, _)| name).next() {
                refuse_unsafe(name, &element, !options_end && template.begins_with_hole())?;
            }
            options_end |= element == "--" && template.is_literal();
            match index {
                0 => command.arg0(element),
                _ => command.arg(element),
            };
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.env_clear().envs(&self.env).env(IDEMPOTENCY_KEY, idempotency_key);
        command.stdin(match self.stdin {
            StdinFormat::None => Stdio::null(),
            StdinFormat::Json => Stdio::piped(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

fn find_program(argv: &[String], cwd: Option<&Path>, path: Option<&str>) -> Result<PathBuf, String> {
    let name = argv.first().ok_or("name the program and its arguments, like [\"date\", \"-u\"]")?;
    let name =
        Template::parse(name)?.fixed().ok_or("the program must be fixed: no argument may choose it")?;
    program::find(&name, cwd, path)
}

/// Refuses a value that the system cannot pass on, or that the program would take for an option.
fn refuse_unsafe(name: &str, element: &str, dash_matters: bool) -> Result<(), Failure> {
    let problem = |message: String, expected: &str| {
        Err(Failure::invalid_arguments(message).detail(format!("$.{name}"), expected, ""))
    };
    if element.contains('\0') {
        return problem(
            format!("`{name}` holds a NUL character, which no command takes."),
            "text without NUL",
        );
    }
    if dash_matters && element.starts_with('-') {
        return problem(
            format!("`{name}` begins with `-`, and the command would take it for an option."),
            "a value that does not begin with `-`",
        );
    }
    Ok(())
}

fn read_env(table: &BTreeMap<String, String>, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for name in PASSED_ON {
        env.extend(reader.environment.public(name).map(|value| (name.to_owned(), value)));
    }
    for (name, text) in table {
        let field = format!("env.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            reader.mistake(&field, "no environment variable can have this name");
        }
        if let Some(value) = reader.expand(&field, text) {
            if value.contains('\0') {
                reader.mistake(&field, "no environment variable can hold a NUL character");
            }
            env.insert(name.clone(), value);
        }
    }
    env
}
