//! The arguments of a call, from the text that a model wrote to a call that may run.
//!
//! The first line of the input says which schema: the name of one of those below, or one of its
//! own. The rest is the text. A call that may run must fit by the judgement of the validator alone,
//! hold what the model wrote to the last digit, and may run again just as it is. A call that may
//! not run must be fit for a history and its answer must keep the bounds.

use std::sync::{Arc, LazyLock};

use dauntless_contract::{Effect, RawCall, ToolSpec};
use dauntless_core::observation;
use dauntless_core::toolbox::{Admission, Fingerprint, OutputLimit, Toolbox};
use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use super::written::Written;

const TOOL: &str = "tool";

/// The schemas that need no compiling for each input.
static SCHEMAS: LazyLock<[(&str, Offer); 4]> = LazyLock::new(|| {
    [
        ("order", order()),
        ("tree", tree()),
        ("choice", choice()),
        ("open", json!({ "type": "object", "additionalProperties": { "type": ["number", "boolean"] } })),
    ]
    .map(|(name, schema)| (name, Offer::of(schema).unwrap_or_else(|reason| panic!("{name}: {reason}"))))
});

fn order() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "integer" },
            "price": { "type": "number", "minimum": 0 },
            "note": { "type": "string" },
            "gift": { "type": "boolean" },
            "when": { "type": ["string", "null"], "format": "date" },
            "tags": { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
            "to": { "$ref": "#/$defs/address" },
            "lines": { "type": "array", "items": {
                "type": "object",
                "properties": { "sku": { "type": "string" }, "count": { "type": "integer", "minimum": 1 } },
                "required": ["sku"],
                "additionalProperties": false,
            } },
        },
        "required": ["id"],
        "additionalProperties": false,
        "$defs": { "address": {
            "type": "object",
            "properties": { "city": { "type": "string" }, "zip": { "type": ["integer", "null"] } },
            "required": ["city"],
        } },
    })
}

fn tree() -> Value {
    json!({
        "type": "object",
        "properties": { "value": { "type": "integer" }, "next": { "type": "array", "items": { "$ref": "#" } } },
    })
}

fn choice() -> Value {
    let tagged = |tag: &str, kind: &str| {
        json!({
            "type": "object",
            "properties": { "kind": { "const": tag }, "of": { "type": kind } },
            "required": ["kind", "of"],
        })
    };
    json!({
        "type": "object",
        "properties": {
            "one": { "oneOf": [tagged("number", "number"), tagged("flag", "boolean"), tagged("text", "string")] },
            "any": { "anyOf": [{ "type": "integer" }, { "type": "array", "items": { "type": "integer" } }] },
            "pair": { "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "boolean" }], "items": false },
            "level": { "enum": [1, 2, "high"] },
        },
        "patternProperties": { "^x_": { "type": "integer" } },
        "minProperties": 1,
    })
}

/// A tool that is on offer, with a validator of our own for its schema.
pub(super) struct Offer {
    toolbox: Toolbox,
    validator: Validator,
}

impl Offer {
    /// Offers a tool with these parameters, or says why it is in quarantine.
    pub(super) fn of(parameters: Value) -> Result<Self, String> {
        let spec = ToolSpec::new(TOOL, "Does something.", parameters);
        let parameters = Arc::clone(&spec.parameters);
        let (toolbox, mut quarantined) = Toolbox::build(vec![Arc::new(spec)]);
        if let Some(refused) = quarantined.pop() {
            return Err(refused.reason);
        }
        let options = || jsonschema::options().should_validate_formats(true).offline();
        // A draft that nobody knows is read as the newest one.
        let newest = |_| options().with_draft(Draft::Draft202012).build(&parameters);
        let validator = options().build(&parameters).or_else(newest);
        let validator = validator.unwrap_or_else(|error| panic!("what is offered compiles: {error}"));
        Ok(Self { toolbox, validator })
    }

    /// Sends the tool a call with this text for arguments.
    pub(super) fn judges(&self, text: &str) {
        for cut in [None, Some(OutputLimit { tokens: Some(7) })] {
            match self.toolbox.admit(&call(text), cut) {
                Admission::Run { call, fingerprint, .. } => {
                    assert_eq!(cut, None, "a call that was cut does not run");
                    let arguments = call.arguments.as_str();
                    assert!(self.validator.is_valid(&call.arguments.to_value()), "it fits: {arguments}");
                    assert!(
                        Written::by_a_model(text).any(|written| written.is_read_as(arguments)),
                        "nothing is lost or made up: {arguments}"
                    );
                    self.runs_again(arguments, &fingerprint);
                }
                Admission::Answered { call, failure, .. } => {
                    assert!(call.arguments.to_value().is_object(), "{}", call.arguments);
                    let answer = observation::failure(&failure, 0, Effect::Once).text;
                    assert!(answer.len() <= observation::FAILURE_BYTES_MAX, "{} bytes", answer.len());
                }
            }
        }
    }

    fn runs_again(&self, arguments: &str, fingerprint: &Fingerprint) {
        match self.toolbox.admit(&call(arguments), None) {
            Admission::Run { call, fingerprint: again, repairs, .. } => {
                assert_eq!(call.arguments.as_str(), arguments, "what fits is left alone");
                assert_eq!(&again, fingerprint, "the same arguments make the same call");
                assert_eq!(repairs, []);
            }
            Admission::Answered { failure, .. } => panic!("what ran once runs again: {failure:?}"),
        }
    }
}

fn call(arguments: &str) -> RawCall {
    RawCall { id: "c".into(), name: TOOL.into(), arguments: arguments.into(), garbled: None }
}

/// Sends one call to one of the schemas.
pub fn holds(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let (schema, text) = input.split_once('\n').unwrap_or_default();
    if let Some((_, offer)) = SCHEMAS.iter().find(|(name, _)| *name == schema) {
        offer.judges(text);
    } else if let Ok(schema) = serde_json::from_str(schema)
        && let Ok(offer) = Offer::of(schema)
    {
        offer.judges(text);
    }
}
