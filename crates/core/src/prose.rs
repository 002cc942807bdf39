//! Recognises a call that a model wrote as text instead of making it.
//!
//! Such a text is never an answer. It is not executed either: what was meant would be a guess, and
//! the model can be asked. A text that only talks about the markup of calls is left alone.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::excerpt::head;
use crate::toolbox::Toolbox;

/// The mark that opens a call in each family of models, with the beginning of the call behind it
/// (a mark alone is a quotation), and what closes the call.
const DIALECTS: [(&str, &str); 8] = [
    (
        r"<\|?tool_calls?(?:_begin)?\|?>\s*(?:[\[{<]|call:|[\w.:-]+\s*[({<\n])",
        r"</tool_calls?>|<tool_call\|>|<\|/?tool_calls?(?:_end)?\|>",
    ),
    (r"<start_function_call>\s*(?:call:|[\[{])", r"<end_function_call>"),
    (r"<function(?:=[\w.-]+\s*>|_calls?>\s*[\[{<])", r"</function\w*>"),
    (r#"<invoke\s+name\s*=\s*["'][\w.-]+["']"#, r"</invoke>"),
    (
        r"<[|｜]tool[_▁]calls(?:[_▁]section)?[_▁]begin[|｜]>",
        r"<[|｜]tool[_▁]calls(?:[_▁]section)?[_▁]end[|｜]>",
    ),
    (r"<\|python_tag\|>\s*[\w.]*[({]", r"[)}]"),
    (r"\[TOOL_CALLS\]\s*(?:[\[{]|[\w.-]+\s*(?:\[ARGS\]|\{))", r"[}\]]"),
    (r"call:[\w.-]+\s*\{", r"\}"),
];

/// A dialect, compiled: a call opens at the start of a line.
struct Dialect {
    opens: Regex,
    closes: Regex,
}

static COMPILED: LazyLock<Vec<Dialect>> = LazyLock::new(|| {
    let compile = |(opens, closes): &(&str, &str)| {
        let opens = Regex::new(&format!(r"(?m)^[ \t]*(?:{opens})")).ok()?;
        Some(Dialect { opens, closes: Regex::new(closes).ok()? })
    };
    DIALECTS.iter().filter_map(compile).collect()
});

/// So many words after the last call are prose about it, not the rest of another call.
const WORDS_OF_PROSE: usize = 3;
/// A call names its tool early.
const NAME_WITHIN_BYTES: usize = 400;

/// Whether a text without calls is a call in disguise.
///
/// That is a text of markup alone in one of the known dialects; prose that ends with such a call of
/// a known tool; or JSON alone, fenced or not, that names a known tool and gives its arguments.
/// Markup in the middle of a sentence, in a code fence or followed by prose is a quotation.
pub fn looks_like_call(text: &str, toolbox: &Toolbox) -> bool {
    let text = text.trim();
    match fenced(text) {
        Some(inner) => is_json_call(inner, toolbox) || ends_in_markup(inner, toolbox, Tools::Known),
        None => is_json_call(text, toolbox) || ends_in_markup(text, toolbox, Tools::AnyAtTheStart),
    }
}

/// Which tools a call in markup may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tools {
    Known,
    AnyAtTheStart,
}

fn ends_in_markup(text: &str, toolbox: &Toolbox, tools: Tools) -> bool {
    COMPILED.iter().any(|dialect| {
        let closed = dialect.closes.find_iter(text).last().map(|closing| closing.end());
        let prose_from = closed.filter(|end| is_prose(text.get(*end..).unwrap_or_default()));
        let (mut seen, mut fences) = (0, 0);
        dialect.opens.find_iter(text).any(|opening| {
            let start = opening.start();
            fences += text.get(seen..start).unwrap_or_default().matches("```").count();
            seen = start;
            let (before, call) = text.split_at(start);
            let alone = before.trim_start().is_empty() && tools == Tools::AnyAtTheStart;
            // A call that opens behind the last closing mark goes on to the end of the text.
            let ends_the_text = prose_from.is_none_or(|end| end <= start);
            fences % 2 == 0 && ends_the_text && (alone || names_a_tool(call, toolbox))
        })
    })
}

fn names_a_tool(call: &str, toolbox: &Toolbox) -> bool {
    head(call, NAME_WITHIN_BYTES)
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .any(|word| toolbox.get(word).is_some())
}

fn is_prose(rest: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() > 1;
    rest.split_whitespace().filter(is_word).count() >= WORDS_OF_PROSE
}

/// The inside of a code fence around the whole text.
fn fenced(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let (_language, inner) = inner.split_once('\n')?;
    (!inner.contains("```")).then(|| inner.trim())
}

fn is_json_call(text: &str, toolbox: &Toolbox) -> bool {
    if !text.starts_with(['{', '[']) {
        return false;
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(calls)) => !calls.is_empty() && calls.iter().all(|call| is_call(call, toolbox)),
        Ok(value) => match value.get("tool_calls").and_then(Value::as_array) {
            Some(calls) => calls.iter().any(|call| is_call(call, toolbox)),
            None => is_call(&value, toolbox),
        },
        Err(_) => false,
    }
}

fn is_call(value: &Value, toolbox: &Toolbox) -> bool {
    let call = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = ["name", "tool", "tool_name", "function"].into_iter().find_map(|key| call.get(key)?.as_str());
    let has_arguments =
        ["arguments", "parameters", "args", "input"].into_iter().any(|key| call.get(key).is_some());
    has_arguments && name.is_some_and(|name| toolbox.get(name).is_some())
}

#[cfg(test)]
mod tests;
