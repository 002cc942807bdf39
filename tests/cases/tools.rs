//! Tools that do what a case says, and count what reached them.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{BoxFuture, Json, OnExhausted, ToolSpec};
use dauntless_testkit::EffectLedger;
use dauntless_tools::{CommandConfig, CommandTool, ProcessReaper};
use serde_json::json;

use crate::case::{Act, ToolPlan};

/// What reached the tools of a case.
#[derive(Default)]
pub(crate) struct Seen {
    /// Tool and arguments, in order of arrival.
    pub(crate) invocations: Mutex<Vec<(String, String)>>,
}

/// Tells what each tool of a case is to be watched by.
pub(crate) struct Workshop {
    pub(crate) seen: Arc<Seen>,
    pub(crate) ledger: EffectLedger,
    pub(crate) reaper: Arc<ProcessReaper>,
}

impl Workshop {
    pub(crate) fn open() -> Self {
        Self { seen: Arc::default(), ledger: EffectLedger::in_memory(), reaper: Arc::default() }
    }

    pub(crate) fn tool(&self, plan: &ToolPlan) -> Arc<dyn Tool> {
        let spec = Arc::new(spec(plan));
        let Some(command) = &plan.command else {
            let (seen, ledger) = (Arc::clone(&self.seen), self.ledger.clone());
            let known_as = match &plan.source {
                Some(source) => format!("{source}/{}", plan.name),
                None => plan.name.clone(),
            };
            return Arc::new(ScriptedTool { spec, known_as, acts: plan.does.clone(), seen, ledger });
        };
        let config: CommandConfig = serde_json::from_value(command.clone()).expect("a command");
        let env = |name: &str| std::env::var(name).ok();
        Arc::new(CommandTool::build(spec, config, &env, Arc::clone(&self.reaper)).expect("a command"))
    }
}

fn spec(plan: &ToolPlan) -> ToolSpec {
    let schema = match &plan.schema {
        Some(text) => parse_deep(text),
        None => json!({"type": "object"}),
    };
    let mut spec = ToolSpec::new(plan.name.as_str(), format!("Does {}.", plan.name), schema);
    spec.effect = plan.effect;
    spec.on_exhausted = match (plan.end_run, plan.park) {
        (true, _) => OnExhausted::EndRun,
        (false, true) => OnExhausted::Park,
        (false, false) => OnExhausted::Observe,
    };
    spec.fallback = plan.fallback.as_deref().map(Arc::from);
    spec.polling = plan.polling;
    if let Some(bytes) = plan.output_bytes_max {
        spec.output_bytes_max = bytes;
    }
    plan.policy.apply(&mut spec.resilience);
    spec
}

/// Reads a schema; `{"nested": N}` stands for objects N deep, deeper than a parser would go.
fn parse_deep(text: &str) -> serde_json::Value {
    let value: serde_json::Value = serde_json::from_str(text).expect("a schema is JSON");
    let Some(depth) = value.get("nested").and_then(serde_json::Value::as_u64) else { return value };
    let leaf = json!({"type": "object"});
    (0..depth).fold(leaf, |inner, _| {
        let mut outer = serde_json::Map::new();
        outer.insert("type".to_owned(), "object".into());
        outer.insert("properties".to_owned(), serde_json::Map::from_iter([("a".to_owned(), inner)]).into());
        outer.into()
    })
}

struct ScriptedTool {
    spec: Arc<ToolSpec>,
    /// What its invocations are noted under.
    known_as: String,
    acts: Vec<Act>,
    seen: Arc<Seen>,
    ledger: EffectLedger,
}

impl ScriptedTool {
    /// Notes the invocation and finds what it does.
    fn begin(&self, arguments: &Json) -> Act {
        let mut invocations = self.seen.invocations.lock().unwrap();
        let fits = |act: &&Act| act.when.as_ref().is_none_or(|text| arguments.as_str().contains(text));
        // Acts for certain arguments are counted by arguments: parallel calls arrive in any order.
        let by_arguments = self.acts.iter().any(|act| act.when.is_some());
        let before = |(tool, with): &&(String, String)| {
            *tool == self.known_as && (!by_arguments || with == arguments.as_str())
        };
        let nth = invocations.iter().filter(before).count();
        let acts: Vec<&Act> = self.acts.iter().filter(fits).collect();
        let act = acts.get(nth).or(acts.last()).map(|act| (*act).clone());
        invocations.push((self.known_as.clone(), arguments.to_string()));
        act.unwrap_or_else(|| Act { ok: Some("done".to_owned()), ..Act::default() })
    }
}

impl Tool for ScriptedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let act = self.begin(&arguments);
            if act.effect {
                self.ledger.record(&ctx.idempotency_key);
            }
            if act.after_ms > 0 {
                tokio::time::sleep(Duration::from_millis(act.after_ms)).await;
            }
            if act.hang {
                std::future::pending::<()>().await;
            }
            if let Some(text) = act.panic {
                panic!("{text}");
            }
            if let Some(text) = act.error {
                Err(io::Error::other(text))?;
            }
            let Some(code) = act.fail else { return Ok(ToolOutput::text(act.ok.unwrap_or_default())) };
            let message = act.message.unwrap_or_else(|| "It did not work.".to_owned());
            let mut failure = Failure::new(code.parse().expect("a failure code"), message);
            if let Some(state) = act.effect_state {
                failure = failure.effect(state);
            }
            if let Some(wait) = act.retry_after_ms {
                failure = failure.retry_after(Duration::from_millis(wait));
            }
            Err(failure)
        })
    }
}
