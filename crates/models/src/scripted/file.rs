//! Scripts as TOML or JSON text. Read key by key, so that a mistake is named with its place.

use std::time::Duration;

use dauntless_contract::{Failure, FailureCode, Finish};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Scripted, Turn, When};

/// A script that cannot be followed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The text is not TOML or JSON.
    #[error("the script is not {format}: {problem}")]
    Syntax {
        /// What it was read as.
        format: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
    /// There is nothing to follow.
    #[error("the script has no turns: give at least one, as `[[turns]]` in TOML or a list `turns` in JSON")]
    NoTurns,
    /// A key that means nothing here.
    #[error("{place}: `{key}` means nothing here; use {known}")]
    UnknownKey {
        /// Where, like `turn 2, call 1`.
        place: String,
        /// The key.
        key: String,
        /// The keys that do.
        known: String,
    },
    /// A value that does not fit.
    #[error("{place}: `{key}` {problem}")]
    Value {
        /// Where, like `turn 2, call 1`.
        place: String,
        /// The key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
}

impl Scripted {
    /// Reads a script from TOML.
    ///
    /// ```
    /// # use dauntless_models::Scripted;
    /// let model = Scripted::from_toml(r#"
    ///     [[turns]]
    ///     calls = [{ tool = "order", arguments = { id = "ORD-2026-00042" } }]
    ///
    ///     [[turns]]
    ///     when = { tool = "order", error = "not_found" }
    ///     text = "There is no such order."
    ///
    ///     [[turns]]
    ///     fail = { code = "rate_limited", retry_after = "2s", times = 1 }
    ///     delay = "50ms"
    ///     text = "It is {{obs.order:/status}}."
    ///     usage = { prompt = 120, completion = 9 }
    /// "#);
    /// assert!(model.is_ok());
    /// ```
    ///
    /// A turn may hold `text`, `refusal`, `calls` (each with `tool`, then `arguments` or `raw`, and
    /// `id`), `finish`, `usage`, `when` (`tool`, `error`, `contains`, `goal`), `fail` (`code`, `message`,
    /// `retry_after`, `times`) and `delay`; see [`Turn`] for what they do.
    ///
    /// # Errors
    /// [`ScriptError`] with the turn and the key of the first mistake.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let script = toml::from_str(text)
            .map_err(|error| ScriptError::Syntax { format: "TOML", problem: error.to_string() })?;
        Self::from_value(script)
    }

    /// Reads a script from JSON: an object with a list `turns`, whose keys are those of
    /// [`from_toml`](Self::from_toml).
    ///
    /// # Errors
    /// [`ScriptError`] with the turn and the key of the first mistake.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script = serde_json::from_str(text)
            .map_err(|error| ScriptError::Syntax { format: "JSON", problem: error.to_string() })?;
        Self::from_value(script)
    }

    fn from_value(script: Value) -> Result<Self, ScriptError> {
        let mut script = Table::of("the script".to_owned(), "turns", script)?;
        let turns: Vec<Value> = script.take("turns", "a list of turns")?.unwrap_or_default();
        script.end(&["turns"])?;
        if turns.is_empty() {
            return Err(ScriptError::NoTurns);
        }
        let turns = turns.into_iter().zip(1..).map(|(turn, number)| read_turn(number, turn));
        Ok(Self::new(turns.collect::<Result<Vec<_>, _>>()?))
    }
}

fn read_turn(number: usize, value: Value) -> Result<Turn, ScriptError> {
    let place = format!("turn {number}");
    let mut table = Table::of(place.clone(), "turns", value)?;
    let mut turn = Turn::new();
    turn.text = table.text("text")?.map(Into::into);
    turn.refusal = table.text("refusal")?.map(Into::into);
    turn.finish = table.text("finish")?.map(read_finish);
    turn.delay = table.length("delay")?.unwrap_or_default();
    let calls: Vec<Value> = table.take("calls", "a list of calls")?.unwrap_or_default();
    for (call, number) in calls.into_iter().zip(1..) {
        turn = read_call(turn, Table::of(format!("{place}, call {number}"), "calls", call)?)?;
    }
    if let Some(mut usage) = table.table("usage")? {
        let (prompt, completion) = (usage.count("prompt")?, usage.count("completion")?);
        usage.end(&["prompt", "completion"])?;
        turn = turn.usage(prompt.unwrap_or(0), completion.unwrap_or(0));
    }
    if let Some(when) = table.table("when")? {
        turn = turn.when(read_when(when)?);
    }
    if let Some(fail) = table.table("fail")? {
        turn = read_fail(turn, fail)?;
    }
    table.end(&["text", "refusal", "calls", "finish", "usage", "when", "fail", "delay"])?;
    Ok(turn)
}

fn read_finish(word: String) -> Finish {
    match word.as_str() {
        "stop" => Finish::Stop,
        "tool_calls" => Finish::ToolCalls,
        "length" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        _ => Finish::Other(word.into()),
    }
}

fn read_call(turn: Turn, mut table: Table) -> Result<Turn, ScriptError> {
    let tool = table.text("tool")?.ok_or_else(|| table.wrong("tool", "is missing: name the tool to call"))?;
    let (arguments, raw) = (table.fields.remove("arguments"), table.text("raw")?);
    let id = table.text("id")?;
    let turn = match (arguments, raw) {
        (Some(_), Some(_)) => return Err(table.wrong("raw", "stands beside `arguments`: give one of them")),
        (Some(arguments), None) => turn.call(tool, arguments),
        (None, Some(raw)) => turn.raw_call(tool, raw),
        (None, None) => turn.call(tool, Value::Object(Map::new())),
    };
    table.end(&["tool", "arguments", "raw", "id"])?;
    Ok(match id {
        Some(id) => turn.id(id),
        None => turn,
    })
}

fn read_when(mut table: Table) -> Result<When, ScriptError> {
    let when = When {
        tool: table.text("tool")?.map(Into::into),
        error: table.code("error")?,
        contains: table.text("contains")?.map(Into::into),
        goal: table.text("goal")?.map(Into::into),
    };
    table.end(&["tool", "error", "contains", "goal"])?;
    Ok(when)
}

fn read_fail(turn: Turn, mut table: Table) -> Result<Turn, ScriptError> {
    let missing = "is missing: name a failure code, like \"unavailable\"";
    let code = table.code("code")?.ok_or_else(|| table.wrong("code", missing))?;
    let message = table.text("message")?.unwrap_or_else(|| "The script lets the model fail here.".to_owned());
    let mut failure = Failure::new(code, message);
    failure.retry_after = table.length("retry_after")?;
    let times = table.take("times", "a count of attempts")?;
    table.end(&["code", "message", "retry_after", "times"])?;
    Ok(turn.fail_times(failure, times.unwrap_or(u32::MAX)))
}

/// A table of the script whose keys are taken one by one.
struct Table {
    place: String,
    fields: Map<String, Value>,
}

impl Table {
    fn of(place: String, key: &str, value: Value) -> Result<Self, ScriptError> {
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            other => {
                let problem = format!("is {other}, which is no table");
                Err(ScriptError::Value { place, key: key.to_owned(), problem })
            }
        }
    }

    fn wrong(&self, key: &str, problem: impl Into<String>) -> ScriptError {
        ScriptError::Value { place: self.place.clone(), key: key.to_owned(), problem: problem.into() }
    }

    fn take<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Result<Option<T>, ScriptError> {
        let Some(value) = self.fields.remove(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let shown = value.to_string();
        serde_json::from_value(value)
            .map(Some)
            .map_err(|_| self.wrong(key, format!("is {shown}: give {expected}")))
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, ScriptError> {
        self.take(key, "a text")
    }

    fn count(&mut self, key: &str) -> Result<Option<u64>, ScriptError> {
        self.take(key, "a whole number")
    }

    fn table(&mut self, key: &str) -> Result<Option<Self>, ScriptError> {
        let place = format!("{}, `{key}`", self.place);
        Ok(self.take(key, "a table")?.map(|fields| Self { place, fields }))
    }

    fn code(&mut self, key: &str) -> Result<Option<FailureCode>, ScriptError> {
        let Some(name) = self.text(key)? else { return Ok(None) };
        let known = FailureCode::ALL.map(FailureCode::as_str).join(", ");
        let problem =
            || self.wrong(key, format!("is \"{name}\", which is no failure code: use one of {known}"));
        name.parse().map(Some).map_err(|_| problem())
    }

    fn length(&mut self, key: &str) -> Result<Option<Duration>, ScriptError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let expected = "give a length with its unit, like \"250ms\", \"2s\" or \"1m\"";
        read_length(&text).map(Some).ok_or_else(|| self.wrong(key, format!("is \"{text}\": {expected}")))
    }

    fn end(self, known: &[&str]) -> Result<(), ScriptError> {
        let Some(key) = self.fields.into_iter().map(|(key, _)| key).next() else { return Ok(()) };
        let known = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        Err(ScriptError::UnknownKey { place: self.place, key, known })
    }
}

fn read_length(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = digits.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}
