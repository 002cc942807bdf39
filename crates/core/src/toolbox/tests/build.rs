//! Which declarations are offered.

use super::*;

#[track_caller]
fn refused(parameters: Value) -> String {
    let (toolbox, quarantined) =
        Toolbox::build(vec![spec("bad", parameters), spec("healthy", object(json!({}), &[]))]);
    assert_eq!(toolbox.names().collect::<Vec<_>>(), ["healthy"], "one bad tool harms no other");
    quarantined.into_iter().map(|tool| format!("{}\n", tool.reason)).collect()
}

/// A schema nested so deep; put together without recursion.
fn nested(depth: usize) -> Value {
    let map = |key: &str, value| Value::Object([(key.to_owned(), value)].into_iter().collect());
    let mut schema = (0..depth).fold(json!({}), |inner, _| map("properties", map("a", inner)));
    schema["type"] = json!("object");
    schema
}

#[test]
fn a_bad_declaration_is_quarantined_with_a_reason_that_names_it() {
    let bad = [
        json!({ "type": "string" }),
        json!({ "anyOf": [{ "type": "object" }, { "type": "object" }] }),
        json!({ "type": "object", "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
        object(json!({ "a": { "type": "strnig" } }), &[]),
        object(json!({ "a": { "type": "string", "pattern": "(" } }), &[]),
        object(json!({ "a": { "$ref": "https://example.com/schema.json" } }), &[]),
        object(json!({ "a": { "$ref": "file:///etc/passwd" } }), &[]),
        object(json!({ "a": { "$ref": "#/$defs/nowhere" } }), &[]),
    ];
    let told: String = bad.into_iter().map(refused).collect();
    expect![[r#"
        tool `bad` has a parameter schema of type `string`: its root must be `"type": "object"`
        tool `bad` has a parameter schema of type `none`: its root must be `"type": "object"`
        tool `bad`: its parameter schema has `anyOf` at its root, which providers refuse: describe one object with `properties`
        tool `bad`: its parameter schema is not valid at /properties/a/type: "strnig" is not valid under any of the schemas listed in the 'anyOf' keyword
        tool `bad`: its parameter schema is not valid at /properties/a/pattern: "(" is not a "regex"
        tool `bad`: its parameter schema refers to `https://example.com/schema.json` outside itself: put what it needs under `$defs`
        tool `bad`: its parameter schema refers to `file:///etc/passwd` outside itself: put what it needs under `$defs`
        tool `bad`: its parameter schema is not valid at its root: Pointer '/$defs/nowhere' does not exist
    "#]].assert_eq(&told);
}

#[test]
fn a_schema_nested_too_deep_is_refused_without_a_stack() {
    let deep = spec("deep", nested(5_000));
    // To drop it would need the stack that the check does without.
    std::mem::forget(Arc::clone(&deep));
    let (_, quarantined) = Toolbox::build(vec![deep]);
    expect!["tool `deep`: its parameter schema is nested deeper than 64 levels: flatten it"]
        .assert_eq(&quarantined[0].reason);
}

#[test]
fn a_schema_that_refers_to_itself_in_place_ends() {
    let loops = [
        json!({ "type": "object", "$ref": "#" }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } },
                "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "allOf": [{ "$ref": "#/$defs/a" }] } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#x" } },
                "$defs": { "a": { "$anchor": "x", "if": { "$ref": "#x" } } } }),
    ];
    for schema in loops {
        let arguments = r#"{"a":{"a":"1"}}"#;
        assert_eq!(
            arguments_of(toolbox(&[("tool", schema)]).admit(&raw("tool", arguments), None)),
            arguments
        );
    }
}

#[test]
fn a_schema_whose_references_multiply_is_refused() {
    let multiplied = |levels: usize| {
        let mut defs = serde_json::Map::new();
        for n in 0..levels {
            let next = format!("#/$defs/d{}", n + 1);
            defs.insert(format!("d{n}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
        }
        defs.insert(format!("d{levels}"), json!({ "type": "string" }));
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs })
    };
    expect![[r#"
        tool `bad`: its parameter schema refers to itself so often that one value would be checked more than 10000 times: make it simpler
    "#]].assert_eq(&refused(multiplied(40)));
    assert_eq!(
        arguments_of(toolbox(&[("tool", multiplied(6))]).admit(&raw("tool", r#"{"a":"x"}"#), None)),
        r#"{"a":"x"}"#
    );
}

#[test]
fn a_schema_that_goes_on_inside_the_value_is_fine() {
    let tree = json!({
        "type": "object",
        "properties": { "root": { "$ref": "#/$defs/Node" }, "again": { "$ref": "#" } },
        "$defs": { "Node": {
            "type": "object",
            "properties": {
                "left": { "anyOf": [{ "$ref": "#/$defs/Node" }, { "type": "null" }] },
                "weight": { "type": "integer" },
            },
        } },
    });
    check(
        tree,
        &[
            r#"{"root":{"left":{"left":null,"weight":"7"}},"again":{"root":{}}}"#,
            r#"{"root":{"left":{"weight":1.5}}}"#,
        ],
        expect![[r#"
            run tool {"root":{"left":{"left":null,"weight":7}},"again":{"root":{}}} (read $.root.left.weight as an integer)
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.root.left.weight: expected an integer; got the number 1.5
              with schema
              in the history: tool {"root":{"left":{"weight":1.5}}}
        "#]],
    );
}

#[test]
fn the_second_of_two_tools_with_one_name_is_quarantined() {
    let (toolbox, quarantined) = Toolbox::build(vec![
        spec("read", object(json!({ "a": {} }), &[])),
        spec("read", object(json!({ "b": {} }), &[])),
    ]);
    assert_eq!(toolbox.offered().len(), 1);
    assert!(toolbox.get("read").is_some_and(|spec| spec.parameters["properties"].get("a").is_some()));
    expect!["tool `read` is declared twice: the first one is kept, give this one another name"]
        .assert_eq(&quarantined[0].reason);
}

#[test]
fn every_draft_is_understood_and_an_unknown_one_is_read_as_the_latest() {
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "https://example.com/our-own-dialect",
    ] {
        let mut parameters = object(json!({ "n": { "type": "integer" } }), &["n"]);
        parameters["$schema"] = json!(draft);
        let toolbox = toolbox(&[("tool", parameters)]);
        assert_eq!(arguments_of(toolbox.admit(&raw("tool", r#"{"n":"1"}"#), None)), r#"{"n":1}"#, "{draft}");
    }
}

#[test]
fn a_pattern_with_look_ahead_works_and_a_costly_one_ends() {
    let parameters = object(
        json!({
            "user": { "type": "string", "pattern": "^(?!admin).*$" },
            "url": { "type": "string", "pattern": "^https\\:\\/\\/" },
            "text": { "type": "string", "pattern": "^(a+)+$" },
            "twice": { "type": "string", "pattern": "^(a|a)*\\1b" },
        }),
        &[],
    );
    let long = format!(r#"{{"user":"root","url":"https://x","text":"{}"}}"#, "a".repeat(5_000));
    let toolbox = toolbox(&[("tool", parameters)]);
    assert_eq!(arguments_of(toolbox.admit(&raw("tool", &long), None)), long);
    let costly = format!(r#"{{"twice":"{}!","user":"admin1"}}"#, "a".repeat(5_000));
    expect![[r#"
        invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
          hint: Correct what the details name, and send the whole call again.
          $.user: expected text that matches the pattern ^(?!admin).*$; got the string "admin1"
          with schema
          in the history: tool {"twice":"aa…!","user":"admin1"}
    "#]].assert_eq(&told(&toolbox.admit(&raw("tool", &costly), None)).replace(&"a".repeat(5_000), "aa…"));
}

#[test]
fn toolboxes_are_equal_when_they_offer_the_same() {
    let one = toolbox(&[("a", object(json!({}), &[])), ("b", object(json!({}), &[]))]);
    assert_eq!(one, one.clone());
    assert_eq!(one, toolbox(&[("a", object(json!({}), &[])), ("b", object(json!({}), &[]))]));
    assert_ne!(one, toolbox(&[("b", object(json!({}), &[])), ("a", object(json!({}), &[]))]));
    assert_eq!(format!("{one:?}"), r#"["a", "b"]"#);
}
