use std::sync::Arc;

use dauntless_contract::{History, ModelRequest, ToolSpec};
use serde_json::json;

use super::*;

/// The tool that a body names, among `find`, `find_all` and `pay`.
fn named(body: serde_json::Value) -> Option<String> {
    let spec = |name| Arc::new(ToolSpec::new(name, "Does something.", json!({ "type": "object" })));
    let request = ModelRequest::new(
        Arc::new(History::default()),
        Arc::new([spec("find"), spec("find_all"), spec("pay")]),
    );
    let error = WireError::of_body(&json!({ "error": body }).to_string());
    of(&error, &request).map(|spec| spec.name.to_string())
}

#[test]
fn the_place_in_the_request_counts_first() {
    for param in ["tools[2].function.parameters", "tools[2]", "tools.2.function", "functions[2].parameters"] {
        let body = json!({ "param": param, "message": "Invalid schema for function 'find'." });
        assert_eq!(named(body).as_deref(), Some("pay"), "{param}");
    }
    assert_eq!(named(json!({ "param": "tools[3].function", "message": "Function 'find'." })), None);
}

#[test]
fn another_place_in_the_request_is_no_tool() {
    let message = "Invalid function 'find' in tool call.";
    assert_eq!(named(json!({ "param": "messages[3].tool_calls", "message": message })), None);
    assert_eq!(named(json!({ "param": "tool_choice", "message": message })), None);
}

#[test]
fn one_quoted_name_in_words_about_tools_is_enough_and_two_are_too_many() {
    let said = |message: &str| named(json!({ "message": message, "type": "invalid_request_error" }));
    assert_eq!(
        said("Invalid schema for function 'find': None is not of type 'array'").as_deref(),
        Some("find")
    );
    assert_eq!(said("tool `find_all`: enum of integers is not supported").as_deref(), Some("find_all"));
    assert_eq!(said("Tools 'find' and 'pay' have the same schema"), None);
    assert_eq!(said("Invalid schema for function find"), None);
    assert_eq!(said("The model 'find' does not exist"), None);
    assert_eq!(said("Invalid schema for function 'other'"), None);
}
