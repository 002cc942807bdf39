use expect_test::{Expect, expect};
use proc_macro2::TokenStream;

use crate::expand::try_tool;
use crate::length::millis;

/// What the compiler shows: each message behind the source it points at.
fn errors(arguments: &str, item: &str) -> String {
    let parse = |text: &str| text.parse::<TokenStream>().unwrap();
    let (plain, expanded) = try_tool(parse(arguments), parse(item));
    let error = expanded.expect_err("it should not compile");
    assert!(!plain.is_empty(), "editors still see the item");
    let shown = error.into_iter().map(|error| {
        let at = error.span().source_text().unwrap_or_default();
        format!("{at} -> {error}")
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn check_keys(arguments: &[&str], expected: Expect) {
    let shown: Vec<String> =
        arguments.iter().map(|arguments| errors(arguments, "/** Doc. */ async fn order() {}")).collect();
    expected.assert_eq(&shown.join("\n"));
}

fn check_items(items: &[&str], expected: Expect) {
    let shown: Vec<String> = items.iter().map(|item| errors("", item)).collect();
    expected.assert_eq(&shown.join("\n"));
}

#[test]
fn a_key_that_does_not_exist_names_the_nearest() {
    check_keys(
        &["efect = \"once\"", "time_out = \"5s\"", "colour = 1", "a::b = 1"],
        expect![[r#"
            efect -> `#[tool]` has no key `efect`: did you mean `effect`?
            time_out -> `#[tool]` has no key `time_out`: did you mean `timeout`?
            colour -> `#[tool]` has no key `colour`: the keys are `name`, `description`, `effect`, `on_exhausted`, `max_park`, `timeout`, `deadline`, `concurrency`, `waiting`, `attempts`, `fallback`, `verify`, `polling`, `output_bytes_max`
            a::b -> `#[tool]` has no key `a :: b`: the keys are `name`, `description`, `effect`, `on_exhausted`, `max_park`, `timeout`, `deadline`, `concurrency`, `waiting`, `attempts`, `fallback`, `verify`, `polling`, `output_bytes_max`"#]],
    );
}

#[test]
fn a_wrong_value_says_what_the_key_takes() {
    check_keys(
        &[
            "effect = \"readonly\"",
            "effect = \"green\"",
            "effect = read_only",
            "on_exhausted = \"retry\"",
            "concurrency = 0",
            "concurrency = -1",
            "attempts = \"3\"",
            "waiting = 5_000_000_000",
            "output_bytes_max = 1u8",
            "polling",
            "polling = \"yes\"",
            "name(order)",
            "description = \" \"",
            "\"order\"",
        ],
        expect![[r#"
            "readonly" -> `effect` needs one of "read_only", "idempotent", "keyed", "verifiable", "once": did you mean "read_only"?
            "green" -> `effect` needs one of "read_only", "idempotent", "keyed", "verifiable", "once"
            read_only -> `effect` needs one of "read_only", "idempotent", "keyed", "verifiable", "once"
            "retry" -> `on_exhausted` needs one of "end_run", "observe", "park"
            0 -> `concurrency` needs a whole number from 1 to 4294967295, like `concurrency = 8`
            -1 -> `concurrency` needs a whole number from 1 to 4294967295, like `concurrency = 8`
            "3" -> `attempts` needs a whole number from 1 to 4294967295, like `attempts = 8`
            5_000_000_000 -> `waiting` needs a whole number from 0 to 4294967295, like `waiting = 8`
            1u8 -> `output_bytes_max` needs a whole number from 1 to 4294967295, like `output_bytes_max = 8`
            polling -> `polling` needs `polling = true` or `polling = false`
            "yes" -> `polling` needs `polling = true` or `polling = false`
            name(order) -> `name` needs a text that says something, like `name = "…"`
            " " -> `description` needs a text that says something, like `description = "…"`
            "order" -> write keys with their values, like `#[tool(effect = "read_only")]`"#]],
    );
}

#[test]
fn a_length_is_checked() {
    check_keys(
        &[
            "timeout = \"5\"",
            "timeout = \"1.5s\"",
            "deadline = \"0s\"",
            "timeout = 5",
            "timeout = \"2m\", deadline = \"90s\"",
        ],
        expect![[r#"
            "5" -> `5` has no unit: `timeout` needs a length like `timeout = "5s"`, in whole `ms`, `s`, `m` or `h`, and not zero
            "1.5s" -> `1.5s` is no whole number with a unit: `timeout` needs a length like `timeout = "5s"`, in whole `ms`, `s`, `m` or `h`, and not zero
            "0s" -> `0s` lets no call through: `deadline` needs a length like `deadline = "5s"`, in whole `ms`, `s`, `m` or `h`, and not zero
            5 -> `timeout` needs a length like `timeout = "5s"`, in whole `ms`, `s`, `m` or `h`, and not zero
            "2m" -> one attempt may take 2m, but the whole call only 90s: make `deadline` at least as long"#]],
    );
}

#[test]
fn lengths_are_read_in_their_unit() {
    let texts = ["250ms", "5s", "2m", "1h", "", "s", "5 s", "5sec", "-5s", "0h", "9999999999999999h"];
    let read = texts.map(|text| millis(text).map_or_else(|problem| problem, |ms| ms.to_string()));
    expect![[r#"
        250
        5000
        120000
        3600000
        `` has no unit
        `s` is no whole number with a unit
        `5 s` is no whole number with a unit
        `5sec` is no whole number with a unit
        `-5s` is no whole number with a unit
        `0h` lets no call through
        `9999999999999999h` is too long"#]]
    .assert_eq(&read.join("\n"));
}

#[test]
fn a_key_given_twice_is_refused() {
    check_keys(
        &["timeout = \"5s\", effect = \"once\", timeout = \"6s\""],
        expect!["timeout -> `timeout` is given twice: keep one"],
    );
}

#[test]
fn a_name_that_no_provider_takes_is_refused() {
    check_keys(
        &["name = \"get.order\""],
        expect![[
            r#""get.order" -> tool name `get.order` is not allowed: give one with `name = "…"`, 1 to 64 of a-z, A-Z, 0-9, `_` and `-`"#
        ]],
    );
    check_items(
        &["/** Doc. */ fn größe() {}"],
        expect![[
            r#"größe -> tool name `größe` is not allowed: give one with `name = "…"`, 1 to 64 of a-z, A-Z, 0-9, `_` and `-`"#
        ]],
    );
}

#[test]
fn a_tool_says_what_it_does() {
    check_items(
        &[
            "async fn order(/** Id. */ id: String) {}",
            "///\n///   \nasync fn order() {}",
            "#[doc(hidden)] async fn order() {}",
        ],
        expect![[r#"
            order -> tool `order` has no description, and the model decides by it: write a doc comment above the function or `description = "…"`
            order -> tool `order` has no description, and the model decides by it: write a doc comment above the function or `description = "…"`
            order -> tool `order` has no description, and the model decides by it: write a doc comment above the function or `description = "…"`"#]],
    );
}

#[test]
fn a_tool_is_a_plain_function_of_concrete_types() {
    check_items(
        &[
            "/** Doc. */ async fn order<T>(id: T) where T: Copy {}",
            "/** Doc. */ unsafe extern \"C\" fn order() {}",
            "/** Doc. */ async fn order(id: impl Copy) {}",
        ],
        expect![[r#"
            <T>(id: T) where T: Copy -> a tool is not generic, its schema needs concrete types: name them, or take what varies from the state of an `impl` block
            unsafe -> a tool is a plain `fn` or `async fn`: drop `unsafe`
            extern "C" -> a tool is a plain `fn` or `async fn`: drop `extern "C"`
            impl Copy -> the schema needs a concrete type: name one that implements `Deserialize` and `JsonSchema`"#]],
    );
}

#[test]
fn a_parameter_has_a_name_of_its_own_and_owns_its_value() {
    check_items(
        &[
            "/** Doc. */ async fn order(id: u8, id: u16) {}",
            "/** Doc. */ async fn order(_: u8, (a, b): (u8, u8)) {}",
            "/** Doc. */ async fn order(id: &str, lines: &[u8], at: &Place) {}",
        ],
        expect![[r#"
            id: u16 -> two parameters are named `id`: the model could fill in only one
            _ -> give the parameter a name: the model fills it in by name
            (a, b) -> give the parameter a name: the model fills it in by name
            &str -> a tool owns its arguments: take `String`
            &[u8] -> a tool owns its arguments: take `Vec<u8>`
            &Place -> a tool owns its arguments: take `Place`"#]],
    );
}

#[test]
fn a_tool_has_one_context_and_the_model_never_sees_it() {
    check_items(
        &[
            "/** Doc. */ async fn order(a: &ToolCtx, b: dauntless::ToolCtx) {}",
            "/** Doc. */ async fn order(ctx: &mut ToolCtx) {}",
            "/** Doc. */ async fn order(/** The context. */ ctx: &ToolCtx) {}",
        ],
        expect![[r#"
            b: dauntless::ToolCtx -> a tool has one context: drop the second `ToolCtx`
            &mut ToolCtx -> the context is read-only: take `&ToolCtx`
            /** The context. */ -> the model never sees the context: drop what is written for it here"#]],
    );
}

#[test]
fn an_answer_owns_its_data() {
    check_items(
        &[
            "/** Doc. */ async fn order(ctx: &ToolCtx) -> Result<Vec<&str>, Failure> {}",
            "/** Doc. */ async fn order() -> (u8, &'a str) {}",
        ],
        expect![[r#"
            Result<Vec<&str>, Failure> -> a tool's answer owns its data: return `String` or another owned type
            (u8, &'a str) -> a tool's answer owns its data: return `String` or another owned type"#]],
    );
    let owned = "/** Doc. */ async fn order() -> Result<&'static str, Failure> {}";
    assert!(try_tool(TokenStream::new(), owned.parse().unwrap()).1.is_ok());
}

#[test]
fn everything_wrong_is_said_at_once() {
    let item = "async fn order<'a>(id: &'a str, id: u8) {}";
    expect![[r#"
        "read" -> `effect` needs one of "read_only", "idempotent", "keyed", "verifiable", "once": did you mean "read_only"?
        0 -> `attempts` needs a whole number from 1 to 4294967295, like `attempts = 8`
        <'a> -> a tool is not generic, its schema needs concrete types: name them, or take what varies from the state of an `impl` block
        &'a str -> a tool owns its arguments: take `String`
        order -> tool `order` has no description, and the model decides by it: write a doc comment above the function or `description = "…"`"#]].assert_eq(&errors("effect = \"read\", attempts = 0", item));
}

#[test]
fn only_functions_and_blocks_are_tools() {
    check_items(
        &["struct Order;", "/** Doc. */ async fn order(&self, id: u8) {}"],
        expect![[r#"
        struct Order; -> `#[tool]` stands on a function or on an `impl` block with such functions
        &self -> a tool with `self` needs its state: put `#[tool]` on the `impl` block as well"#]],
    );
}

#[test]
fn a_block_of_tools_is_plain_and_marks_some() {
    check_items(
        &[
            "impl Shop { fn order(&self) {} }",
            "impl<T> Shop<T> { #[tool] /** Doc. */ fn order(&self) {} }",
            "impl Order for Shop { #[tool] /** Doc. */ fn order(&self) {} }",
        ],
        expect![[r#"
            Shop -> no method of this block is a tool: mark some with `#[tool]`, or drop it here
            <T> -> a block of tools is not generic: implement it for a concrete type
            Order -> the methods of a trait cannot be tools: use a plain `impl` block"#]],
    );
    let block = "impl Shop { #[tool] /** Doc. */ fn order(&self) {} }";
    expect![[r#"effect = "once" -> an `impl` block has no keys of its own: write them on its methods"#]]
        .assert_eq(&errors("effect = \"once\"", block));
}

#[test]
fn two_tools_of_a_block_never_share_a_name() {
    check_items(
        &["impl Shop {
            #[tool] /** Doc. */ fn order(&self) {}
            #[dauntless::tool(name = \"order\")] /** Doc. */ fn by_id(&self, id: u8) {}
        }"],
        expect![[
            r#""order" -> two tools of this block are named `order`: give one another with `name = "…"`"#
        ]],
    );
}

#[test]
fn a_method_borrows_its_state() {
    check_items(
        &["impl Shop {
            #[tool] /** Doc. */ fn one(&mut self) {}
            #[tool] /** Doc. */ fn two(self: Arc<Self>) {}
            #[tool] /** Doc. */ fn three(id: u8) {}
            #[tool = 1] /** Doc. */ fn four(&self) {}
        }"],
        expect![[r#"
            &mut self -> calls share the state and may run at the same time: take `&self`, with a lock inside for what changes
            self: Arc<Self> -> calls share the state and may run at the same time: take `&self`, with a lock inside for what changes
            three -> a tool of an `impl` block takes `&self`; without state, make it a function of its own
            tool = 1 -> write `#[tool(key = value, …)]`"#]],
    );
}
