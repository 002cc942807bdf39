//! Tools that fail in every way a tool can, each by its own dice.

use std::sync::Arc;
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{EffectState, OnExhausted};
use schemars::JsonSchema;
use serde::Deserialize;

/// The tools, by the effect that each declares.
pub(crate) const NAMES: [&str; 4] = ["read", "write", "keyed", "fragile"];

#[derive(Deserialize, JsonSchema)]
struct Work {
    /// Which piece of work.
    n: u64,
    /// Whether nothing goes wrong.
    #[serde(default)]
    healthy: bool,
}

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Tool>> {
    let effects = [Effect::ReadOnly, Effect::Once, Effect::Keyed, Effect::Idempotent];
    NAMES.into_iter().zip(effects).map(|(name, effect)| tool(name, effect)).collect()
}

fn tool(name: &'static str, effect: Effect) -> Arc<dyn Tool> {
    let tool = tool_fn_with_ctx(name, "Does a piece of work.", move |ctx, work: Work| async move {
        let dice = dice(&[ctx.idempotency_key.as_bytes(), &work.n.to_le_bytes(), &ctx.attempt.to_le_bytes()]);
        if work.healthy {
            return Ok("fine".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(dice % 7)).await;
        fault(name, dice / 7)
    });
    let tool = tool
        .effect(effect)
        .on_exhausted(OnExhausted::Observe)
        .timeout(Duration::from_millis(250))
        .deadline(Duration::from_secs(2))
        .polling(true)
        .resilience(|policy| {
            policy.retry.base = Duration::from_millis(5);
            policy.breaker.open_for = Duration::from_millis(500);
            policy.breaker.open_cap = Duration::from_secs(2);
        });
    Arc::new(tool)
}

fn fault(name: &str, dice: u64) -> Result<String, Failure> {
    match dice % 1000 {
        0..80 => Err(Failure::unavailable("Down for a moment.")),
        80..100 => Err(Failure::rate_limited("Too fast.").retry_after(Duration::from_millis(10))),
        100..110 => Err(Failure::connection_failed("Refused.")),
        110..120 => Err(Failure::timeout("No answer.").effect(EffectState::Unknown)),
        120..150 => Err(Failure::not_found("Not there.")),
        #[expect(clippy::panic, reason = "a tool that breaks is part of the programme")]
        150 if name == "fragile" => panic!("a defect on purpose"),
        _ => Ok("x".repeat(usize::try_from(dice % 2000).unwrap_or(0))),
    }
}

/// A number that depends on nothing but what it is given (FNV-1a, then mixed).
pub(crate) fn dice(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}
