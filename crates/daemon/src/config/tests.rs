use std::collections::BTreeSet;
use std::path::Path;

use expect_test::{Expect, expect, expect_file};
use serde_json::json;

use super::*;

mod team;

/// The smallest file that is right.
const SMALLEST: &str = r#"
[model]
provider = "openai"
name = "gpt-5-mini"

[agents.support]
instructions = "Be brief."
"#;

const EXAMPLE: &str = include_str!("../../../../config/dauntless.example.toml");

fn read(text: &str) -> Result<Config, Report> {
    parse(text, "dauntless.toml", Path::new("/nonexistent"))
}

fn smallest_with(more: &str) -> Result<Config, Report> {
    read(&format!("{SMALLEST}{more}"))
}

/// The smallest file with a tool of these lines.
fn tool(lines: &str) -> Result<Config, Report> {
    smallest_with(&format!("[tools.order]\ndescription = \"Look up one order.\"\n{lines}"))
}

const HTTP: &str = "http.url = \"https://orders.example.com/v1/orders?id={id?}\"\n";

/// Compares the mistakes, one a line and without their places.
fn check(result: Result<Config, Report>, expected: Expect) {
    let report = result.expect_err("the text has a mistake");
    let lines: String = report.mistakes().iter().map(|mistake| format!("{mistake}\n")).collect();
    expected.assert_eq(&lines);
}

#[test]
fn the_smallest_file_has_every_default() {
    let config = smallest_with("").expect("it is right");
    let model = &config.models[DEFAULT_MODEL];
    assert_eq!(model.spec.resilience, dauntless_contract::ResiliencePolicy::for_model());
    assert_eq!((&*model.spec.provider, &*model.spec.name), ("openai", "gpt-5-mini"));
    let agent = &config.agents["support"];
    assert_eq!((&*agent.model, &agent.limits), (DEFAULT_MODEL, &RunLimits::default()));
    assert_eq!(config.telemetry, TelemetryConfig { otlp_endpoint: None, service_name: "dauntless".into() });
}

#[test]
fn how_a_model_calls_tools_is_one_of_two_words() {
    let text = |word| SMALLEST.replace("\n[agents", &format!("\ntool_calling = {word:?}\n[agents"));
    let config = read(&text("json_schema")).expect("it is right");
    assert_eq!(config.models[DEFAULT_MODEL].tool_calling, ToolCalling::JsonSchema);
    assert_eq!(smallest_with("").unwrap().models[DEFAULT_MODEL].tool_calling, ToolCalling::Native);
    check(
        read(&text("jsonschema")),
        expect![[r#"
        model.tool_calling: expected "native" or "json_schema", found "jsonschema"; did you mean "json_schema"?
    "#]],
    );
}

#[test]
fn what_an_agent_answers_and_asks_is_checked() {
    let config = smallest_with("ask_user = true\nanswer = { type = \"object\" }\nanswer_reasks = 0").unwrap();
    let spec = &config.agents["support"].spec;
    let answer = spec.answer.as_ref().unwrap();
    assert_eq!((spec.ask_user, answer.reasks_max, &*answer.schema.name), (true, 0, "support"));
    assert_eq!(config.attendance, Attendance::Unattended);
    check(
        smallest_with("answer = { type = \"objekt\" }"),
        expect![[r#"
            agents.support.answer: the answer's schema `answer` is not valid at /type: "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword
        "#]],
    );
    check(
        smallest_with("answer = {}\nanswer_file = \"x.json\""),
        expect![[r#"
            agents.support.answer_file: expected one of answer and answer_file, found both
        "#]],
    );
    check(
        smallest_with(
            "ask_user = true\ntools = [\"ask_user\"]\n[tools.ask_user]\ndescription = \"Asks.\"\ncommand.argv = [\"true\"]",
        ),
        expect![[r#"
            agents.support.ask_user: expected false, or another name for the tool `ask_user` of this agent, found true
        "#]],
    );
}

#[test]
fn what_an_agent_shares_with_its_tree_is_switched_on_by_name() {
    let config = smallest_with("notes = true\nmessages = true").unwrap();
    let spec = &config.agents["support"].spec;
    assert_eq!((spec.notes, spec.messages, spec.ask_user), (true, true, false));
    let spec = &smallest_with("").unwrap().agents["support"].spec;
    assert_eq!((spec.notes, spec.messages), (false, false));
    let own = "tools = [\"send_message\"]\n[tools.send_message]\ndescription = \"Mails.\"\ncommand.argv = [\"true\"]";
    check(
        smallest_with(&format!("messages = true\n{own}")),
        expect![[r#"
            agents.support.messages: expected false, or another name for the tool `send_message` of this agent, found true
        "#]],
    );
    assert!(smallest_with(own).is_ok(), "it is an own tool where messages are off");
}

#[test]
fn a_tool_with_nothing_written_is_the_safest_tool() {
    let config = tool(HTTP).expect("it is right");
    let nothing = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    assert_eq!(*config.tools["order"].spec, ToolSpec::new("order", "Look up one order.", nothing));
}

#[test]
fn everything_written_arrives() {
    let lines = r#"
        effect = "read_only"
        timeout = "1500ms"
        deadline = "2m"
        concurrency = 2
        waiting = 0
        on_exhausted = "observe"
        polling = true
        output_max = "1MiB"
        retry = { attempts = 1, base = "1s", factor = 1, cap = "2s", retry_after_cap = "1h" }
        breaker = { window = "30s", min_calls = 1, failure_ratio = 1.0, consecutive_failures = 2, open_for = "1s", open_cap = "4s", close_after = 1, decay = "9s" }
        budget = { capacity = 2.5, per_success = 0.6, refill_every = "1s" }
        parameters = { type = "object", properties = { id = { type = "string" } } }
    "#;
    let config = tool(&format!("{lines}{HTTP}")).expect("it is right");
    expect![[r#"
        ToolSpec {
            name: "order",
            description: "Look up one order.",
            parameters: Object {
                "properties": Object {
                    "id": Object {
                        "type": String("string"),
                    },
                },
                "type": String("object"),
            },
            effect: ReadOnly,
            on_exhausted: Observe,
            max_park: 3600s,
            fallback: None,
            polling: true,
            output_bytes_max: 1048576,
            resilience: ResiliencePolicy {
                attempt_timeout: 1.5s,
                deadline: 120s,
                concurrency: 2,
                waiting: 0,
                abandoned_max: 4,
                retry: RetryPolicy {
                    max_attempts: 1,
                    base: 1s,
                    factor: 1.0,
                    cap: 2s,
                    retry_after_cap: 3600s,
                },
                breaker: BreakerPolicy {
                    window: 30s,
                    min_calls: 1,
                    failure_ratio: 1.0,
                    consecutive_failures: 2,
                    open_for: 1s,
                    open_cap: 4s,
                    close_after: 1,
                    decay: 9s,
                },
                budget: BudgetPolicy {
                    capacity_milli: 2500,
                    per_success_milli: 600,
                    refill_every: 1s,
                },
            },
        }
    "#]]
    .assert_eq(&format!("{:#?}\n", config.tools["order"].spec));
}

#[test]
fn an_agents_limits_go_before_the_files_and_those_before_the_defaults() {
    let config = read(
        "[model]\nprovider = \"openai\"\nname = \"m\"\nprice = { input_usd_per_million = 0.25, output_usd_per_million = 2 }\n\
         [limits]\nturns = 10\nusd = 0.5\n\
         [agents.a]\ninstructions = \"\"\nlimits = { turns = 3, wall_clock = \"90s\" }\n",
    )
    .expect("it is right");
    let expected = RunLimits {
        turns: 3,
        cost: dauntless_contract::MicroUsd(500_000),
        wall_clock: Duration::from_secs(90),
        ..RunLimits::default()
    };
    assert_eq!(config.agents["a"].limits, expected);
    assert_eq!(config.models[DEFAULT_MODEL].spec.price.input_per_million.0, 250_000);
}

#[test]
fn every_mistake_is_reported_at_once_with_its_line_and_a_caret() {
    let text = r#"[model]
provider = "opnai"
name = 5
timout = "3s"

[agents.support]
instructions = "Be brief."
tools = ["ordr", "refund", "refund"]

[tools.order]
description = "Look up one order."
timeout = 5
	deadline = "soon" # behind a tab
retry = { base = "0s", attempts = 0 }

[tools.refund]
effect = "readonly"
http = { url = "https://x.example", method = "FETCH" }
"#;
    expect![[r#"
        dauntless.toml:2:12: model.provider: expected "openai" or "scripted", found "opnai"; did you mean "openai"?
          2 | provider = "opnai"
            |            ^^^^^^^
        dauntless.toml:3:8: model.name: expected a text in quotes, found 5
          3 | name = 5
            |        ^
        dauntless.toml:4:1: model.timout: unknown key; did you mean `timeout`?
          4 | timout = "3s"
            | ^^^^^^
        dauntless.toml:8:10: agents.support.tools[0]: expected the name of a tool in this file, found "ordr"; did you mean "order"?
          8 | tools = ["ordr", "refund", "refund"]
            |          ^^^^^^
        dauntless.toml:8:28: agents.support.tools[2]: expected each tool once, found "refund" again
          8 | tools = ["ordr", "refund", "refund"]
            |                            ^^^^^^^^
        dauntless.toml:10:8: tools.order: expected a table [http] or [command], which says what the tool does, found neither
          10 | [tools.order]
             |        ^^^^^
        dauntless.toml:12:11: tools.order.timeout: expected a length of time like "5s", found 5
          12 | timeout = 5
             |           ^
        dauntless.toml:13:13: tools.order.deadline: expected a length of time like "5s", found "soon"; write a whole number above zero, at most 7 digits, and ms, s, m, h or d
          13 |  deadline = "soon" # behind a tab
             |             ^^^^^^
        dauntless.toml:14:18: tools.order.retry.base: expected a length of time like "5s", found "0s"; write a whole number above zero, at most 7 digits, and ms, s, m, h or d
          14 | retry = { base = "0s", attempts = 0 }
             |                  ^^^^
        dauntless.toml:14:35: tools.order.retry.attempts: expected a whole number of 1 or more, found 0
          14 | retry = { base = "0s", attempts = 0 }
             |                                   ^
        dauntless.toml:16:8: tools.refund.description: missing; expected a sentence that says what the tool does
          16 | [tools.refund]
             |        ^^^^^^
        dauntless.toml:17:10: tools.refund.effect: expected "read_only", "idempotent", "keyed", "verifiable" or "once", found "readonly"; did you mean "read_only"?
          17 | effect = "readonly"
             |          ^^^^^^^^^^
        dauntless.toml:18:46: tools.refund.http.method: expected "GET", "HEAD", "POST", "PUT", "PATCH" or "DELETE", found "FETCH"; did you mean "PATCH"?
          18 | http = { url = "https://x.example", method = "FETCH" }
             |                                              ^^^^^^^
        dauntless.toml: 13 mistakes
    "#]].assert_eq(&format!("{}\n", read(text).expect_err("mistakes")));
}

#[test]
fn text_that_is_not_toml_is_reported_where_it_breaks() {
    let text = "[model]\nname = \"gpt\nprovider = openai\n[model]\n";
    expect![[r#"
        dauntless.toml:2:12: not TOML: invalid basic string, expected `"`
          2 | name = "gpt
            |            ^
        dauntless.toml:3:12: not TOML: string values must be quoted, expected literal string
          3 | provider = openai
            |            ^^^^^^
        dauntless.toml:4:2: not TOML: duplicate key
          4 | [model]
            |  ^^^^^
        dauntless.toml: 3 mistakes
    "#]]
    .assert_eq(&format!("{}\n", read(text).expect_err("mistakes")));
}

#[test]
fn a_file_that_cannot_be_read_is_a_report_too() {
    let report = load(Path::new("/nonexistent/dauntless.toml")).expect_err("no file");
    expect!["/nonexistent/dauntless.toml: cannot be read: No such file or directory (os error 2)"]
        .assert_eq(&report.to_string());
}

#[test]
fn an_empty_file_says_what_it_needs() {
    check(
        read(""),
        expect![[r#"
        agents: missing; expected at least one agent, as a table [agents.NAME]
    "#]],
    );
}

#[test]
fn an_unknown_key_names_the_nearest_or_all_there_are() {
    check(
        smallest_with("[telemetry]\notlp_endpont = \"http://h\"\ncolour = 1\n[tolls]\n"),
        expect![[r#"
        telemetry.otlp_endpont: unknown key; did you mean `otlp_endpoint`?
        telemetry.colour: unknown key; known here: otlp_endpoint, service_name
        tolls: unknown key; did you mean `tools`?
    "#]],
    );
}

#[test]
fn a_key_that_belongs_one_table_below_is_recognised() {
    check(
        tool(&format!("attempts = 3\nopen_for = \"1s\"\n{HTTP}")),
        expect![[r#"
        tools.order.attempts: unknown key; did you mean `retry.attempts`?
        tools.order.open_for: unknown key; did you mean `breaker.open_for`?
    "#]],
    );
}

#[test]
fn a_value_of_another_kind_is_told_in_plain_words() {
    let lines = r#"
        effect = true
        timeout = 2026-11-29
        deadline = 5
        concurrency = "8"
        waiting = -1
        polling = "no"
        output_max = []
        parameters = "none"
        retry = { factor = 0.5, attempts = 5_000_000_000, base = inf }
        breaker = { failure_ratio = 0, min_calls = 99999999999999999999 }
        budget = 10
    "#;
    check(
        tool(&format!("{lines}{HTTP}")),
        expect![[r#"
        tools.order.effect: expected "read_only", "idempotent", "keyed", "verifiable" or "once", found true
        tools.order.timeout: expected a text in quotes, found 2026-11-29
        tools.order.deadline: expected a length of time like "5s", found 5
        tools.order.concurrency: expected a whole number of 1 or more, found "8"
        tools.order.waiting: expected a whole number of 0 or more, found -1
        tools.order.polling: expected true or false, found "no"
        tools.order.output_max: expected a size like "32KiB" or a number of bytes, found a list
        tools.order.parameters: expected a table, found "none"
        tools.order.retry.factor: expected a number of 1 or more, found 0.5
        tools.order.retry.attempts: expected a whole number of 1 or more, and at most 4294967295, found 5000000000
        tools.order.retry.base: expected a finite number, found inf
        tools.order.breaker.failure_ratio: expected a number above 0 and up to 1, found 0
        tools.order.breaker.min_calls: expected a whole number of at most 18 digits, found 99999999999999999999
        tools.order.budget: expected a table, found 10
    "#]],
    );
}

#[test]
fn a_length_has_a_unit_and_is_above_zero_and_bounded() {
    for good in ["1ms", "250ms", "5s", "2m", "1h", "9999999h", "007s"] {
        assert!(tool(&format!("retry.retry_after_cap = \"{good}\"\n{HTTP}")).is_ok(), "{good}");
    }
    for bad in ["", "5", "0s", "-5s", "1.5s", "5 s", " 5s", "5S", "1m30s", "ms", "99999999h", "５s"] {
        assert!(tool(&format!("retry.retry_after_cap = \"{bad}\"\n{HTTP}")).is_err(), "{bad:?}");
    }
}

#[test]
fn a_size_is_bytes_or_has_a_binary_unit() {
    let size = |written: &str| {
        tool(&format!("output_max = {written}\n{HTTP}"))
            .map(|config| config.tools["order"].spec.output_bytes_max)
    };
    assert_eq!(size("100"), Ok(100));
    assert_eq!(size("\"32KiB\""), Ok(32_768));
    assert_eq!(size("\"1MiB\""), Ok(1 << 20));
    for bad in ["0", "-1", "1.5", "\"32\"", "\"32kB\"", "\"32KB\"", "\"0KiB\"", "\"9999MiB\"", "2147483648"] {
        assert!(size(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_length_and_a_size_are_shown_in_the_largest_unit_that_is_exact() {
    let length = |ms| unit::Length(Duration::from_millis(ms)).to_string();
    assert_eq!([1500, 5000, 120_000, 3_600_000, 5_400_000].map(length), ["1500ms", "5s", "2m", "1h", "90m"]);
    let size = |bytes| unit::Size(bytes).to_string();
    assert_eq!([100, 32_768, 1 << 20].map(size), ["100", "32KiB", "1MiB"]);
}

#[test]
fn a_timeout_must_fit_into_the_deadline_but_a_default_gives_way() {
    check(
        tool(&format!("timeout = \"30s\"\ndeadline = \"20s\"\n{HTTP}")),
        expect![[r#"
        tools.order.timeout: expected at most the deadline, "20s", found "30s"
    "#]],
    );
    check(
        tool(&format!("timeout = \"90s\"\n{HTTP}")),
        expect![[r#"
        tools.order.timeout: expected at most the default deadline, "1m", found "90s"
    "#]],
    );
    let config = tool(&format!("deadline = \"5s\"\n{HTTP}")).expect("it is right");
    assert_eq!(config.tools["order"].spec.resilience.attempt_timeout, Duration::from_secs(5));
}

#[test]
fn a_start_above_its_cap_is_refused() {
    check(
        tool(&format!("retry.base = \"30s\"\nbreaker.open_cap = \"1s\"\n{HTTP}")),
        expect![[r#"
        tools.order.retry.base: expected at most `cap`, "20s", found "30s"
        tools.order.breaker.open_cap: expected at least `open_for`, "5s", found "1s"
    "#]],
    );
}

#[test]
fn a_silence_longer_than_the_timeout_is_never_noticed_and_refused() {
    let text = SMALLEST.replace("[agents", "timeout = \"20s\"\nidle_timeout = \"25s\"\n[agents");
    check(
        read(&text),
        expect![[r#"
        model.idle_timeout: expected at most the timeout, "20s", found "25s"
    "#]],
    );
}

#[test]
fn reasoning_is_kept_by_one_api_only() {
    let with =
        |keys: &str| read(&SMALLEST.replace("[agents", &format!("{keys}\nkeep_reasoning = true\n[agents")));
    check(
        with("api = \"chat\""),
        expect![[r#"
            model.keep_reasoning: expected false with the API "chat", found true; set api = "responses"
        "#]],
    );
    let config = with("api = \"responses\"\nprofile = \"mistral\"").unwrap();
    let ClientConfig::OpenAi { api, profile, .. } = &config.models["default"].client else { panic!() };
    assert_eq!(*api, Api::Responses { keep_reasoning: true });
    assert_eq!(*profile, Some(Profile::mistral()));
}

#[test]
fn a_tool_does_exactly_one_thing() {
    check(
        tool(""),
        expect![[r#"
        tools.order: expected a table [http] or [command], which says what the tool does, found neither
    "#]],
    );
    check(
        tool(&format!("{HTTP}command.argv = [\"df\"]\n")),
        expect![[r#"
        tools.order: expected one of the tables [http] and [command], found both
    "#]],
    );
}

#[test]
fn references_are_to_what_there_is() {
    let text = r#"
[models.cheap]
provider = "openai"
name = "m"
[agents.a]
instructions = ""
model = "cheep"
tools = ["order"]
[agents.b]
instructions = ""
"#;
    check(
        read(text),
        expect![[r#"
        agents.a.model: expected the name of a model in this file, found "cheep"; did you mean "cheap"?
        agents.a.tools[0]: expected the name of a tool in this file, found "order"; there is none in this file
        agents.b.model: missing; expected the name of a model, because there is no [model] for all agents
    "#]],
    );
}

#[test]
fn a_fallback_is_there_leads_nowhere_back_and_is_a_tool_of_the_agent() {
    let tool = |name: &str, more: &str| {
        format!("[tools.{name}]\ndescription = \"x\"\n{more}\nhttp = {{ url = \"https://example.com\" }}\n")
    };
    let tools = [
        tool("a", "fallback = \"b\""),
        tool("b", "fallback = \"a\""),
        tool("c", "fallback = \"d\""),
        tool("d", ""),
        tool("e", "fallback = \"dd\""),
    ];
    let text = format!(
        "[model]\nprovider = \"openai\"\nname = \"m\"\nfallback = \"other\"\n\
         [models.other]\nprovider = \"openai\"\nname = \"n\"\nfallback = \"default\"\nfallback_on = [\"sometimes\"]\n\
         [agents.x]\ninstructions = \"x\"\ntools = [\"c\"]\n\
         [resilience]\nrevive_after = \"1h\"\n{}",
        tools.concat()
    );
    check(
        read(&text),
        expect![[r#"
        model.fallback: expected a model whose own fallbacks do not lead back to "default", found "other"
        models.other.fallback: expected a model whose own fallbacks do not lead back to "other", found "default"
        models.other.fallback_on[0]: expected "transient", "terminal", "harness", "defect" or "model_mistake", found "sometimes"
        agents.x.tools[0]: expected beside it "d", the fallback of "c", found "c"
        resilience.revive_after: expected at most `revive_cap`, "10m", found "1h"
        tools.a.fallback: expected a tool whose own fallbacks do not lead back to "a", found "b"
        tools.b.fallback: expected a tool whose own fallbacks do not lead back to "b", found "a"
        tools.e.fallback: expected the name of a tool in this file, found "dd"; there is a, b, c, d, e
    "#]],
    );
}

#[test]
fn what_all_share_and_who_stands_in_for_whom_arrives() {
    let more = "[resilience]\nbudget_capacity = 2.5\nbudget_per_success = 0.5\nbudget_refill_every = \"2s\"\n\
                revive_after = \"5s\"\nrevive_cap = \"1m\"\n\
                [models.spare]\nprovider = \"openai\"\nname = \"n\"\nfallback = \"default\"\n";
    let config = smallest_with(more).expect("it is right");
    let ResilienceConfig { budget, revival } = config.resilience;
    assert_eq!(
        budget,
        BudgetPolicy { capacity_milli: 2500, per_success_milli: 500, refill_every: Duration::from_secs(2) }
    );
    assert_eq!((revival.after.as_secs(), revival.cap.as_secs()), (5, 60));
    let usual = vec![Bucket::Transient, Bucket::Terminal, Bucket::Harness];
    assert_eq!(config.models["spare"].fallback, Some(("default".into(), usual)));
    assert_eq!(config.models["default"].fallback, None);
}

#[test]
fn a_tool_with_a_mistake_is_still_known_to_its_agents() {
    let text = SMALLEST.to_owned() + "tools = [\"order\"]\n[tools.order]\ntimeout = 5\n";
    check(
        read(&text),
        expect![[r#"
            tools.order.description: missing; expected a sentence that says what the tool does
            tools.order: expected a table [http] or [command], which says what the tool does, found neither
            tools.order.timeout: expected a length of time like "5s", found 5
        "#]],
    );
}

#[test]
fn names_are_such_that_every_provider_takes_them() {
    let text = format!(
        "[tools.\"orders/look.up\"]\ndescription = \" \"\n{HTTP}[tools.{}]\ndescription = \"x\"\n{HTTP}[models.default]\nprovider = \"openai\"\nname = \"m\"\n",
        "x".repeat(65)
    );
    check(
        smallest_with(&text),
        expect![[r#"
        tools."orders/look.up": expected a name of 1 to 64 of a-z, A-Z, 0-9, `_` and `-`, found "orders/look.up"
        tools."orders/look.up".description: expected a sentence that says what the tool does, found " "
        tools.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: expected a name of 1 to 64 of a-z, A-Z, 0-9, `_` and `-`, found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        models.default: expected another name, for [model] is already called "default", found "default"
    "#]],
    );
}

#[test]
fn a_schema_must_be_an_object_and_json_schema() {
    check(
        tool(&format!("parameters = {{ type = \"string\" }}\n{HTTP}")),
        expect![[r#"
        tools.order.parameters: expected a schema whose root is `type = "object"`, found "string"
    "#]],
    );
    check(
        tool(&format!("parameters = {{ anyOf = [{{ type = \"object\" }}] }}\n{HTTP}")),
        expect![[r#"
        tools.order.parameters: expected a schema whose root is `type = "object"`, found no type
        tools.order.parameters.anyOf: providers refuse this at the root of a tool's schema; describe one object
    "#]],
    );
    let lines =
        "parameters = { type = \"object\", required = \"id\", properties = { id = { type = \"text\" } } }\n";
    check(
        tool(&format!("{lines}{HTTP}")),
        expect![[r#"
        tools.order.parameters.required: not JSON Schema: "id" is not of type "array"
        tools.order.parameters.properties.id.type: expected one of "string", "number", "integer", "boolean", "object", "array", "null" or a list of them, found "text"
    "#]],
    );
    let lines = "parameters = { type = \"object\", properties = { id = { \"$ref\" = \"https://evil.example/s\" } } }\n";
    check(
        tool(&format!("{lines}{HTTP}")),
        expect![[r##"
        tools.order.parameters: a `$ref` must point into the same schema, like "#/$defs/NAME"
    "##]],
    );
    let lines = "parameters = { type = \"object\", properties = { id = { pattern = \"(\" } } }\n";
    check(
        tool(&format!("{lines}{HTTP}")),
        expect![[r#"
        tools.order.parameters.properties.id.pattern: not JSON Schema: "(" is not a "regex"
    "#]],
    );
}

#[test]
fn a_limit_in_usd_needs_a_price() {
    check(
        smallest_with("limits.usd = 0.5\n"),
        expect![[r#"
        agents.support.limits.usd: expected `price` on model "default", without which this limit is never reached, found none; a free model has a price of 0.0
    "#]],
    );
    let free = SMALLEST
        .replace("[agents", "price = { input_usd_per_million = 0, output_usd_per_million = 0 }\n[agents");
    assert!(read(&format!("{free}limits.usd = 0.5\n")).is_ok());
}

#[test]
fn a_limit_in_usd_needs_the_price_of_every_fallback() {
    let text = "[model]\nprovider = \"openai\"\nname = \"m\"\nfallback = \"spare\"\n\
                price = { input_usd_per_million = 1, output_usd_per_million = 2, cached_input_usd_per_million = 0.1 }\n\
                [models.spare]\nprovider = \"openai\"\nname = \"n\"\n\
                [agents.a]\ninstructions = \"\"\nlimits.usd = 0.5\n";
    check(
        read(text),
        expect![[r#"
        agents.a.limits.usd: expected `price` on model "spare", without which this limit is never reached, found none; a free model has a price of 0.0
    "#]],
    );
    let config = read(&text.replace("limits.usd = 0.5\n", "")).unwrap();
    assert_eq!(config.models[DEFAULT_MODEL].spec.price.cached_input_per_million.unwrap().0, 100_000);
}

#[test]
fn a_limit_or_a_price_that_is_no_amount_is_refused_with_its_value() {
    let priced = |input: &str| {
        let price =
            format!("price = {{ input_usd_per_million = {input}, output_usd_per_million = 2 }}\n[agents");
        SMALLEST.replace("[agents", &price)
    };
    let limits = [
        "turns = 'abc'",
        "turns = 99999999999",
        "turns = 1.5",
        "tokens = 1e30",
        "usd = nan",
        "usd = inf",
        "usd = -0.5",
        "usd = 1e300",
        "tool_calls = 'unlimited'",
        "tool_calls = 4294967296",
        "wall_clock = '99999999h'",
    ];
    let limits = limits.iter().map(|limit| format!("{}limits = {{ {limit} }}\n", priced("1")));
    let prices = ["nan", "inf", "-1", "'free'", "1e300"].map(priced);
    let refused = limits.chain(prices).map(|text| match read(&text) {
        Ok(_) => format!("taken: {text}\n"),
        Err(report) => report.mistakes().iter().map(|mistake| format!("{mistake}\n")).collect(),
    });
    let refused: String = refused.collect();
    expect![[r#"
        agents.support.limits.turns: expected a whole number of 1 or more, found "abc"
        agents.support.limits.turns: expected a whole number of 1 or more, and at most 4294967295, found 99999999999
        agents.support.limits.turns: expected a whole number of 1 or more, found 1.5
        agents.support.limits.tokens: expected a whole number from 1 to 1000000000000000, found 1e+30
        agents.support.limits.usd: expected a finite number, found nan
        agents.support.limits.usd: expected a finite number, found inf
        agents.support.limits.usd: expected a number above 0 and up to 1000000000, found -0.5
        agents.support.limits.usd: expected a number above 0 and up to 1000000000, found 1e+300
        agents.support.limits.tool_calls: expected a whole number of 0 or more, found "unlimited"
        agents.support.limits.tool_calls: expected a whole number of 0 or more, and at most 4294967295, found 4294967296
        agents.support.limits.wall_clock: expected a length of time like "5s", found "99999999h"; write a whole number above zero, at most 7 digits, and ms, s, m, h or d
        model.price.input_usd_per_million: expected a finite number, found nan
        model.price.input_usd_per_million: expected a finite number, found inf
        model.price.input_usd_per_million: expected a number from 0 to 1000000000, found -1
        model.price.input_usd_per_million: expected a number from 0 to 1000000000, found "free"
        model.price.input_usd_per_million: expected a number from 0 to 1000000000, found 1e+300
    "#]].assert_eq(&refused);
}

#[test]
fn nothing_is_unlimited_or_negative() {
    let text =
        SMALLEST.replace("[agents", "price = { input_usd_per_million = -1 }\nconcurrency = 0\n[agents");
    check(
        read(&format!(
            "{text}limits = {{ turns = 0, tokens = 0, usd = 0, wall_clock = \"0s\", tool_calls = -1 }}\n"
        )),
        expect![[r#"
            model.price.output_usd_per_million: missing; expected a number from 0 to 1000000000
            model.price.input_usd_per_million: expected a number from 0 to 1000000000, found -1
            model.concurrency: expected a whole number of 1 or more, found 0
            agents.support.limits.turns: expected a whole number of 1 or more, found 0
            agents.support.limits.tokens: expected a whole number from 1 to 1000000000000000, found 0
            agents.support.limits.usd: expected a number above 0 and up to 1000000000, found 0
            agents.support.limits.wall_clock: expected a length of time like "5s", found "0s"; write a whole number above zero, at most 7 digits, and ms, s, m, h or d
            agents.support.limits.tool_calls: expected a whole number of 0 or more, found -1
        "#]],
    );
}

#[test]
fn a_key_in_the_file_is_refused_and_never_shown() {
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!(
        r#"
[model]
provider = "openai"
name = "m"
api_key = "{secret}"
[models.a]
provider = "openai"
name = "m"
api_key_env = "{secret}"
[models.b]
provider = "openai"
name = "{secret}"
base_url = "https://user:{secret}@api.example.com"
[agents.support]
instructions = "The key is {secret}."
[tools.order]
description = "x"
timeout = "{secret}"
[tools.order.http]
url = "https://x.example"
headers = {{ Authorization = "Bearer {secret}", X-Api-Key = "plain words", X-Ok = "Bearer ${{TOKEN}}" }}
"#
    );
    let report = read(&text).expect_err("secrets").to_string();
    assert!(!report.contains("abcdefghijklm"), "{report}");
    expect![[r#"
        dauntless.toml:5:1: model.api_key: unknown key; put the key into an environment variable and name that with `api_key_env`
          5 | api_key = **********************************************
            | ^^^^^^^
        dauntless.toml:9:15: models.a.api_key_env: expected the name of an environment variable like "OPENAI_API_KEY", found a text that is not shown here; capitals, digits and `_`; the key itself belongs in that variable, not in this file
          9 | api_key_env = **********************************************
            |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:12:8: models.b.name: expected no secret in this file, found what looks like one; take it out; a model's key is in the variable that `api_key_env` names
          12 | name = "********************************************"
             |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:13:12: models.b.base_url: expected an address like "http://127.0.0.1:4318", found what looks like a secret; it begins with http:// or https:// and names a host
          13 | base_url = "https*****************************************************api.example.com"
             |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:15:16: agents.support.instructions: expected no secret in this file, found what looks like one; take it out; a model's key is in the variable that `api_key_env` names
          15 | instructions = "The key is ********************************************."
             |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:18:11: tools.order.timeout: expected a length of time like "5s", found what looks like a secret; write a whole number above zero, at most 7 digits, and ms, s, m, h or d
          18 | timeout = "********************************************"
             |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:21:29: tools.order.http.headers.Authorization: expected no secret in this file, found what looks like one; put it into an environment variable and write `${NAME}` in its place
          21 | headers = { Authorization = ******* ********************************************** ********* * *****
             |                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:21:96: tools.order.http.headers.X-Api-Key: expected no secret in this file, found what looks like one; put it into an environment variable and write `${NAME}` in its place
          21 | ************************************* ********* * ****** ******* **** * ******* ********* *
             |                                                   ^^^^^^^^^^^^^
        dauntless.toml: 8 mistakes
    "#]].assert_eq(&format!("{report}\n"));
}

#[test]
fn a_secret_is_not_shown_where_the_text_is_not_even_toml() {
    let report = read("api_key = hunter2hunter2\npassword = 'abc\n").expect_err("mistakes").to_string();
    assert!(!report.contains("hunter2") && !report.contains("abc"), "{report}");
}

#[test]
fn a_pattern_to_mask_must_compile_and_leave_something_unmasked() {
    check(
        smallest_with("[redact]\npatterns = [\"ORD-[0-9]+\", \"(\", \"x*\"]\n"),
        expect![[r#"
        redact.patterns[1]: expected a regular expression, found "("; unclosed group
        redact.patterns[2]: expected a pattern that does not match the empty text, found "x*"
    "#]],
    );
}

/// The smallest file with two tools and these lines about chaos.
fn chaos(lines: &str) -> Result<Config, Report> {
    let refund = "[tools.refund]\ndescription = \"Refund one order.\"\n";
    tool(&format!("{HTTP}{refund}{}{lines}", HTTP.replace("orders", "refunds")))
}

#[test]
fn chaos_does_nothing_until_it_is_enabled_or_switched_on() {
    let mut config = chaos("[chaos]\nrate = 1\nseed = 7\n").expect("it is right").chaos;
    assert_eq!((config.enabled, config.plan("order")), (false, None));
    config.switch_on(ChaosSwitch::default());
    assert_eq!((config.seed, config.plan("order").map(|plan| plan.rate)), (7, Some(1.0)));
    config.switch_on(ChaosSwitch { rate: Some(0.5), seed: Some(9) });
    assert_eq!((config.seed, config.plan("order").map(|plan| plan.rate)), (9, Some(0.5)));
    let enabled = chaos("[chaos]\nenabled = true\n").expect("it is right").chaos;
    assert_eq!(enabled.plan("order"), Some(dauntless_tools::ChaosPlan::default()));
    let mut absent = chaos("").expect("it is right").chaos;
    absent.switch_on(ChaosSwitch::default());
    assert_eq!(absent, enabled);
}

#[test]
fn what_a_tool_says_of_its_own_chaos_goes_before_what_is_said_for_all() {
    let lines = "[chaos]\nrate = 0.1\nkinds = [\"panic\"]\nlatency = [\"0ms\", \"1s\"]\nafter_effect_ratio = 0\n\
                 [chaos.tools.order]\nrate = 0.4\nkinds = [\"hang\", \"not_found\"]\nlatency = [\"0s\", \"0s\"]\nafter_effect_ratio = 1\n\
                 [chaos.tools.refund]\nrate = 0\nlatency = [\"0ms\", \"0ms\"]\n";
    let mut config = chaos(lines).expect("it is right").chaos;
    config.switch_on(ChaosSwitch { rate: Some(0.9), seed: None });
    expect![[r#"
        Some(
            ChaosPlan {
                rate: 0.4,
                kinds: [
                    Hang,
                    Failure(
                        NotFound,
                    ),
                ],
                latency: 0ns..=0ns,
                after_effect_ratio: 1.0,
            },
        )
    "#]]
    .assert_eq(&format!("{:#?}\n", config.plan("order")));
    assert_eq!(config.plan("refund"), None, "0 leaves the tool alone, whatever is said for all");
    let other = config.plan("other").expect("as for all");
    assert_eq!((other.rate, *other.latency.end()), (0.9, Duration::from_secs(1)));
}

#[test]
fn chaos_that_cannot_be_meant_is_refused() {
    let lines = r#"
        [chaos]
        rate = 30
        seed = -1
        kinds = ["unavailible", "tool_down", "crash"]
        latency = ["2s", "1s"]
        after_effect_ratio = 1.5
        hang = true
        [chaos.tools.ordr]
        rate = 0.5
        [chaos.tools.shipping]
        [chaos.tools.order]
        latency = ["5", "1s"]
        [chaos.tools.refund]
        latency = ["1s"]
    "#;
    check(
        chaos(lines),
        expect![[r#"
            chaos.rate: expected a number from 0 to 1, found 30
            chaos.seed: expected a whole number of 0 or more, found -1
            chaos.kinds[0]: expected "rate_limited", "unavailable", "timeout", "connection_failed", "unauthenticated", "permission_denied", "quota_exhausted", "gone", "not_found", "no_results", "ambiguous", "conflict", "tool_error", "partial", "invalid_arguments", "too_large", "outcome_unknown", "panic" or "hang", found "unavailible"; did you mean "unavailable"?
            chaos.kinds[1]: expected "rate_limited", "unavailable", "timeout", "connection_failed", "unauthenticated", "permission_denied", "quota_exhausted", "gone", "not_found", "no_results", "ambiguous", "conflict", "tool_error", "partial", "invalid_arguments", "too_large", "outcome_unknown", "panic" or "hang", found "tool_down"
            chaos.kinds[2]: expected "rate_limited", "unavailable", "timeout", "connection_failed", "unauthenticated", "permission_denied", "quota_exhausted", "gone", "not_found", "no_results", "ambiguous", "conflict", "tool_error", "partial", "invalid_arguments", "too_large", "outcome_unknown", "panic" or "hang", found "crash"
            chaos.latency: expected the shorter length first, found "2s" before "1s"
            chaos.after_effect_ratio: expected a number from 0 to 1, found 1.5
            chaos.hang: unknown key; known here: after_effect_ratio, enabled, kinds, latency, rate, seed, tools
            chaos.tools.ordr: expected the name of a tool in this file, found "ordr"; did you mean "order"?
            chaos.tools.shipping: expected the name of a tool in this file, found "shipping"; there is order, refund
            chaos.tools.order.latency[0]: expected a length of time like "500ms", or "0ms", found "5"; write a whole number, at most 7 digits, and ms, s, m, h or d
            chaos.tools.refund.latency: expected two lengths of time like ["0ms", "500ms"], found a list
        "#]],
    );
}

#[test]
fn an_address_is_http_with_a_host() {
    check(
        smallest_with("[telemetry]\notlp_endpoint = \"127.0.0.1:4318\"\n"),
        expect![[r#"
        telemetry.otlp_endpoint: expected an address like "http://127.0.0.1:4318", found "127.0.0.1:4318"; it begins with http:// or https:// and names a host
    "#]],
    );
}

#[test]
fn files_are_looked_for_beside_the_configuration() {
    let dir = Scratch::new("files");
    dir.write("support.md", "Be kind.");
    dir.write("order.json", r#"{ "type": "object", "properties": { "id": { "type": "string" } } }"#);
    dir.write("replies.toml", "");
    let text = format!(
        "[model]\nprovider = \"scripted\"\nscript = \"replies.toml\"\n[agents.a]\ninstructions_file = \"support.md\"\n\
         [tools.order]\ndescription = \"x\"\nparameters_file = \"order.json\"\n{HTTP}"
    );
    dir.write("dauntless.toml", &text);
    let config = load(&dir.0.join("dauntless.toml")).expect("it is right");
    assert_eq!(&*config.agents["a"].spec.instructions, "Be kind.");
    assert_eq!(config.tools["order"].spec.parameters["properties"]["id"]["type"], "string");
    let ClientConfig::Scripted { script } = &config.models[DEFAULT_MODEL].client else { panic!("scripted") };
    assert_eq!(script, &dir.0.join("replies.toml"));
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let dir = Scratch::new("wrong-files");
    dir.write("broken.json", "{ \"type\": ");
    dir.write("wrong.json", r#"{ "type": "object", "properties": { "id": { "type": "text" } } }"#);
    let text = format!(
        "[model]\nprovider = \"scripted\"\nscript = \"no.toml\"\n[models.b]\nprovider = \"scripted\"\n\
         [agents.a]\ninstructions_file = \"no.md\"\n[agents.b]\ninstructions = \"\"\ninstructions_file = \"no.md\"\n[agents.c]\n\
         [tools.order]\ndescription = \"x\"\nparameters_file = \"broken.json\"\n{HTTP}\
         [tools.refund]\ndescription = \"x\"\nparameters_file = \"wrong.json\"\n{HTTP}\
         [tools.both]\ndescription = \"x\"\nparameters_file = \"wrong.json\"\nparameters = {{}}\n{HTTP}"
    );
    let report = parse(&text, "dauntless.toml", &dir.0).expect_err("mistakes");
    let lines: String = report.mistakes().iter().map(|mistake| format!("{mistake}\n")).collect();
    expect![[r#"
        model.script: expected a file that exists, found "no.toml"
        models.b.script: missing; expected the file with the replies
        agents.a.instructions_file: cannot read DIR/no.md: No such file or directory (os error 2)
        agents.b.instructions_file: expected one of instructions and instructions_file, found both
        agents.c.instructions: missing; expected what the agent is told about its role, or instructions_file
        tools.order.parameters_file: the file is not JSON: EOF while parsing a value at line 1 column 10
        tools.refund.parameters_file: /properties/id/type: expected one of "string", "number", "integer", "boolean", "object", "array", "null" or a list of them, found "text"
        tools.both.parameters_file: expected one of parameters and parameters_file, found both
    "#]].assert_eq(&lines.replace(&dir.0.display().to_string(), "DIR"));
}

#[test]
fn a_very_long_line_is_shown_around_the_mistake() {
    let text = format!("{SMALLEST}limits = {{ wall_clock = {:200}5, turns = {:200}0 }}\n", "", "");
    expect![[r#"
        dauntless.toml:8:225: agents.support.limits.wall_clock: expected a length of time like "5s", found 5
          8 |                                                   5, turns =                                        
            |                                                   ^
        dauntless.toml:8:436: agents.support.limits.turns: expected a whole number of 1 or more, found 0
          8 |                                                   0 }
            |                                                   ^
        dauntless.toml: 2 mistakes
    "#]].assert_eq(&format!("{}\n", read(&text).expect_err("mistakes")));
}

#[test]
fn every_pattern_compiles() {
    assert!(!secret::is_in("an order") && !secret::is_named_by("description"));
    assert!(secret::is_named_by("X-Api-Key") && secret::is_named_by("db_password"));
    assert!(!secret::is_named_by("max_output_tokens") && !secret::is_named_by("keyed"));
    for words in ["task-management-for-customers", "risk_assessment_of_customers", "basic characterization"] {
        assert!(!secret::is_in(words), "{words}");
    }
    assert_eq!(secret::mask("a = 1 # sk-abcdefghijklmnopqrst"), "a = 1 # ***********************");
    assert_eq!(secret::mask("api_key = \"x y\""), "api_key = ** **");
}

#[test]
fn a_schema_nested_without_end_is_refused_and_does_not_overflow() {
    let deep = "{ a = ".repeat(5000) + "1" + &" }".repeat(5000);
    assert!(tool(&format!("parameters = {deep}\n{HTTP}")).is_err());
    let dir = Scratch::new("deep");
    dir.write("deep.json", &("{\"items\":".repeat(5000) + "1" + &"}".repeat(5000)));
    let text =
        format!("{SMALLEST}[tools.order]\ndescription = \"x\"\nparameters_file = \"deep.json\"\n{HTTP}");
    assert!(parse(&text, "dauntless.toml", &dir.0).is_err());
}

#[test]
fn what_an_adapter_refuses_joins_the_report() {
    let dir = Scratch::new("refused");
    let text = format!(
        "{SMALLEST}[tools.order]\ndescription = \"x\"\n[tools.order.http]\nurl = \"https://x.example/{{id}}\"\n\
         headers = {{ Authorization = \"Bearer ${{TOKEN}}\" }}\n"
    );
    dir.write("dauntless.toml", &text);
    let mut refuses = |tool: &ToolConfig| match &tool.action {
        ToolAction::Http(http) => {
            dauntless_tools::HttpTool::build(tool.spec.clone(), http.clone(), &|_| None)
                .err()
                .unwrap_or_default()
        }
        ToolAction::Command(_) => Vec::new(),
    };
    let path = dir.0.join("dauntless.toml");
    assert!(load(&path).is_ok());
    let report = load_with(&path, &mut refuses).expect_err("mistakes").to_string();
    expect![[r#"
        DIR/dauntless.toml:11:7: tools.order.http.url: there is no parameter `id`: the schema lists none under `properties`. (A brace that is meant as such is written twice.)
          11 | url = "https://x.example/{id}"
             |       ^^^^^^^^^^^^^^^^^^^^^^^^
        DIR/dauntless.toml:12:29: tools.order.http.headers.Authorization: the environment variable `TOKEN` is not set
          12 | headers = { Authorization = ******* ********* *
             |                             ^^^^^^^^^^^^^^^^^
        DIR/dauntless.toml: 2 mistakes
    "#]].assert_eq(&(report.replace(&dir.0.display().to_string(), "DIR") + "\n"));
}

#[test]
fn what_only_the_adapters_type_refuses_names_its_table() {
    check(
        tool("command = { argv = [\"df\"], stop_grace = \"soon\" }\n"),
        expect![[r#"
        tools.order.command: `soon` is no length of time: write "500ms", "5s" or "2m"
    "#]],
    );
}

#[test]
fn every_loaded_tool_passes_the_contracts_own_check() {
    let config = read(EXAMPLE).expect("the example is right");
    for tool in config.tools.values() {
        assert_eq!(tool.spec.check(), Ok(()));
    }
}

#[test]
fn the_schema_in_the_repository_is_the_one_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/dauntless.schema.json");
    let schema = serde_json::to_string_pretty(&schema()).expect("a schema is JSON") + "\n";
    // UPDATE_EXPECT=1 writes the file anew.
    expect_file![path].assert_eq(&schema);
}

#[test]
fn the_schema_is_json_schema_and_never_speaks_of_null() {
    let schema = schema();
    assert!(jsonschema::meta::is_valid(&schema));
    assert!(!schema.to_string().contains("null"), "TOML has no null");
}

#[test]
fn each_default_that_the_example_states_is_the_real_one() {
    let stated: String = EXAMPLE.lines().map(|line| format!("{}\n", uncommented(line, "#"))).collect();
    let written = read(&stated).expect("the example with its defaults is right");
    let silent = read(EXAMPLE).expect("the example is right");
    assert_eq!(format!("{written:#?}"), format!("{silent:#?}"));
}

#[test]
fn every_key_of_the_schema_is_in_the_example() {
    let all: String =
        EXAMPLE.lines().map(|line| format!("{}\n", uncommented(uncommented(line, "#e.g. "), "#"))).collect();
    let dir = Scratch::new("example");
    dir.write("translator.md", "Keep the tone.");
    dir.write("translation.schema.json", r#"{ "type": "object" }"#);
    dir.write("text.schema.json", r#"{ "type": "object" }"#);
    dir.write("disk.schema.json", r#"{ "type": "object" }"#);
    dir.write("ca.pem", "");
    parse(&all, "dauntless.example.toml", &dir.0).unwrap_or_else(|report| panic!("{report}"));
    let written = toml::from_str::<Value>(&all).expect("it was read before");
    let schema = schema();
    let (mut known, mut used) = (BTreeSet::new(), BTreeSet::new());
    let tables = schema["$defs"].as_object().expect("it has definitions");
    for (table, node) in tables.iter().map(|(name, node)| (name.as_str(), node)).chain([("", &schema)]) {
        known
            .extend(node["properties"].as_object().into_iter().flatten().map(|(key, _)| name_of(table, key)));
    }
    keys_of(&schema, "", &schema, &written, &mut used);
    let missing: Vec<_> = known.difference(&used).collect();
    assert!(missing.is_empty(), "not in the example: {missing:#?}");
}

/// A line with its mark taken away, if it is a key or a table behind that mark.
fn uncommented<'l>(line: &'l str, mark: &str) -> &'l str {
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_toml = |rest: &&str| {
        rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| key.chars().all(is_key))
    };
    line.strip_prefix(mark).filter(is_toml).unwrap_or(line)
}

/// A key under the name of its table's type. A plan has the keys of its outermost part.
fn name_of(table: &str, key: &str) -> String {
    match (table, key) {
        ("PlanFile", key) if key != "limits" => format!("PartFile.{key}"),
        (table, key) => format!("{table}.{key}"),
    }
}

/// The keys of a document, each under the name of its table's type.
fn keys_of(schema: &Value, table: &str, node: &Value, value: &Value, keys: &mut BTreeSet<String>) {
    if let Some(table) = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return keys_of(schema, table, &schema["$defs"][table], value, keys);
    }
    for value in value.as_array().into_iter().flatten() {
        keys_of(schema, "", &node["items"], value, keys);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let named = &node["properties"][key];
        if !named.is_null() {
            keys.insert(name_of(table, key));
        }
        keys_of(schema, "", if named.is_null() { &node["additionalProperties"] } else { named }, value, keys);
    }
}

/// A directory that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("dauntless-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn journal(lines: &str) -> Result<Config, Report> {
    read(&format!("{lines}\n{SMALLEST}"))
}

#[test]
fn without_a_word_the_journal_is_the_users_own() {
    let config = smallest_with("").unwrap();
    let expected = JournalConfig {
        store: StoreConfig::PerUser,
        root_certificates: None,
        keep: Duration::from_secs(30 * 24 * 3600),
        on_config_change: OnConfigChange::Pin,
    };
    assert_eq!(config.journal, expected);
    assert_eq!((config.worker.capacity, config.worker.name), (256, None));
}

#[test]
fn one_line_says_where_the_journal_is() {
    let store = |lines| journal(lines).unwrap().journal.store;
    let file = |path: &str| StoreConfig::At(StoreAddress::Sqlite(path.into()));
    assert_eq!(store("journal = \"sqlite:runs/j.db\""), file("/nonexistent/runs/j.db"));
    assert_eq!(store("journal = \"sqlite:/var/j.db\""), file("/var/j.db"));
    assert_eq!(store("journal = \"sqlite:///var/j.db\""), file("/var/j.db"));
    let server = StoreAddress::Postgres("postgres://ann@db/runs?sslmode=require".to_owned());
    assert_eq!(
        store("journal = \"postgres://ann@db/runs?sslmode=require\""),
        StoreConfig::At(server.clone())
    );
    assert_eq!(server.to_string(), "postgres://db/runs");
}

#[test]
fn a_variable_goes_before_the_address_beside_it() {
    let more =
        "[journal]\nurl = \"sqlite:j.db\"\nurl_env = \"JOURNAL\"\nkeep = \"90d\"\non_config_change = \"ask\"";
    let JournalConfig { store, keep, on_config_change, .. } = smallest_with(more).unwrap().journal;
    let otherwise = Some(StoreAddress::Sqlite("/nonexistent/j.db".into()));
    assert_eq!(store, StoreConfig::Variable { name: "JOURNAL".to_owned(), otherwise });
    assert_eq!((keep.as_secs(), on_config_change), (90 * 86_400, OnConfigChange::Ask));
}

#[test]
fn what_is_wrong_with_a_journal_is_said_at_its_place() {
    let text = |lines: &str| journal(lines).expect_err("it is wrong").to_string();
    let all: String = [
        "journal = \"mysql://db/runs\"",
        "journal = 5",
        "journal = \"sqlite::memory:\"",
        "journal = \"postgres://ann:hunter22@db/runs\"",
        "journal = \"postgres://db/runs?user=ann&password=hunter22\"",
        "journal = { url = \"redis://db\", kept = \"1d\" }",
        "journal = { url = \"sqlite:j.db\", root_certificates = \"ca.pem\" }",
        "journal = { url_env = \"postgres://db\" }",
        "journal.on_config_change = \"pine\"",
        "worker = { ttl = \"10ms\", capacity = 0, name = \" \" }",
    ]
    .map(|lines| text(lines) + "\n")
    .concat();
    assert!(!all.contains("hunter22"));
    expect![[r#"
        dauntless.toml:1:11: journal: expected an address like "sqlite:journal.db" or "postgres://host/database", found "mysql://db/runs"; there are two kinds: sqlite:PATH and postgres://HOST/DATABASE
          1 | journal = "mysql://db/runs"
            |           ^^^^^^^^^^^^^^^^^
        dauntless.toml:1:11: journal: expected an address like "sqlite:journal.db" or "postgres://host/database", found 5
          1 | journal = 5
            |           ^
        dauntless.toml:1:11: journal: a journal in memory survives nothing: name a file
          1 | journal = "sqlite::memory:"
            |           ^^^^^^^^^^^^^^^^^
        dauntless.toml:1:11: journal: expected no secret in this file, found what looks like one; write the whole address into an environment variable and name that with `journal.url_env`
          1 | journal = "postgres****************db/runs"
            |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:1:11: journal: expected an address without a password, found one with it; write the whole address into an environment variable and name that with `journal.url_env`
          1 | journal = "postgres://db/runs?user=ann&password=*********
            |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        dauntless.toml:1:19: journal.url: expected an address like "sqlite:journal.db" or "postgres://host/database", found "redis://db"; there are two kinds: sqlite:PATH and postgres://HOST/DATABASE
          1 | journal = { url = "redis://db", kept = "1d" }
            |                   ^^^^^^^^^^^^
        dauntless.toml:1:33: journal.kept: unknown key; known here: keep, on_config_change, root_certificates, url, url_env
          1 | journal = { url = "redis://db", kept = "1d" }
            |                                 ^^^^
        dauntless.toml: 2 mistakes
        dauntless.toml:1:54: journal.root_certificates: it has no effect on a file of this machine: leave it out
          1 | rnal = { url = "sqlite:j.db", root_certificates = "ca.pem" }
            |                                                   ^^^^^^^^
        dauntless.toml:1:23: journal.url_env: expected the name of an environment variable like "OPENAI_API_KEY", found "postgres://db"; capitals, digits and `_`; the key itself belongs in that variable, not in this file
          1 | journal = { url_env = "postgres://db" }
            |                       ^^^^^^^^^^^^^^^
        dauntless.toml:1:28: journal.on_config_change: expected "pin", "adopt" or "ask", found "pine"; did you mean "pin"?
          1 | journal.on_config_change = "pine"
            |                            ^^^^^^
        dauntless.toml:1:18: worker.ttl: expected at least "1s", found "10ms"
          1 | worker = { ttl = "10ms", capacity = 0, name = " " }
            |                  ^^^^^^
        dauntless.toml:1:37: worker.capacity: expected a whole number of 1 or more, found 0
          1 | worker = { ttl = "10ms", capacity = 0, name = " " }
            |                                     ^
        dauntless.toml:1:47: worker.name: expected a name that is not blank, found " "
          1 | worker = { ttl = "10ms", capacity = 0, name = " " }
            |                                               ^^^
        dauntless.toml: 3 mistakes
    "#]].assert_eq(&all);
}
