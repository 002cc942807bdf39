use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn spec(name: &str, parameters: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(name, "Does something.", parameters))
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn toolbox(tools: &[(&str, Value)]) -> Toolbox {
    let (toolbox, quarantined) =
        Toolbox::build(tools.iter().map(|(name, parameters)| spec(name, parameters.clone())).collect());
    assert_eq!(quarantined, []);
    toolbox
}

fn raw(name: &str, arguments: &str) -> RawCall {
    RawCall { id: "c1".into(), name: name.into(), arguments: arguments.into(), garbled: None }
}

/// What became of a call, as one would tell it.
fn told(admission: &Admission) -> String {
    match admission {
        Admission::Run { call, repairs, .. } => {
            let repairs: Vec<String> = repairs.iter().map(ToString::to_string).collect();
            let repairs =
                if repairs.is_empty() { String::new() } else { format!(" ({})", repairs.join("; ")) };
            format!("run {} {}{repairs}\n", call.name, call.arguments)
        }
        Admission::Answered { call, failure, .. } => {
            let mut text = format!("{}: {}\n", failure.code, failure.message);
            if let Some(hint) = &failure.hint {
                text += &format!("  hint: {hint}\n");
            }
            for problem in &failure.details {
                text += &format!("  {}: expected {}; got {}\n", problem.path, problem.expected, problem.got);
            }
            if !failure.candidates.is_empty() {
                text += &format!("  candidates: {}\n", failure.candidates.join(" "));
            }
            if failure.schema.is_some() {
                text += "  with schema\n";
            }
            text + &format!("  in the history: {} {}\n", call.name, call.arguments)
        }
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a macro makes the value")]
fn check(parameters: Value, arguments: &[&str], expected: Expect) {
    let toolbox = toolbox(&[("tool", parameters)]);
    let told: String = arguments.iter().map(|text| told(&toolbox.admit(&raw("tool", text), None))).collect();
    expected.assert_eq(&told);
}

fn arguments_of(admission: Admission) -> String {
    match admission {
        Admission::Run { call, .. } => call.arguments.to_string(),
        answered @ Admission::Answered { .. } => panic!("{}", told(&answered)),
    }
}

fn failure_of(admission: Admission) -> Failure {
    match admission {
        Admission::Answered { failure, .. } => failure,
        run @ Admission::Run { .. } => panic!("{}", told(&run)),
    }
}

fn fingerprint_of(admission: Admission) -> Fingerprint {
    match admission {
        Admission::Run { fingerprint, .. } | Admission::Answered { fingerprint, .. } => fingerprint,
    }
}

mod build;
mod names;
mod reading;
mod validation;
