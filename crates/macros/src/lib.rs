//! `#[tool]`: turns a function, or the methods of an `impl` block, into tools of an agent.
//!
//! It exists so that what a tool is stays in one place: the signature gives the schema, the doc
//! comments give the descriptions, the attribute gives the behaviour. It only rewrites
//! declarations: what a tool *does* with a call is `dauntless::tool_fn_with_ctx`, and everything
//! here could be written by hand with that function and its builder methods. It refuses, at
//! compile time and with the way out, what no model could use: a tool without a description, a
//! name that no provider takes, a parameter without a concrete owned type.

mod block;
mod docs;
mod expand;
mod length;
mod options;
mod problems;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a tool of a function, or tools of the marked methods of an `impl` block.
///
/// # A function
///
/// ```ignore
/// /// Look up one order.
/// #[tool(effect = "read_only", timeout = "5s", concurrency = 8)]
/// async fn order(
///     ctx: &ToolCtx,
///     /// Order id, like ORD-2026-00042.
///     id: OrderId,
///     /// How many lines to show.
///     lines: Option<u32>,
/// ) -> Result<Order, Failure> {
///     orders(ctx.deadline).find(id, lines.unwrap_or(10)).await
/// }
///
/// let agent = Agent::new("support").tool(order);
/// ```
///
/// leaves a unit struct `order` that implements `Tool`. Because it is a value, a `let order = …`
/// elsewhere in the same module would match against it instead of binding: name that variable
/// otherwise. Inside the tool itself, and for the parameters of any tool, the name is free.
///
/// - The doc comment is the description, the doc comment of a parameter is that parameter's.
/// - A parameter's type is anything owned that implements `Deserialize` and `JsonSchema`.
///   `Option<T>` may be left out by the model. `#[serde(…)]` and `#[schemars(…)]` work on
///   parameters as they do on fields: `#[serde(default)]`, `#[schemars(range(min = 1))]`.
/// - One parameter may be `&ToolCtx` or `ToolCtx`, anywhere in the list; the model never sees it.
/// - It returns `T`, or `Result<T, E>` with `E: Into<Failure>`: `Failure` itself, or any error
///   type. `T` is owned and `Serialize`: a string becomes text as it is, `()` an empty text,
///   `ToolOutput` is taken as it is, and everything else is written as JSON.
/// - A function that is not `async` is run as it is and holds up its thread meanwhile: blocking
///   work belongs in `tokio::task::spawn_blocking`.
///
/// # An `impl` block
///
/// ```ignore
/// #[tool]
/// impl Shop {
///     /// Look up one order.
///     #[tool(effect = "read_only")]
///     async fn order(
///         &self,
///         /// Order id.
///         id: String,
///     ) -> Result<Order, Failure> {
///         self.orders.find(id).await
///     }
///
///     fn not_a_tool(&self) {}
/// }
///
/// let agent = Agent::new("support").tools(Arc::new(shop).tools());
/// ```
///
/// implements `ToolSet` for the type. The methods stay callable by hand.
///
/// # Keys
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | the name the model sees | the function's |
/// | `description` | replaces the doc comment | |
/// | `effect` | `"read_only"`, `"idempotent"`, `"keyed"`, `"verifiable"`, `"once"` | `"once"` |
/// | `on_exhausted` | `"end_run"`, `"observe"` | `"end_run"` |
/// | `timeout` | longest time of one attempt, like `"5s"` | `"30s"` |
/// | `deadline` | longest time of one call, attempts and waits together | `"60s"`, or `timeout` if longer |
/// | `concurrency` | attempts in flight at once, over all runs | 8 |
/// | `waiting` | calls that may wait for a place | 32 |
/// | `attempts` | attempts in all, the first included | 3 |
/// | `fallback` | the tool that is asked in its place when it is exhausted or down | none |
/// | `polling` | `true` where identical successes are no loop | `false` |
/// | `output_bytes_max` | longest success the model is shown, in bytes | 32,768 |
///
/// Lengths are whole numbers with `ms`, `s`, `m` or `h`.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(arguments.into(), item.into()).into()
}
