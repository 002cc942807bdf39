//! What an operator writes about a command tool.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// A tool that is one process. Lives in `[tools.NAME.command]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// The program and its arguments. There is no shell: each element is one argument, whatever
    /// the values in it hold. `{name}` puts in an argument of the call; an element with `{name?}`
    /// is left out when that argument is absent. The program itself has no placeholder.
    pub argv: Vec<String>,
    /// Whether a value may begin an element with `-`, which most programs read as an option.
    /// Elements after a literal `--` always may. Default false: such a call is refused.
    #[serde(default)]
    pub allow_dash: bool,
    /// What the program reads on its standard input: `"none"`, or `"json"` for all arguments as one
    /// line of JSON. Default `"none"`.
    #[serde(default)]
    pub stdin: StdinFormat,
    /// The working directory. Default that of the daemon.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The environment. `${NAME}` puts in one of the daemon's variables, which is then treated as a
    /// secret. Besides these the program sees PATH, HOME, LANG and TZ, and the idempotency key of
    /// the call as DAUNTLESS_IDEMPOTENCY_KEY. Default none.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Failure codes by exit code, like `2 = "not_found"`. Default `tool_error` for all but 0.
    #[serde(default)]
    pub exit_codes: BTreeMap<String, String>,
    /// What the program writes on its standard output: `"text"`, or `"json"` for one JSON value,
    /// which is checked. Default `"text"`.
    #[serde(default)]
    pub output: OutputFormat,
    /// Longest output that is kept, in bytes; of a longer text the middle is left out, and longer
    /// JSON is a failure. Default 1048576 (1 MiB).
    #[serde(default = "default_output_bytes_max")]
    #[schemars(range(min = 1))]
    pub output_bytes_max: usize,
    /// How long the processes have to end after SIGTERM until SIGKILL, like `"500ms"` or `"5s"`.
    /// Default `"2s"`.
    #[serde(default = "default_stop_grace", deserialize_with = "duration")]
    #[schemars(with = "String", default = "default_stop_grace_text")]
    pub stop_grace: Duration,
}

/// What a command reads on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinFormat {
    /// Nothing.
    #[default]
    None,
    /// All arguments as one line of JSON.
    Json,
}

/// What a command writes on its standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Text, given to the model without the line end at its end.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

const fn default_output_bytes_max() -> usize {
    1024 * 1024
}

const fn default_stop_grace() -> Duration {
    Duration::from_secs(2)
}

/// The same as an operator writes it, for the schema.
const fn default_stop_grace_text() -> &'static str {
    "2s"
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("`{text}` is no length of time: write \"500ms\", \"5s\" or \"2m\""))
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit.trim_start() {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}
