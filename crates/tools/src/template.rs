//! Text with placeholders for arguments.

use dauntless_contract::Failure;

use crate::arguments::Arguments;

/// Text with placeholders: `{name}`, `{name?}` for one that may be absent, `{{` and `}}` for braces.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Hole { name: String, optional: bool },
}

impl Template {
    /// Text without any placeholder.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self(vec![Part::Text(text.into())])
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = after.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let (hole, after) = after.strip_prefix('{').and_then(|hole| hole.split_once('}')).ok_or(
                    "a brace has no partner: write `{name}` for an argument, `{{` or `}}` for a brace",
                )?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::hole(hole)?);
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The same with every placeholder optional and the text around them encoded as well.
    pub(crate) fn lenient(self, encode: impl Fn(&str) -> String) -> Self {
        let parts = self.0.into_iter().map(|part| match part {
            Part::Text(text) => Part::Text(encode(&text)),
            Part::Hole { name, .. } => Part::Hole { name, optional: true },
        });
        Self(parts.collect())
    }

    /// The names in the placeholders, and whether each may be absent.
    pub(crate) fn holes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Hole { name, optional } => Some((name.as_str(), *optional)),
        })
    }

    pub(crate) fn is_literal(&self) -> bool {
        self.holes().next().is_none()
    }

    /// The text, if it has no placeholder.
    pub(crate) fn fixed(&self) -> Option<String> {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Hole { .. } => None,
            })
            .collect()
    }

    /// Whether the text begins with an argument's value.
    pub(crate) fn begins_with_hole(&self) -> bool {
        matches!(self.0.first(), Some(Part::Hole { .. }))
    }

    /// The name, if the template is one placeholder and nothing else.
    pub(crate) fn only_hole(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Hole { name, .. }] => Some(name),
            _ => None,
        }
    }

    /// Puts the values in, each as `encode` writes it. `None` when an optional one is absent.
    pub(crate) fn render(
        &self,
        arguments: &Arguments,
        encode: impl Fn(&str) -> String,
    ) -> Result<Option<String>, Failure> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole { name, optional } => match arguments.text(name) {
                    Some(value) => out.push_str(&encode(&value)),
                    None if *optional => return Ok(None),
                    None => return Err(missing(name)),
                },
            }
        }
        Ok(Some(out))
    }
}

impl Part {
    fn hole(text: &str) -> Result<Self, String> {
        let (name, optional) = text.strip_suffix('?').map_or((text, false), |name| (name, true));
        if name.is_empty() || name.contains('{') {
            return Err(format!(
                "`{{{text}}}` names no parameter: write `{{name}}`, or `{{{{` and `}}}}` for braces"
            ));
        }
        Ok(Self::Hole { name: name.to_owned(), optional })
    }
}

fn missing(name: &str) -> Failure {
    Failure::invalid_arguments(format!("`{name}` has no value, and the call cannot be made without one."))
        .detail(format!("$.{name}"), "a value", "null or nothing")
}
