//! The tool `read_result`, which the run answers itself: no actor, no port, no waiting.

use std::sync::{Arc, LazyLock};

use dauntless_contract::{Effect, Failure, Json, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::results::{READ_BYTES_MAX, Results};
use crate::toolbox::Toolbox;

/// Its name. A tool of an agent that has the same name takes its place.
pub(super) const READ_RESULT: &str = "read_result";

/// Its declaration and its compiled schema, the same for every run.
static READER: LazyLock<(Arc<ToolSpec>, Toolbox)> = LazyLock::new(|| {
    let spec = Arc::new(spec());
    let (toolbox, _) = Toolbox::build(vec![Arc::clone(&spec)]);
    (spec, toolbox)
});

fn spec() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "id": {
                "type": "string",
                "description": "The id that the shortened result names, like r3-0.",
            },
            "from": {
                "type": "integer",
                "minimum": 0,
                "description": "The first byte, counted from 0. Without it, the start.",
            },
            "to": {
                "type": "integer",
                "minimum": 1,
                "description": "The byte after the last. Without it, as much as fits.",
            },
        },
        "required": ["id"],
        "additionalProperties": false,
    });
    let description = format!(
        "Reads a part of an earlier result that was shown shortened. Gives at most {READ_BYTES_MAX} bytes, in \
         whole characters, and says where to go on."
    );
    ToolSpec { effect: Effect::ReadOnly, ..ToolSpec::new(READ_RESULT, description, parameters) }
}

pub(super) fn declaration() -> &'static Arc<ToolSpec> {
    &READER.0
}

pub(super) fn gate() -> &'static Toolbox {
    &READER.1
}

#[derive(Deserialize)]
struct Range {
    id: Arc<str>,
    from: Option<u64>,
    to: Option<u64>,
}

/// Answers a call whose arguments fit the schema.
pub(super) fn answer(results: &Results, arguments: &Json) -> Result<Arc<str>, Failure> {
    let Range { id, from, to } = arguments
        .to()
        .map_err(|error| Failure::invalid_arguments("`from` or `to` is out of range.").source(error))?;
    let offset = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    results.read(&id, from.map_or(0, offset), to.map(offset))
}
