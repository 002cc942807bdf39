//! Coercion, and what is said about arguments that do not fit.

use super::*;

#[test]
fn scalars_are_coerced_when_exact_and_strings_are_never_touched() {
    let schema = object(
        json!({ "n": { "type": "integer" }, "b": { "type": "boolean" }, "s": { "type": "string" }, "x": { "type": "number" } }),
        &[],
    );
    check(
        schema,
        &[
            r#"{"n":"42","b":"true","s":"7"}"#,
            r#"{"n":"1234567890123456789"}"#,
            r#"{"n":"123456789012345678901234567890", "s": "a"}"#,
            r#"{"n":3.0,"x":"1e3"}"#,
            r#"{"x":"-0.50"}"#,
        ],
        expect![[r#"
            run tool {"n":42,"b":true,"s":"7"} (read $.n as an integer; read $.b as a boolean)
            run tool {"n":1234567890123456789} (read $.n as an integer)
            run tool {"n":123456789012345678901234567890,"s":"a"} (read $.n as an integer)
            run tool {"n":3,"x":1e3} (read $.n as an integer; read $.x as a number)
            run tool {"x":-0.50} (read $.x as a number)
        "#]],
    );
}

#[test]
fn what_is_not_exact_is_refused() {
    let schema = object(
        json!({ "n": { "type": "integer" }, "b": { "type": "boolean" }, "x": { "type": "number" } }),
        &[],
    );
    let toolbox = toolbox(&[("tool", schema)]);
    let told = |text: &str| {
        let failure = failure_of(toolbox.admit(&raw("tool", text), None));
        let [problem] = &*failure.details else { panic!("{failure}") };
        format!("{}: {} expected, not {}\n", problem.path, problem.expected, problem.got)
    };
    let integers = ["\"4.5\"", "\"3.0\"", "\"1e3\"", "\" 7 \"", "\"007\"", "\"null\"", "\"\"", "3.5"];
    let mut all: String = integers.iter().map(|n| told(&format!("{{\"n\":{n}}}"))).collect();
    all += &["yes", "True", "1"].iter().map(|b| told(&format!("{{\"b\":\"{b}\"}}"))).collect::<String>();
    all += &["inf", "NaN", "1e999", "+1"]
        .iter()
        .map(|x| told(&format!("{{\"x\":\"{x}\"}}")))
        .collect::<String>();
    expect![[r#"
        $.n: an integer expected, not the string "4.5"
        $.n: an integer expected, not the string "3.0"
        $.n: an integer expected, not the string "1e3"
        $.n: an integer expected, not the string " 7 "
        $.n: an integer expected, not the string "007"
        $.n: an integer expected, not the string "null"
        $.n: an integer expected, not the string ""
        $.n: an integer expected, not the number 3.5
        $.b: a boolean expected, not the string "yes"
        $.b: a boolean expected, not the string "True"
        $.b: a boolean expected, not the string "1"
        $.x: a number expected, not the string "inf"
        $.x: a number expected, not the string "NaN"
        $.x: a number expected, not the string "1e999"
        $.x: a number expected, not the string "+1"
    "#]]
    .assert_eq(&all);
}

#[test]
fn a_string_is_decoded_only_where_the_schema_wants_an_array_or_object() {
    let schema = object(
        json!({
            "todos": { "type": "array", "items": { "type": "object", "properties": { "n": { "type": "integer" } } } },
            "raw": { "type": "string" },
            "either": { "type": ["array", "string"] },
        }),
        &[],
    );
    check(
        schema,
        &[
            r#"{"todos":"[{\"t\":\"x\",\"n\":\"1\"}]","raw":"[1,2]"}"#,
            r#"{"todos":"{oops}","raw":"42"}"#,
            r#"{"either":"[1]"}"#,
            r#"{"todos":"{\"a\":1}"}"#,
        ],
        expect![[r#"
            run tool {"todos":[{"t":"x","n":1}],"raw":"[1,2]"} (decoded the JSON string at $.todos; read $.todos[0].n as an integer)
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.todos: expected an array; got the string "{oops}"
              with schema
              in the history: tool {"todos":"{oops}","raw":"42"}
            run tool {"either":"[1]"}
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.todos: expected an array; got the string "{\"a\":1}"
              with schema
              in the history: tool {"todos":"{\"a\":1}"}
        "#]],
    );
}

#[test]
fn only_what_changed_is_written_anew() {
    let schema = object(json!({ "n": { "type": "integer" } }), &[]);
    check(
        schema,
        &[r#"{ "z":1.10, "n":"5", "big":123456789012345678901234567890, "a":{"e":1E5,"é":"\u00e9\n"} }"#],
        expect![[r#"
            run tool {"z":1.10,"n":5,"big":123456789012345678901234567890,"a":{"e":1E5,"é":"é\n"}} (read $.n as an integer)
        "#]],
    );
}

#[test]
fn coercion_follows_references_and_alternatives() {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "$ref": "#/$defs/Query" },
            "limit": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "shape": { "oneOf": [
                { "type": "object", "properties": { "kind": { "const": "circle" }, "r": { "type": "number" } } },
                { "type": "object", "properties": { "kind": { "const": "label" }, "r": { "type": "string" } } },
            ] },
            "pair": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }] },
        },
        "additionalProperties": { "type": "boolean" },
        "$defs": { "Query": { "allOf": [{ "type": "object", "properties": { "limit": { "type": "integer" } } }] } },
    });
    check(
        schema,
        &[
            r#"{"query":{"limit":"5"},"limit":"6"}"#,
            r#"{"shape":{"kind":"circle","r":"2"}}"#,
            r#"{"shape":{"kind":"label","r":"2"}}"#,
            r#"{"pair":["1","2"],"other":"true"}"#,
            r#"{"query":"{\"limit\":\"5\"}","limit":null}"#,
        ],
        expect![[r#"
            run tool {"query":{"limit":5},"limit":6} (read $.query.limit as an integer; read $.limit as an integer)
            run tool {"shape":{"kind":"circle","r":2}} (read $.shape.r as an integer)
            run tool {"shape":{"kind":"label","r":"2"}}
            run tool {"pair":["1",2],"other":true} (read $.pair[1] as an integer; read $.other as a boolean)
            run tool {"query":{"limit":5},"limit":null} (decoded the JSON string at $.query; read $.query.limit as an integer)
        "#]],
    );
}

#[test]
fn a_null_is_left_out_where_the_field_is_optional_and_may_not_be_null() {
    let schema = object(
        json!({
            "a": { "type": "string" },
            "b": { "type": ["string", "null"] },
            "c": { "type": "object" },
            "r": { "type": "string" },
        }),
        &["b", "r"],
    );
    check(
        schema,
        &[r#"{"a":null,"b":null,"c":{"d":null,"e":1},"r":"x","u":null}"#, r#"{"b":null,"r":null}"#],
        expect![[r#"
            run tool {"b":null,"c":{"d":null,"e":1},"r":"x","u":null} (left out the null at $.a)
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.r: expected a string; got null
              with schema
              in the history: tool {"b":null,"r":null}
        "#]],
    );
}

#[test]
fn every_violation_is_named_with_its_path() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["city", "unit"],
        "properties": {
            "city": { "type": "string", "minLength": 2 },
            "unit": { "enum": ["celsius", "fahrenheit"] },
            "days": { "type": "integer", "minimum": 1, "maximum": 14 },
            "when": { "type": "string", "format": "date" },
            "mail": { "type": "string", "format": "email" },
            "code": { "type": "string", "pattern": "^[A-Z]{3}$" },
            "stops": { "type": "array", "maxItems": 2, "items": {
                "type": "object", "required": ["sku"], "properties": { "sku": { "type": "string" } } } },
            "odd key": { "type": ["string", "null"] },
        },
    });
    check(
        schema,
        &[r#"{
            "ctiy": "Paris", "unit": "celcius", "days": 15, "when": "tomorrow", "mail": "nope", "code": "abc",
            "stops": [{"sku": "a"}, {"sku": 7}, {}], "odd key": [1, 2], "zzz": true
        }"#],
        expect![[r#"
            invalid_arguments: The arguments of `tool` do not fit its schema: 12 problems. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.city: expected a string; this field is required; got nothing; `ctiy` is not a known field, is it this one?
              $.code: expected text that matches the pattern ^[A-Z]{3}$; got the string "abc"
              $.days: expected 14 or less; got the number 15
              $.mail: expected text in the format email, like name@example.com; got the string "nope"
              $["odd key"]: expected null or a string; got an array of 2 items
              $.stops: expected at most 2 items; got an array of 3 items
              $.stops[1].sku: expected a string; got the number 7
              $.stops[2].sku: expected a string; this field is required; got nothing
              $.unit: expected one of "celsius", "fahrenheit"; the nearest is "celsius"; got the string "celcius"
              $.when: expected text in the format date, like 2026-01-31; got the string "tomorrow"
              $.ctiy: expected no field of this name; the nearest is `city`; got the string "Paris"
              $.zzz: expected no field of this name; known are `city`, `code`, `days`, `mail`, `odd key`, `stops`, `unit`, `when`; got the boolean true
              with schema
              in the history: tool {
                        "ctiy": "Paris", "unit": "celcius", "days": 15, "when": "tomorrow", "mail": "nope", "code": "abc",
                        "stops": [{"sku": "a"}, {"sku": 7}, {}], "odd key": [1, 2], "zzz": true
                    }
        "#]],
    );
}

#[test]
fn arguments_under_another_key_are_not_unwrapped_by_guess() {
    let schema = object(
        json!({ "question": { "type": "string" }, "reflection": { "type": "string" } }),
        &["question", "reflection"],
    );
    check(
        schema,
        &[r#"{"_":{"question":"is it alive?","reflection":"..."}}"#],
        expect![[r#"
            invalid_arguments: The arguments of `tool` do not fit its schema: 2 problems. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.question: expected a string; this field is required; got nothing; not known here: `_`
              $.reflection: expected a string; this field is required; got nothing; not known here: `_`
              with schema
              in the history: tool {"_":{"question":"is it alive?","reflection":"..."}}
        "#]],
    );
}

#[test]
fn the_alternative_that_was_meant_is_explained() {
    let schema = object(
        json!({
            "value": { "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 1 }] },
            "shape": { "oneOf": [
                { "type": "object", "required": ["r"], "properties": { "kind": { "const": "circle" }, "r": { "type": "number" } } },
                { "type": "object", "required": ["w", "h"], "properties": { "kind": { "const": "box" }, "w": { "type": "number" } } },
            ] },
        }),
        &[],
    );
    check(
        schema,
        &[
            r#"{"value":0}"#,
            r#"{"value":[1]}"#,
            r#"{"shape":{"kind":"box","w":true}}"#,
            r#"{"shape":{"kind":"star"}}"#,
        ],
        expect![[r#"
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.value: expected 1 or more; got the number 0
              with schema
              in the history: tool {"value":0}
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.value: expected a string, or an integer; got an array of 1 item
              with schema
              in the history: tool {"value":[1]}
            invalid_arguments: The arguments of `tool` do not fit its schema: 2 problems. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.shape.h: expected a value; this field is required; got nothing
              $.shape.w: expected a number; got the boolean true
              with schema
              in the history: tool {"shape":{"kind":"box","w":true}}
            invalid_arguments: The arguments of `tool` do not fit its schema: 1 problem. The call was not executed.
              hint: Correct what the details name, and send the whole call again.
              $.shape: expected an object with the field `r`, or an object with the field `w`; got an object with `kind`
              with schema
              in the history: tool {"shape":{"kind":"star"}}
        "#]],
    );
}

#[test]
fn the_value_of_a_secret_is_never_shown() {
    let schema = object(
        json!({
            "password": { "type": "string", "minLength": 20 },
            "api_key": { "type": "object" },
            "auth": { "type": "object", "properties": { "token": { "enum": ["a"] } } },
            "n": { "type": "integer" },
        }),
        &["who"],
    );
    let toolbox = toolbox(&[("tool", schema)]);
    let arguments = r#"{"password":"FAKE-123","api_key":"FAKE-123","auth":{"token":"FAKE-123"},"n":"x","credentials":{"x":"FAKE-123"}}"#;
    let failure = failure_of(toolbox.admit(&raw("tool", arguments), None));
    let shown = serde_json::to_string(&failure).unwrap();
    assert!(!shown.contains("FAKE"), "{shown}");
    assert_eq!(failure.details.len(), 5);
}

#[test]
fn many_problems_are_counted_and_twenty_are_listed() {
    let schema = object(json!({ "list": { "type": "array", "items": { "type": "integer" } } }), &[]);
    let toolbox = toolbox(&[("tool", schema)]);
    let items = vec!["\"x\""; 1000].join(",");
    let failure = failure_of(toolbox.admit(&raw("tool", &format!("{{\"list\":[{items}]}}")), None));
    assert_eq!(failure.details.len(), 20);
    assert!(failure.message.contains("1000 problems, of which the first 20"), "{}", failure.message);
}

#[test]
fn a_long_schema_is_shown_in_the_part_that_matters() {
    let field =
        |n: usize| json!({ "type": "string", "description": format!("{n}: {}", "long words ".repeat(20)) });
    let mut properties: serde_json::Map<String, Value> =
        (0..30).map(|n| (format!("field_{n}"), field(n))).collect();
    properties.insert("count".into(), json!({ "type": "integer", "description": "How many." }));
    let toolbox = toolbox(&[("tool", object(Value::Object(properties), &["field_3"]))]);
    let schema =
        |text| failure_of(toolbox.admit(&raw("tool", text), None)).schema.map(|schema| schema.to_string());
    expect![[r#"{"properties":{"count":{"description":"How many.","type":"integer"}},"required":["field_3"],"type":"object"}"#]].assert_eq(&schema(r#"{"field_3":"x","count":"many"}"#).unwrap());
    expect![[r#"{"properties":{"field_3":{"description":"3: long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words long words ","type":"string"}},"required":["field_3"],"type":"object"}"#]].assert_eq(&schema("not json").unwrap());
    let all: Vec<String> = (0..30).map(|n| format!("\"field_{n}\":1")).collect();
    assert!(schema(&format!("{{{}}}", all.join(","))).is_none_or(|schema| schema.len() <= 800));
}
