//! The keys of `#[tool(…)]`. Each but `name` and `description` is a builder method of the facade
//! of the same name, so this file is the whole list and needs no second one.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, LitStr, Meta, MetaNameValue, Token};

use crate::length;
use crate::problems::Problems;

/// What an attribute says, checked.
#[derive(Default)]
pub(crate) struct Options {
    /// The name the model sees, where it is not the function's.
    pub(crate) name: Option<LitStr>,
    /// The description, where it is not the doc comment.
    pub(crate) description: Option<LitStr>,
    /// Builder calls, like `.timeout(…)`, in the order they were written.
    pub(crate) setters: Vec<TokenStream>,
}

enum Kind {
    Text,
    /// One of these words, each a variant of the type.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    Length,
    /// A whole number from this one up to `u32::MAX`.
    Count(u32),
    Switch,
    /// The name of another tool.
    Name,
    /// The path of a function.
    Function,
}

const EFFECTS: &[(&str, &str)] = &[
    ("read_only", "ReadOnly"),
    ("idempotent", "Idempotent"),
    ("keyed", "Keyed"),
    ("verifiable", "Verifiable"),
    ("once", "Once"),
];

const ENDS: &[(&str, &str)] = &[("end_run", "EndRun"), ("observe", "Observe"), ("park", "Park")];

const KEYS: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("description", Kind::Text),
    ("effect", Kind::Word("Effect", EFFECTS)),
    ("on_exhausted", Kind::Word("OnExhausted", ENDS)),
    ("max_park", Kind::Length),
    ("timeout", Kind::Length),
    ("deadline", Kind::Length),
    ("concurrency", Kind::Count(1)),
    ("waiting", Kind::Count(0)),
    ("attempts", Kind::Count(1)),
    ("fallback", Kind::Name),
    ("verify", Kind::Function),
    ("polling", Kind::Switch),
    ("output_bytes_max", Kind::Count(1)),
];

enum Value {
    Text(LitStr),
    Length { ms: u64, written: LitStr },
    Tokens(TokenStream),
}

impl Options {
    /// Reads what stands between the parentheses of `#[tool(…)]`, as far as it can be read.
    pub(crate) fn parse(tokens: TokenStream, problems: &mut Problems) -> Self {
        let mut options = Self::default();
        let pairs = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens).map_err(|error| {
            syn::Error::new(
                error.span(),
                "write keys with their values, like `#[tool(effect = \"read_only\")]`",
            )
        });
        let Some(pairs) = problems.take(pairs) else { return options };
        let mut seen: Vec<&str> = Vec::new();
        let mut lengths: Vec<(&str, u64, LitStr)> = Vec::new();
        for pair in &pairs {
            let Some((key, value)) = problems.take(read(pair)) else { continue };
            if seen.contains(&key) {
                problems.note(pair.path(), format!("`{key}` is given twice: keep one"));
                continue;
            }
            seen.push(key);
            match (key, value) {
                ("name", Value::Text(text)) => options.name = Some(text),
                (_, Value::Text(text)) => options.description = Some(text),
                (_, Value::Length { ms, written }) => {
                    options.set(key, quote!(::core::time::Duration::from_millis(#ms)));
                    lengths.push((key, ms, written));
                }
                (_, Value::Tokens(tokens)) => options.set(key, tokens),
            }
        }
        let of = |key| lengths.iter().find(|(name, ..)| *name == key);
        if let (Some((_, timeout_ms, timeout)), Some((_, deadline_ms, deadline))) =
            (of("timeout"), of("deadline"))
            && timeout_ms > deadline_ms
        {
            let (timeout_text, deadline_text) = (timeout.value(), deadline.value());
            let message = format!(
                "one attempt may take {timeout_text}, but the whole call only {deadline_text}: \
                 make `deadline` at least as long"
            );
            problems.note(timeout, message);
        }
        options
    }

    fn set(&mut self, key: &str, value: TokenStream) {
        let method = format_ident!("{key}");
        self.setters.push(quote!(.#method(#value)));
    }
}

fn read(pair: &Meta) -> syn::Result<(&'static str, Value)> {
    let path = pair.path();
    let written = quote!(#path).to_string();
    let Some((key, kind)) = KEYS.iter().find(|(key, _)| *key == written) else {
        let keys = KEYS.iter().map(|(key, _)| *key);
        let way_out = nearest(&written, keys.clone())
            .map(|key| format!("did you mean `{key}`?"))
            .unwrap_or_else(|| format!("the keys are `{}`", keys.collect::<Vec<_>>().join("`, `")));
        return Err(syn::Error::new_spanned(
            pair.path(),
            format!("`#[tool]` has no key `{written}`: {way_out}"),
        ));
    };
    let Meta::NameValue(MetaNameValue { value, .. }) = pair else {
        return Err(syn::Error::new_spanned(pair, format!("`{key}` needs {}", expected(key, kind))));
    };
    Ok((key, kind.value(key, value)?))
}

impl Kind {
    fn value(&self, key: &str, value: &Expr) -> syn::Result<Value> {
        let needs = format!("`{key}` needs {}", expected(key, self));
        let wrong = || syn::Error::new_spanned(value, &needs);
        if let (Self::Function, Expr::Path(function)) = (self, value) {
            return Ok(Value::Tokens(quote!(#function)));
        }
        let Expr::Lit(ExprLit { lit, .. }) = value else { return Err(wrong()) };
        match (self, lit) {
            (Self::Text, Lit::Str(text)) if !text.value().trim().is_empty() => Ok(Value::Text(text.clone())),
            (Self::Word(kind, words), Lit::Str(word)) => {
                let Some((_, variant)) = words.iter().find(|(name, _)| *name == word.value()) else {
                    let near = nearest(&word.value(), words.iter().map(|(name, _)| *name));
                    let asked = near.map(|near| format!(": did you mean \"{near}\"?")).unwrap_or_default();
                    return Err(syn::Error::new_spanned(value, needs + &asked));
                };
                let (kind, variant) = (format_ident!("{kind}"), format_ident!("{variant}"));
                Ok(Value::Tokens(quote!(::dauntless::__private::#kind::#variant)))
            }
            (Self::Length, Lit::Str(text)) => match length::millis(&text.value()) {
                Ok(ms) => Ok(Value::Length { ms, written: text.clone() }),
                Err(problem) => Err(syn::Error::new_spanned(value, format!("{problem}: {needs}"))),
            },
            (Self::Count(least), Lit::Int(count)) => match count.base10_parse::<u32>() {
                Ok(parsed) if parsed >= *least && count.suffix().is_empty() => {
                    Ok(Value::Tokens(quote!(#count)))
                }
                Ok(_) | Err(_) => Err(wrong()),
            },
            (Self::Name, Lit::Str(name)) if !name.value().trim().is_empty() => {
                Ok(Value::Tokens(quote!(#name)))
            }
            (Self::Switch, Lit::Bool(switch)) => Ok(Value::Tokens(quote!(#switch))),
            _ => Err(wrong()),
        }
    }
}

/// What a key takes, in words, with an example where one helps.
fn expected(key: &str, kind: &Kind) -> String {
    match kind {
        Kind::Text => format!("a text that says something, like `{key} = \"…\"`"),
        Kind::Word(_, words) => {
            let words: Vec<String> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            format!("one of {}", words.join(", "))
        }
        Kind::Length => {
            format!("a length like `{key} = \"5s\"`, in whole `ms`, `s`, `m` or `h`, and not zero")
        }
        Kind::Count(least) => format!("a whole number from {least} to {}, like `{key} = 8`", u32::MAX),
        Kind::Name => format!("the name of another tool, like `{key} = \"archive\"`"),
        Kind::Function => {
            format!("the path of a function of a `ToolCtx` and the arguments, like `{key} = was_sent`")
        }
        Kind::Switch => format!("`{key} = true` or `{key} = false`"),
    }
}

/// The candidate that a typo most likely meant, if any is near.
fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &str| strsim::jaro_winkler(written, candidate);
    candidates.filter(|candidate| near(candidate) > 0.8).max_by(|a, b| near(a).total_cmp(&near(b)))
}
