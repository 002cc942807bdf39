//! The JSON body of a request.

use std::collections::BTreeSet;

use dauntless_contract::{Failure, Json};
use serde_json::Value;

use super::config::{BodyConfig, BodyFrom};
use crate::arguments::Arguments;
use crate::config::Reader;
use crate::template::Template;

/// How the body of a request is made.
pub(super) enum Body {
    None,
    Arguments,
    /// The arguments that are not used elsewhere.
    Without(BTreeSet<String>),
    Template(Node),
}

/// JSON with templates in its strings.
pub(super) enum Node {
    Fixed(Value),
    Text(Template),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Body {
    /// Reads what the body is made of; must come after everything else that uses arguments.
    pub(super) fn read(config: &BodyConfig, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match config {
            BodyConfig::From(BodyFrom::None) => Self::None,
            BodyConfig::From(BodyFrom::Arguments) => Self::Arguments,
            BodyConfig::From(BodyFrom::Rest) => Self::Without(reader.used()),
            BodyConfig::Template(map) => {
                Self::Template(Node::read(&Value::Object(map.clone()), "body", reader)?)
            }
        })
    }

    /// The body of one call.
    pub(super) fn render(&self, all: &Json, arguments: &Arguments) -> Result<Option<String>, Failure> {
        match self {
            Self::None => Ok(None),
            Self::Arguments => Ok(Some(all.to_string())),
            Self::Without(used) => Ok(Some(arguments.without(used))),
            Self::Template(node) => node.render(arguments),
        }
    }
}

impl Node {
    fn read(value: &Value, field: &str, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match value {
            Value::String(text) => Self::Text(reader.template(field, text)?),
            Value::Array(items) => {
                let nodes = items.iter().enumerate();
                let nodes: Vec<_> = nodes
                    .map(|(index, item)| Self::read(item, &format!("{field}.{index}"), reader))
                    .collect();
                Self::Array(nodes.into_iter().collect::<Option<_>>()?)
            }
            Value::Object(map) => {
                let nodes = map.iter().map(|(key, item)| {
                    Self::read(item, &format!("{field}.{key}"), reader).map(|node| (key.clone(), node))
                });
                let nodes: Vec<_> = nodes.collect();
                Self::Object(nodes.into_iter().collect::<Option<_>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Fixed(value.clone()),
        })
    }

    /// JSON text, or `None` for a value that is left out because its argument is absent.
    fn render(&self, arguments: &Arguments) -> Result<Option<String>, Failure> {
        match self {
            Self::Fixed(value) => Ok(Some(value.to_string())),
            Self::Text(template) => {
                let json = template.only_hole().and_then(|name| arguments.json(name));
                match json {
                    Some(json) => Ok(Some(json.to_owned())),
                    None => Ok(template
                        .render(arguments, str::to_owned)?
                        .map(|text| Value::from(text).to_string())),
                }
            }
            Self::Array(nodes) => {
                let items = nodes.iter().filter_map(|node| node.render(arguments).transpose());
                Ok(Some(format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(","))))
            }
            Self::Object(nodes) => {
                let pairs = nodes.iter().filter_map(|(key, node)| {
                    let value = node.render(arguments).transpose()?;
                    Some(value.map(|value| format!("{}:{value}", Value::from(key.as_str()))))
                });
                Ok(Some(format!("{{{}}}", pairs.collect::<Result<Vec<_>, _>>()?.join(","))))
            }
        }
    }
}
