//! The loop everybody writes first: tokio, reqwest, serde_json, and nothing that can go wrong.

use serde_json::{Value, json};

use crate::contender::Plan;

pub(crate) struct Loop {
    plan: Plan,
    url: String,
    client: reqwest::Client,
    tools: Value,
}

impl Loop {
    pub(crate) fn new(plan: Plan, url: &str) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" } },
            "required": ["n"],
            "additionalProperties": false,
        });
        let function = json!({ "name": "work", "description": "Does the work.", "parameters": parameters });
        Self {
            plan,
            url: format!("{url}/chat/completions"),
            client: reqwest::Client::new(),
            tools: json!([{ "type": "function", "function": function }]),
        }
    }

    pub(crate) async fn run(&self) -> Result<(), String> {
        let mut messages = vec![
            json!({ "role": "system", "content": "Do the work." }),
            json!({ "role": "user", "content": "Begin." }),
        ];
        loop {
            let body = json!({ "model": self.plan.model(), "messages": messages, "tools": self.tools });
            let sent = self.client.post(&self.url).json(&body).send().await;
            let reply: Value =
                sent.map_err(|error| error.to_string())?.json().await.map_err(|error| error.to_string())?;
            let message = reply.pointer("/choices/0/message").cloned().unwrap_or_default();
            let calls = message.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
            messages.push(message);
            if calls.is_empty() {
                return Ok(());
            }
            let running: Vec<_> =
                calls.iter().map(|call| tokio::spawn(work(call.clone(), self.plan))).collect();
            for (call, task) in calls.iter().zip(running) {
                let content = task.await.map_err(|error| error.to_string())??;
                messages.push(json!({ "role": "tool", "tool_call_id": call.get("id"), "content": content }));
            }
        }
    }
}

async fn work(call: Value, plan: Plan) -> Result<String, String> {
    let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
    let arguments: Value = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    let n = arguments.get("n").and_then(Value::as_u64).unwrap_or_default();
    if plan.call_ms > 0 {
        tokio::time::sleep(plan.call_time()).await;
    }
    Ok(json!({ "done": n }).to_string())
}
