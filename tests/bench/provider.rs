//! The mock provider, in a process of its own until its standard input closes.

use std::io::Read;
use std::time::Duration;

use dauntless_testkit::{Call, ChatRequest, Reply, Script, StrictProvider};
use serde_json::json;

use crate::contender::Plan;

/// Serves, and prints its address as the only line.
pub(crate) fn serve() -> Result<(), String> {
    let provider = StrictProvider::builder()
        .validate(false)
        .record(0)
        .start(Script::from_fn(reply))
        .map_err(|error| format!("the provider did not start: {error}"))?;
    println!("{}", provider.url());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// The model's name says what it is to do, so that one provider serves every scenario.
fn reply(request: &ChatRequest) -> Reply {
    let plan = Plan::from_model(request.model());
    let reply = if request.assistant_messages() < plan.turns {
        // A fourth word is the agent to be asked in place of the tool.
        let agent = request.model().split('-').nth(3);
        let call = |n| match agent {
            Some(agent) => Call::new(agent, &json!({ "goal": format!("Begin part {n}.") })),
            None => Call::new("work", &json!({ "n": n })),
        };
        Reply::calls((0..plan.calls).map(|n| call(n).id(format!("call_{n}"))))
    } else {
        Reply::text("done")
    };
    reply.usage(100, 20).after(Duration::from_millis(plan.model_ms))
}
