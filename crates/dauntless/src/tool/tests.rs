use std::sync::Mutex;

use dauntless_contract::{CallKey, EffectState, FailureCode, NeverCancelled, RunId, Timestamp};
use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::tool;

/// Names one order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
struct OrderId(String);

impl TryFrom<String> for OrderId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with("ORD-") {
            Ok(Self(text))
        } else {
            Err(format!("`{text}` does not start with ORD-"))
        }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Carrier {
    /// On the road.
    Truck,
    Train,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Parcel {
    carrier: Carrier,
    /// Grams.
    weight_g: u32,
}

#[derive(Serialize)]
struct Order {
    id: OrderId,
    attempt: u32,
    lines: u32,
}

/// Look up one order.
///
/// Knows this year's only.
#[tool(effect = "read_only", timeout = "5s", concurrency = 3)]
async fn order(
    ctx: &ToolCtx,
    /// Order id, like ORD-2026-00042.
    id: OrderId,
    /// How many lines to show.
    lines: Option<u32>,
) -> Result<Order, Failure> {
    if id.0 == "ORD-0" {
        return Err(Failure::not_found("No order matches ORD-0."));
    }
    let order = Order { id, attempt: ctx.attempt, lines: lines.unwrap_or(9) };
    Ok(order)
}

/// Ship parcels of an order.
#[tool(
    name = "ship-parcels",
    on_exhausted = "observe",
    timeout = "2m",
    waiting = 0,
    attempts = 1,
    polling = true,
    output_bytes_max = 512
)]
async fn ship(
    /// One or more.
    parcels: Vec<Parcel>,
    /// Tried when the first is full.
    fallback: Option<Carrier>,
    #[schemars(range(max = 9))]
    #[serde(default)]
    priority: u8,
    order: OrderId,
    ctx: ToolCtx,
) -> String {
    format!("{} parcels of {} ({fallback:?}, {priority}) by {}", parcels.len(), order.0, ctx.idempotency_key)
}

fn ctx() -> ToolCtx {
    ToolCtx {
        run: RunId::from_u128(1),
        call: CallKey { turn: 1, index: 0 },
        attempt: 2,
        deadline: Timestamp::MAX,
        idempotency_key: "key-1".into(),
        cancel: Arc::new(NeverCancelled),
    }
}

async fn call(tool: &dyn Tool, arguments: &str) -> Result<String, Failure> {
    let output = tool.call(ctx(), Json::parse(arguments).unwrap()).await?;
    Ok(output.text.to_string())
}

fn check_schema(tool: &dyn Tool, expected: &Expect) {
    tool.spec().check().unwrap();
    expected.assert_eq(&serde_json::to_string_pretty(&*tool.spec().parameters).unwrap());
}

#[test]
fn parameters_become_an_object_with_their_descriptions() {
    check_schema(
        &order,
        &expect![[r##"
        {
          "$defs": {
            "OrderId": {
              "description": "Names one order.",
              "type": "string"
            }
          },
          "additionalProperties": false,
          "properties": {
            "id": {
              "$ref": "#/$defs/OrderId",
              "description": "Order id, like ORD-2026-00042."
            },
            "lines": {
              "description": "How many lines to show.",
              "minimum": 0,
              "type": [
                "integer",
                "null"
              ]
            }
          },
          "required": [
            "id"
          ],
          "type": "object"
        }"##]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "the snapshot is the test")]
fn enums_lists_and_optional_types_share_one_set_of_definitions() {
    check_schema(
        &ship,
        &expect![[r##"
        {
          "$defs": {
            "Carrier": {
              "oneOf": [
                {
                  "enum": [
                    "train"
                  ],
                  "type": "string"
                },
                {
                  "const": "truck",
                  "description": "On the road.",
                  "type": "string"
                }
              ]
            },
            "OrderId": {
              "description": "Names one order.",
              "type": "string"
            },
            "Parcel": {
              "properties": {
                "carrier": {
                  "$ref": "#/$defs/Carrier"
                },
                "weight_g": {
                  "description": "Grams.",
                  "minimum": 0,
                  "type": "integer"
                }
              },
              "required": [
                "carrier",
                "weight_g"
              ],
              "type": "object"
            }
          },
          "additionalProperties": false,
          "properties": {
            "fallback": {
              "anyOf": [
                {
                  "$ref": "#/$defs/Carrier"
                },
                {
                  "type": "null"
                }
              ],
              "description": "Tried when the first is full."
            },
            "order": {
              "$ref": "#/$defs/OrderId"
            },
            "parcels": {
              "description": "One or more.",
              "items": {
                "$ref": "#/$defs/Parcel"
              },
              "type": "array"
            },
            "priority": {
              "default": 0,
              "maximum": 9,
              "minimum": 0,
              "type": "integer"
            }
          },
          "required": [
            "parcels",
            "order"
          ],
          "type": "object"
        }"##]],
    );
}

#[test]
fn the_attribute_says_how_the_runtime_treats_the_tool() {
    let spec = order.spec();
    assert_eq!((&*spec.name, &*spec.description), ("order", "Look up one order.\n\nKnows this year's only."));
    assert_eq!(
        (spec.effect, spec.on_exhausted, spec.polling),
        (Effect::ReadOnly, OnExhausted::EndRun, false)
    );
    let expected = ResiliencePolicy {
        attempt_timeout: Duration::from_secs(5),
        concurrency: 3,
        ..ResiliencePolicy::default()
    };
    assert_eq!(spec.resilience, expected);

    let spec = ship.spec();
    assert_eq!(
        (&*spec.name, spec.effect, spec.on_exhausted),
        ("ship-parcels", Effect::Once, OnExhausted::Observe)
    );
    assert_eq!((spec.polling, spec.output_bytes_max), (true, 512));
    assert_eq!((spec.resilience.waiting, spec.resilience.retry.max_attempts), (0, 1));
}

#[test]
fn a_timeout_beyond_the_deadline_moves_it() {
    assert_eq!(ship.spec().resilience.deadline, Duration::from_secs(120));
}

#[test]
fn a_spec_is_built_once() {
    assert!(Arc::ptr_eq(order.spec(), order.spec()));
}

#[tokio::test]
async fn a_call_gets_typed_arguments_and_its_context() {
    let text = call(&order, r#"{"id":"ORD-7","lines":2}"#).await;
    assert_eq!(text, Ok(r#"{"id":"ORD-7","attempt":2,"lines":2}"#.to_owned()));
    let text = call(&order, r#"{"id":"ORD-7","lines":null}"#).await;
    assert_eq!(text, Ok(r#"{"id":"ORD-7","attempt":2,"lines":9}"#.to_owned()));
    let text = call(&ship, r#"{"order":"ORD-7","parcels":[{"carrier":"train","weight_g":5}]}"#).await;
    assert_eq!(text, Ok("1 parcels of ORD-7 (None, 0) by key-1".to_owned()));
}

#[tokio::test]
async fn a_failure_of_the_function_comes_out_as_it_is() {
    assert_eq!(call(&order, r#"{"id":"ORD-0"}"#).await, Err(Failure::not_found("No order matches ORD-0.")));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_answered_with_their_place() {
    let check = async |tool: &dyn Tool, arguments: &str, expected: Expect| {
        let failure = call(tool, arguments).await.unwrap_err();
        assert_eq!(failure.effect, EffectState::None);
        let details: Vec<String> =
            failure.details.iter().map(|d| format!("{} | {} | {}", d.path, d.expected, d.got)).collect();
        expected.assert_eq(&format!("{failure}\n{}", details.join("\n")));
    };
    check(&order, r#"{"id":"7"}"#, expect![[r#"
        invalid_arguments: `order` was not called: its arguments do not fit at `$.id`: `7` does not start with ORD-.
        $.id | `7` does not start with ORD- | "#]]).await;
    check(
        &order,
        r#"{"lines":1}"#,
        expect![[r#"
        invalid_arguments: `order` was not called: its arguments do not fit at `$`: missing field `id`.
        $ | missing field `id` | "#]],
    )
    .await;
    check(&order, r#"{"id":"ORD-7","lines":-1}"#, expect![[r#"
        invalid_arguments: `order` was not called: its arguments do not fit at `$.lines`: invalid value: integer `-1`, expected u32.
        $.lines | u32 | invalid value: integer `-1`"#]]).await;
    check(&order, r#"{"id":"ORD-7","line":1}"#, expect![[r#"
        invalid_arguments: `order` was not called: its arguments do not fit at `$.line`: unknown field `line`, expected `id` or `lines`.
        $.line | `id` or `lines` | unknown field `line`"#]]).await;
    check(
        &order,
        "[]",
        expect![[r#"
        invalid_arguments: `order` was not called: its arguments are not an object.
        $ | an object of the parameters by name | "#]],
    )
    .await;
    let parcels = r#"{"order":"ORD-7","parcels":[{"carrier":"train","weight_g":5},{"carrier":"ship"}]}"#;
    check(&ship, parcels, expect![[r#"
        invalid_arguments: `ship-parcels` was not called: its arguments do not fit at `$.parcels[1].carrier`: unknown variant `ship`, expected `truck` or `train`.
        $.parcels[1].carrier | `truck` or `train` | unknown variant `ship`"#]]).await;
}

#[tokio::test]
async fn long_values_and_keys_are_cut_in_the_failure() {
    let long = "é".repeat(5000);
    for arguments in [format!(r#"{{"id":"{long}"}}"#), format!(r#"{{"{long}":1}}"#)] {
        let failure = call(&order, &arguments).await.unwrap_err();
        assert!(failure.message.len() < 1000, "{failure}");
        assert!(failure.message.ends_with("….") && failure.message.contains('é'), "{failure}");
    }
}

/// Give numbers back.
#[tool]
async fn echo(echo: u128, small: i128, ratio: f64) -> Vec<String> {
    vec![echo.to_string(), small.to_string(), ratio.to_string()]
}

#[tokio::test]
async fn integers_keep_every_digit() {
    let text = call(
        &echo,
        r#"{"echo":340282366920938463463374607431768211455,"small":-170141183460469231731687303715884105728,"ratio":0.1}"#,
    )
    .await;
    let digits =
        r#"["340282366920938463463374607431768211455","-170141183460469231731687303715884105728","0.1"]"#;
    assert_eq!(text, Ok(digits.to_owned()));
}

mod answers {
    use super::*;

    type Alias<T> = Result<T, std::io::Error>;

    /// Nothing.
    #[tool]
    async fn nothing() {}

    /// Nothing, or not.
    #[tool]
    async fn nothing_or_failure() -> Result<(), Failure> {
        Ok(())
    }

    /// Text.
    #[tool]
    fn text() -> &'static str {
        "not \"quoted\""
    }

    /// Output.
    #[tool]
    async fn output() -> ToolOutput {
        ToolOutput::text("as it is")
    }

    /// Alias.
    #[tool]
    async fn alias() -> Alias<u8> {
        Err(std::io::Error::other("db.internal refused"))
    }

    /// Not JSON.
    #[tool]
    async fn no_json() -> std::collections::BTreeMap<(u8, u8), u8> {
        [((1, 2), 3)].into()
    }

    #[tokio::test]
    async fn each_kind_of_answer_has_its_text() {
        assert_eq!(call(&nothing, "{}").await, Ok(String::new()));
        assert_eq!(call(&nothing_or_failure, "{}").await, Ok(String::new()));
        assert_eq!(call(&text, "{}").await, Ok("not \"quoted\"".to_owned()));
        assert_eq!(call(&output, "{}").await, Ok("as it is".to_owned()));
    }

    #[tokio::test]
    async fn an_error_behind_an_alias_of_result_is_a_failure_and_stays_private() {
        let failure = call(&alias, "{}").await.unwrap_err();
        assert_eq!(failure.code, FailureCode::ToolError);
        assert!(!failure.message.contains("db.internal"));
        assert_eq!(failure.source.as_deref(), Some("db.internal refused"));
    }

    #[tokio::test]
    async fn an_answer_that_is_no_json_says_that_the_work_is_done() {
        let failure = call(&no_json, "{}").await.unwrap_err();
        assert_eq!((failure.code, failure.effect), (FailureCode::ToolError, EffectState::Happened));
    }

    #[test]
    fn a_tool_without_parameters_still_lists_them() {
        check_schema(
            &nothing,
            &expect![[r#"
            {
              "additionalProperties": false,
              "properties": {},
              "type": "object"
            }"#]],
        );
    }
}

struct Shop {
    stock: Mutex<u32>,
}

#[tool]
impl Shop {
    /// Take from the stock.
    #[tool(effect = "once")]
    async fn take(
        &self,
        /// How many.
        count: u32,
        ctx: &ToolCtx,
    ) -> Result<u32, Failure> {
        let mut stock = self.stock.lock().unwrap();
        *stock = stock
            .checked_sub(count)
            .ok_or_else(|| Failure::conflict(format!("Only {stock} are left at attempt {}.", ctx.attempt)))?;
        Ok(*stock)
    }

    /// Count the stock.
    #[tool(name = "stock", effect = "read_only")]
    fn count(&self) -> u32 {
        *self.stock.lock().unwrap()
    }

    /// Never there.
    #[cfg(any())]
    #[tool]
    async fn absent(&self) -> Missing {}

    fn not_a_tool(&self) -> u32 {
        self.count() + 1
    }
}

#[tokio::test]
async fn the_tools_of_a_block_share_its_state() {
    let shop = Arc::new(Shop { stock: Mutex::new(5) });
    let tools = shop.tools();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.spec().name).collect();
    assert_eq!(names, ["take", "stock"]);
    assert_eq!(call(&*tools[0], r#"{"count":3}"#).await, Ok("2".to_owned()));
    assert_eq!(call(&*shop.tools()[1], "{}").await, Ok("2".to_owned()));
    let failure = call(&*tools[0], r#"{"count":3}"#).await.unwrap_err();
    assert_eq!(failure, Failure::conflict("Only 2 are left at attempt 2."));
    assert_eq!(shop.not_a_tool(), 3);
    check_schema(
        &*tools[0],
        &expect![[r#"
        {
          "additionalProperties": false,
          "properties": {
            "count": {
              "description": "How many.",
              "minimum": 0,
              "type": "integer"
            }
          },
          "required": [
            "count"
          ],
          "type": "object"
        }"#]],
    );
}

/// Adds.
#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The numbers to add.
    numbers: Vec<i64>,
}

#[tokio::test]
async fn a_closure_is_a_tool_with_its_own_state() {
    let calls = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&calls);
    let sum = tool_fn("sum", "Add whole numbers.", move |args: Sum| {
        *seen.lock().unwrap() += 1;
        async move {
            let parsed: i64 = "1".parse()?;
            Ok(args.numbers.iter().sum::<i64>() * parsed)
        }
    })
    .effect(Effect::ReadOnly)
    .resilience(|policy| policy.breaker.min_calls = 50);
    assert_eq!(call(&sum, r#"{"numbers":[1,2,39]}"#).await, Ok("42".to_owned()));
    assert_eq!(*calls.lock().unwrap(), 1);
    assert_eq!((sum.spec().effect, sum.spec().resilience.breaker.min_calls), (Effect::ReadOnly, 50));
    check_schema(
        &sum,
        &expect![[r#"
        {
          "description": "Adds.",
          "properties": {
            "numbers": {
              "description": "The numbers to add.",
              "items": {
                "type": "integer"
              },
              "type": "array"
            }
          },
          "required": [
            "numbers"
          ],
          "type": "object"
        }"#]],
    );
}

#[tokio::test]
async fn a_closure_may_ask_for_its_context() {
    let key = tool_fn_with_ctx("key", "Tell the key.", |ctx: ToolCtx, _: Sum| async move {
        Ok(ctx.idempotency_key.to_string())
    });
    assert_eq!(call(&key, r#"{"numbers":[]}"#).await, Ok("key-1".to_owned()));
}

#[test]
fn arguments_that_are_no_object_are_refused_by_the_check() {
    let tool = tool_fn("t", "T.", |_: Carrier| async { Ok(()) });
    let error = tool.spec().check().unwrap_err().to_string();
    assert_eq!(
        error,
        "tool `t` has a parameter schema of type `none`: its root must be `\"type\": \"object\"`"
    );
    let tool = tool_fn("t", "T.", |(): ()| async { Ok(()) });
    assert!(tool.spec().check().unwrap_err().to_string().contains("type `null`"));
}

#[tokio::test]
async fn even_a_panic_before_the_first_await_belongs_to_the_attempt() {
    let tool = tool_fn("t", "T.", |_: Sum| -> std::future::Ready<Result<(), Failure>> { panic!("at once") });
    drop(tool.call(ctx(), Json::parse(r#"{"numbers":[]}"#).unwrap()));
    let joined = tokio::spawn(async move { call(&tool, r#"{"numbers":[]}"#).await }).await;
    assert!(joined.unwrap_err().is_panic());
}

#[derive(Deserialize, JsonSchema)]
struct Mail {
    to: String,
}

async fn was_sent(ctx: ToolCtx, mail: Mail) -> Result<Verified, Failure> {
    Ok(Verified::happened(format!("sent to {} with {}", mail.to, ctx.idempotency_key)))
}

/// Send a mail.
#[tool(verify = was_sent)]
async fn send(to: String) -> String {
    to
}

struct Post;

#[tool]
impl Post {
    /// Send a letter.
    #[tool(verify = Self::was_posted)]
    async fn letter(&self, to: String) -> String {
        to
    }

    async fn was_posted(_: ToolCtx, arguments: Json) -> Result<Verified, Failure> {
        Ok(Verified::happened(arguments.as_str()))
    }
}

#[tokio::test]
async fn a_tool_tells_whether_its_call_happened() {
    let arguments = || Json::parse(r#"{"to":"ann"}"#).unwrap();
    let sent = Verified::happened("sent to ann with key-1");
    assert_eq!(Tool::verify(&send, ctx(), arguments()).await.unwrap(), sent);
    let tool = tool_fn("send", "Send.", |mail: Mail| async move { Ok(mail.to) }).verify(was_sent);
    assert_eq!(Tool::verify(&tool, ctx(), arguments()).await.unwrap(), sent);
    let letter = Arc::new(Post).tools().remove(0);
    assert_eq!(letter.verify(ctx(), arguments()).await.unwrap(), Verified::happened(r#"{"to":"ann"}"#));
    for spec in [Tool::spec(&send), Tool::spec(&tool), letter.spec()] {
        assert_eq!(spec.effect, Effect::Verifiable);
    }
    let unfit = Tool::verify(&tool, ctx(), Json::empty_object()).await.unwrap_err();
    assert_eq!(unfit.code, FailureCode::InvalidArguments);
    let silent = tool_fn("send", "Send.", |mail: Mail| async move { Ok(mail.to) });
    assert_eq!(Tool::verify(&silent, ctx(), arguments()).await.unwrap(), Verified::CannotTell);
}
