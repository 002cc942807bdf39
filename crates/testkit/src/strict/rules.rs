//! The rules that real providers enforce between them, all at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::request::{ChatRequest, list};

/// A rule of the wire. Its name is the `code` of the 400 that answers a request breaking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The body is JSON with a list of messages.
    ChatRequest,
    /// The model is named.
    ModelNamed,
    /// There is a message besides the instructions, and the first such message is the user's.
    UserFirst,
    /// Every role is `system`, `developer`, `user`, `assistant` or `tool`.
    KnownRole,
    /// Instructions come first and once.
    SystemFirst,
    /// No message is empty. One of the model has text, a refusal or calls.
    NoEmptyMessage,
    /// Every call has an id, a name and the type `function`.
    WholeCall,
    /// No two calls of one message share an id.
    UniqueCallIds,
    /// Arguments are the text of a JSON object.
    ArgumentsAreObject,
    /// Every call has its tool message before anything else follows.
    EveryCallAnswered,
    /// Every tool message answers a call of the message before, once.
    NoAnswerWithoutCall,
    /// Tool messages come in the order of their calls.
    AnswersInOrder,
    /// Tool names are 1 to 64 of `a-z A-Z 0-9 _ -`.
    ToolName,
    /// No two tools share a name.
    UniqueTools,
    /// The parameters of a tool are a schema whose root is an object.
    ParametersAreObject,
    /// A list of tools or calls is absent rather than empty.
    NoEmptyList,
    /// The script has a reply left, and does not panic.
    Scripted,
}

impl Rule {
    /// The name, as the answer gives it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatRequest => "chat_request",
            Self::ModelNamed => "model_named",
            Self::UserFirst => "user_first",
            Self::KnownRole => "known_role",
            Self::SystemFirst => "system_first",
            Self::NoEmptyMessage => "no_empty_message",
            Self::WholeCall => "whole_call",
            Self::UniqueCallIds => "unique_call_ids",
            Self::ArgumentsAreObject => "arguments_are_object",
            Self::EveryCallAnswered => "every_call_answered",
            Self::NoAnswerWithoutCall => "no_answer_without_call",
            Self::AnswersInOrder => "answers_in_order",
            Self::ToolName => "tool_name",
            Self::UniqueTools => "unique_tools",
            Self::ParametersAreObject => "parameters_are_object",
            Self::NoEmptyList => "no_empty_list",
            Self::Scripted => "scripted",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule that a request broke, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// Where, like `messages[3].tool_calls[0]`; empty for the request as a whole.
    pub at: String,
    /// What is wrong there.
    pub detail: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => write!(f, "{}: {}", self.rule, self.detail),
            at => write!(f, "{} at {at}: {}", self.rule, self.detail),
        }
    }
}

/// A broken rule with the request that broke it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What is wrong.
    pub broken: Broken,
    /// Which request it was, counted from 1.
    pub request_no: usize,
    /// Its body as it came.
    pub body: Arc<str>,
}

/// Checks a request against every rule, and gives all that it breaks.
///
/// # Examples
/// ```
/// use dauntless_testkit::strict::{ChatRequest, Rule, check};
///
/// let request = ChatRequest::parse(r#"{"model": "m", "messages": [{"role": "tool", "tool_call_id": "c1",
///     "content": "an answer to nothing"}]}"#)?;
/// let rules: Vec<Rule> = check(&request).iter().map(|broken| broken.rule).collect();
/// assert_eq!(rules, [Rule::UserFirst, Rule::NoAnswerWithoutCall]);
/// # Ok::<(), dauntless_testkit::strict::NotChat>(())
/// ```
pub fn check(request: &ChatRequest) -> Vec<Broken> {
    let mut found = Findings::default();
    if request.model().trim().is_empty() {
        found.add(Rule::ModelNamed, "model", "the model is not named");
    }
    check_tools(request, &mut found);
    Conversation { found: &mut found, owed: Vec::new(), opened: false }.check(request.messages());
    found.0
}

#[derive(Default)]
struct Findings(Vec<Broken>);

impl Findings {
    fn add(&mut self, rule: Rule, at: impl Into<String>, detail: impl Into<String>) {
        self.0.push(Broken { rule, at: at.into(), detail: detail.into() });
    }
}

fn check_tools(request: &ChatRequest, found: &mut Findings) {
    if request.json().get("tools").is_some() && request.tools().is_empty() {
        found.add(Rule::NoEmptyList, "tools", "leave `tools` out where there are none");
    }
    let mut names = BTreeSet::new();
    for (index, tool) in request.tools().iter().enumerate() {
        let at = format!("tools[{index}].function");
        let function = tool.get("function").unwrap_or(&Value::Null);
        let name = text(function, "name");
        if !is_tool_name(name) {
            found.add(Rule::ToolName, &at, bad_name(name));
        }
        if !names.insert(name) {
            found.add(Rule::UniqueTools, &at, format!("a second tool is named `{name}`"));
        }
        // Without parameters a tool takes none, which providers accept.
        if let Some(parameters) = function.get("parameters")
            && text(parameters, "type") != "object"
        {
            let detail = format!("the root of the parameters of `{name}` is not `\"type\": \"object\"`");
            found.add(Rule::ParametersAreObject, at, detail);
        }
    }
}

/// Walks the messages, knowing which calls still wait for their tool message.
struct Conversation<'a> {
    found: &'a mut Findings,
    owed: Vec<String>,
    /// Whether a message other than instructions was seen.
    opened: bool,
}

impl Conversation<'_> {
    fn check(mut self, messages: &[Value]) {
        for (index, message) in messages.iter().enumerate() {
            let at = format!("messages[{index}]");
            let role = text(message, "role");
            if role != "tool" {
                self.settle(&at);
            }
            match role {
                "system" | "developer" => self.system(message, index, at),
                "user" => {
                    self.opened = true;
                    self.require_content(message, at);
                }
                "assistant" => {
                    self.open_with_user(&at);
                    self.assistant(message, &at);
                }
                "tool" => {
                    self.open_with_user(&at);
                    self.tool(message, at);
                }
                other => self.found.add(Rule::KnownRole, at, format!("`{other}` is not a role")),
            }
        }
        self.settle("the end");
        if !self.opened {
            self.found.add(Rule::UserFirst, "messages", "no message of the user");
        }
    }

    fn system(&mut self, message: &Value, index: usize, at: String) {
        if index > 0 {
            self.found.add(Rule::SystemFirst, &at, "instructions are only allowed as the first message");
        }
        self.require_content(message, at);
    }

    fn open_with_user(&mut self, at: &str) {
        if !self.opened {
            self.opened = true;
            self.found.add(Rule::UserFirst, at, "the conversation does not begin with the user");
        }
    }

    fn require_content(&mut self, message: &Value, at: String) {
        if !has_text(message.get("content")) {
            self.found.add(Rule::NoEmptyMessage, at, "the message has no text");
        }
    }

    /// Reports the calls that something other than their tool message follows.
    fn settle(&mut self, at: &str) {
        for id in self.owed.drain(..) {
            self.found.add(
                Rule::EveryCallAnswered,
                at,
                format!("call `{id}` has no tool message before this"),
            );
        }
    }

    fn assistant(&mut self, message: &Value, at: &str) {
        let calls = list(message, "tool_calls");
        if calls.is_empty() {
            if message.get("tool_calls").is_some_and(Value::is_array) {
                self.found.add(Rule::NoEmptyList, at, "leave `tool_calls` out where there are none");
            }
            if !has_text(message.get("content")) && text(message, "refusal").is_empty() {
                self.found.add(Rule::NoEmptyMessage, at, "the message has neither text nor calls");
            }
        }
        for (index, call) in calls.iter().enumerate() {
            self.call(call, format!("{at}.tool_calls[{index}]"));
        }
    }

    fn call(&mut self, call: &Value, at: String) {
        let function = call.get("function").unwrap_or(&Value::Null);
        let (id, name) = (text(call, "id"), text(function, "name"));
        if id.is_empty() || text(call, "type") != "function" {
            self.found.add(Rule::WholeCall, &at, "a call needs an `id` and `\"type\": \"function\"`");
        }
        if !is_tool_name(name) {
            self.found.add(Rule::ToolName, &at, bad_name(name));
        }
        if self.owed.iter().any(|owed| owed == id) {
            self.found.add(Rule::UniqueCallIds, &at, format!("a second call of this message has id `{id}`"));
        }
        let arguments = function.get("arguments").and_then(Value::as_str);
        if arguments.is_none_or(|text| serde_json::from_str::<Map<String, Value>>(text).is_err()) {
            let detail = format!("the arguments of `{name}` are not the text of a JSON object");
            self.found.add(Rule::ArgumentsAreObject, at, detail);
        }
        self.owed.push(id.to_owned());
    }

    fn tool(&mut self, message: &Value, at: String) {
        let id = text(message, "tool_call_id");
        if !message.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
            self.found.add(Rule::NoEmptyMessage, &at, "a tool message needs `content`, be it an empty text");
        }
        match self.owed.iter().position(|owed| owed == id) {
            None => {
                let detail = format!("no call before waits for an answer with id `{id}`");
                self.found.add(Rule::NoAnswerWithoutCall, at, detail);
            }
            Some(place) => {
                if place > 0 {
                    let detail =
                        format!("call `{id}` is answered before an earlier call of the same message");
                    self.found.add(Rule::AnswersInOrder, at, detail);
                }
                self.owed.remove(place);
            }
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether content says anything: a text, or a part that is not an empty text.
fn has_text(content: Option<&Value>) -> bool {
    match content {
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(parts)) => {
            parts.iter().any(|part| text(part, "type") != "text" || !text(part, "text").trim().is_empty())
        }
        _ => false,
    }
}

fn is_tool_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

fn bad_name(name: &str) -> String {
    format!("tool name `{name}` is not 1 to 64 of a-z, A-Z, 0-9, `_` and `-`")
}
