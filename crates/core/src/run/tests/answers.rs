//! Answers of a shape: what fits, what is asked for again, and what never looks completed.

use super::*;

fn shape(schema: Value) -> Result<AnswerShape, String> {
    AnswerShape::compile(&AnswerSpec::new(Arc::new(AnswerSchema {
        name: "ticket".into(),
        schema: Arc::new(schema),
    })))
}

fn ticket() -> AnswerShape {
    shape(json!({
        "type": "object",
        "properties": {
            "state": { "enum": ["open", "closed"] },
            "count": { "type": "integer" },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["state", "count"],
        "additionalProperties": false,
    }))
    .unwrap()
}

fn scene() -> Scene {
    shaped(RunLimits::default(), ticket())
}

fn shaped(limits: RunLimits, shape: AnswerShape) -> Scene {
    Scene::set(limits, PanicPolicy::Observe, Some(shape), Attendance::Attended)
}

fn outcome(scene: &Scene) -> (&str, Option<&str>, Option<&str>) {
    let outcome = scene.machine.outcome().unwrap();
    (outcome.reason.name(), outcome.text.as_deref(), outcome.explanation.as_deref())
}

#[test]
fn an_answer_that_fits_completes_the_run_as_it_was_written() {
    let mut scene = scene();
    scene.says(" {\"count\": 3,\n \"state\": \"open\"} ");
    assert_eq!(outcome(&scene), ("completed", Some("{\"count\": 3,\n \"state\": \"open\"}"), None));
    scene.replay_is_equal();
}

#[test]
fn what_loses_nothing_is_repaired() {
    for written in [
        r#"{"state":"open","count":"12345678901234567890"}"#,
        "```json\n{\"state\":\"open\",\"count\":\"12345678901234567890\"}\n```",
        r#"{"state":"open","count":12345678901234567890.0,"tags":null}"#,
        r#""{\"state\":\"open\",\"count\":12345678901234567890}""#,
    ] {
        let mut scene = scene();
        scene.says(written);
        let text = r#"{"state":"open","count":12345678901234567890}"#;
        assert_eq!(outcome(&scene), ("completed", Some(text), None), "{written}");
    }
}

#[test]
fn a_misfit_is_asked_for_again_with_everything_that_is_wrong() {
    let mut scene = scene();
    scene.says(r#"{"state":"opne","cuont":3}"#).says("It is open.").says(r#"{"state":"open","count":3}"#);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        nudge Your answer does not fit its schema: 3 problems. Answer again with one JSON value that fits the schema, and nothing around it.
        - $.count: expected an integer; this field is required; got nothing; `cuont` is not a known field, is it this one?
        - $.state: expected one of "open", "closed"; the nearest is "open"; got the string "opne"
        - $.cuont: expected no field of this name; the nearest is `count`; got the number 3
        ask 2 All
        nudge Your answer is not valid JSON: expected value at line 1 column 1. It begins with other words. Answer again with one JSON value that fits the schema, and nothing around it.
        - $: expected one JSON value; got It is open.
        ask 3 All
        end completed `{"state":"open","count":3}`
    "#]]);
}

#[test]
fn misfits_beyond_the_bound_end_the_run_with_the_explanation_and_keep_the_last() {
    let mut scene = scene();
    scene.says("{}").asks(&[("find", "{}")]).ends(0, Ok("x")).says("[1]");
    assert!(scene.machine.outcome().is_none(), "calls in between do not matter");
    scene.says(r#"{"state":"shut","count":1}"#);
    expect![[r#"
        (
            "malformed_output",
            Some(
                "{\"state\":\"shut\",\"count\":1}",
            ),
            Some(
                "The answer does not fit its schema: 1 problem (3 answers were refused, this is the last).\n- $.state: expected one of \"open\", \"closed\"; got the string \"shut\"",
            ),
        )
    "#]]
    .assert_debug_eq(&outcome(&scene));
    assert_eq!(scene.machine.outcome().unwrap().answer(), None);
    scene.replay_is_equal();
}

#[test]
fn without_further_tries_the_first_misfit_is_the_last() {
    let mut spec = AnswerSpec::new(Arc::clone(ticket().schema()));
    spec.reasks_max = 0;
    let mut scene = shaped(RunLimits::default(), AnswerShape::compile(&spec).unwrap());
    scene.says("{}");
    assert_eq!(outcome(&scene).0, "malformed_output");
}

#[test]
fn the_model_is_told_the_shape_after_its_instructions() {
    let scene = scene();
    let Message::System { text } = &scene.machine.history().messages()[0] else { panic!() };
    assert!(text.starts_with("Be good.\n\nWhen you give your answer, write one JSON value"), "{text}");
    assert!(text.contains(r#""required":["state","count"]"#), "{text}");
}

#[test]
fn a_refusal_and_a_filter_are_no_misfits() {
    let mut scene = scene();
    scene.reply(ModelReply {
        refusal: Some("I cannot help with that.".into()),
        text: None,
        ..ModelReply::text("")
    });
    assert_eq!(outcome(&scene), ("model_refusal", None, Some("I cannot help with that.")));
    assert_eq!(scene.machine.totals().turns, 1);
    let mut scene = self::scene();
    scene.reply(ModelReply { finish: Finish::ContentFilter, ..ModelReply::text("{}") });
    assert_eq!(outcome(&scene).0, "content_filtered");
}

#[test]
fn a_cut_answer_is_cut_even_if_what_came_of_it_fits() {
    let cut = ModelReply { finish: Finish::Length, ..ModelReply::text(r#"{"state":"open","count":3}"#) };
    let mut scene = scene();
    scene.reply(cut.clone()).reply(cut.clone()).reply(cut);
    assert_eq!(outcome(&scene).0, "truncated");
    // Nothing but thoughts up to the limit: a cut, too, and no transport error.
    let thoughts = ModelReply { text: None, finish: Finish::Length, ..ModelReply::text("") };
    let mut scene = self::scene();
    scene.reply(thoughts.clone());
    assert!(scene.seen.iter().any(|line| line.starts_with("nudge Your last reply was cut off")));
    scene.reply(thoughts.clone()).reply(thoughts);
    assert_eq!(outcome(&scene).0, "truncated");
}

#[test]
fn an_answer_that_fits_is_no_call_in_disguise_and_a_call_is_no_misfit() {
    let any = shape(json!({ "type": "object", "required": ["name", "arguments"] })).unwrap();
    let mut scene = shaped(RunLimits::default(), any);
    let disguised = r#"{"name":"find","arguments":{}}"#;
    scene.says(disguised);
    assert_eq!(outcome(&scene), ("completed", Some(disguised), None));
    let mut scene = self::scene();
    scene.says(disguised);
    let nudge = scene.seen.iter().find(|line| line.starts_with("nudge")).unwrap();
    assert!(nudge.contains("wrote a tool call as text") && nudge.ends_with("fits the schema."), "{nudge}");
}

#[test]
fn last_words_are_asked_for_in_shape_and_taken_as_they_come() {
    let limits = RunLimits { turns: 1, ..RunLimits::default() };
    for words in ["Half of it.", r#"{"state":"open","count":3}"#] {
        let mut scene = shaped(limits.clone(), ticket());
        scene.asks(&[("find", "{}")]).ends(0, Ok("x")).says(words);
        let nudge = scene.seen.iter().find(|line| line.starts_with("nudge")).unwrap();
        assert!(nudge.ends_with("in the shape of the schema as far as it goes."), "{nudge}");
        assert_eq!(outcome(&scene), ("limit_reached", Some(words), None));
        assert_eq!(scene.machine.outcome().unwrap().answer(), None);
    }
}

#[test]
fn asking_again_is_within_the_limits_of_the_run() {
    let mut scene = shaped(RunLimits { turns: 1, ..RunLimits::default() }, ticket());
    scene.says("{}").says("{}");
    assert_eq!(outcome(&scene), ("limit_reached", Some("{}"), None));
}

#[test]
fn any_kind_of_value_can_be_asked_for() {
    for (schema, written, text) in [
        (json!({ "type": "array", "items": { "type": "integer" } }), r#"["1", 2]"#, "[1,2]"),
        (json!({ "type": "boolean" }), "\"true\"", "true"),
        (json!({ "type": "string" }), "\"so\"", "\"so\""),
        (json!({ "type": ["integer", "null"] }), "null", "null"),
        (json!(true), "[]", "[]"),
    ] {
        let mut scene = shaped(RunLimits::default(), shape(schema).unwrap());
        scene.says(written);
        assert_eq!(outcome(&scene), ("completed", Some(text), None));
    }
}

#[test]
fn a_key_given_twice_is_not_read_as_the_last() {
    let mut scene = scene();
    scene.says(r#"{"state":"open","state":"closed","count":1}"#);
    assert!(
        scene.seen.iter().any(|line| line.contains(r#"has the key "state" twice in $"#)),
        "{:?}",
        scene.seen
    );
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_the_reason() {
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "items": deep });
    }
    let mut bomb = json!({ "d40": { "type": "string" } });
    for n in 0..40 {
        let next = format!("#/$defs/d{}", n + 1);
        bomb[format!("d{n}")] = json!({ "allOf": [{ "$ref": next }, { "$ref": next }] });
    }
    let refused = [
        deep,
        json!({ "$ref": "#/$defs/d0", "$defs": bomb }),
        json!({ "$ref": "https://example.com/schema.json" }),
        json!({ "type": "objekt" }),
        json!(false),
        json!({ "type": "string", "const": 5 }),
        json!({ "description": "x".repeat(70_000) }),
        json!("object"),
    ]
    .map(|schema| shape(schema).unwrap_err());
    expect![[r#"
        the answer's schema `ticket` is nested deeper than 64 levels: flatten it
        the answer's schema `ticket` refers to itself so often that one value would be checked more than 10000 times: make it simpler
        the answer's schema `ticket` refers to `https://example.com/schema.json` outside itself: put what it needs under `$defs`
        the answer's schema `ticket` is not valid at /type: "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword
        the answer's schema `ticket` allows no value at all, so that no answer could fit
        the answer's schema `ticket` allows no value at all, so that no answer could fit
        the answer's schema `ticket` is 70018 bytes long, and every request carries it: keep it below 65536
        the answer's schema `ticket` is not valid at its root: "object" is not of types "boolean", "object""#]]
    .assert_eq(&refused.join("\n"));
}
