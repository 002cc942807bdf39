//! The tools of one agent, and the gate that every call of a model passes.
//!
//! A declaration that cannot be offered is quarantined with its reason and harms no other tool. A
//! call is either fit to run as it stands or answered at once; it is never guessed at, completed or
//! sent to a tool with a similar name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dauntless_contract::{Failure, Json, RawCall, ToolCall, ToolSpec};
use jsonschema::Validator;

use crate::arguments::{Arguments, explain, fit, read};
use crate::names::legal;

mod answers;
mod compile;
mod fallback;
mod fingerprint;
mod naming;

pub use crate::arguments::Repair;
pub(crate) use compile::validator;
pub(crate) use fingerprint::Digest;
pub use fingerprint::Fingerprint;
pub use naming::{SourceName, shown_names};

/// The tools that one agent may call, each with its compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    offered: Arc<[Arc<ToolSpec>]>,
    declared_tokens: u64,
    tools: Arc<BTreeMap<Arc<str>, Entry>>,
}

struct Entry {
    spec: Arc<ToolSpec>,
    validator: Validator,
}

/// A tool that is not offered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The name it was declared with.
    pub name: Arc<str>,
    /// A sentence for the operator: which tool, what is wrong, and how to put it right.
    pub reason: String,
}

/// The output limit that cut a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// The limit in tokens, where known; it is named to the model.
    pub tokens: Option<u32>,
}

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It may run.
    Run {
        /// The call; its arguments fit the schema.
        call: ToolCall,
        /// The tool.
        spec: Arc<ToolSpec>,
        /// What makes it the same call as another.
        fingerprint: Fingerprint,
        /// What was done to the model's text; the first 20 and the two of the whole text.
        repairs: Vec<Repair>,
    },
    /// It must not run; this is its answer.
    Answered {
        /// The call as it may stand in a history: the name is legal, and the arguments are `{}`
        /// where they were not one JSON object.
        call: ToolCall,
        /// Why not.
        failure: Failure,
        /// What makes it the same call as another.
        fingerprint: Fingerprint,
    },
}

impl Toolbox {
    /// Checks and compiles declarations; those that cannot be offered are returned beside.
    ///
    /// Of two tools with one name the first is kept. A fallback that is not there, or that leads back
    /// to its own tool, is reported for the tool that names it.
    pub fn build(specs: Vec<Arc<ToolSpec>>) -> (Self, Vec<Quarantined>) {
        let mut offered = Vec::with_capacity(specs.len());
        let mut tools = BTreeMap::new();
        let mut quarantined = Vec::new();
        for spec in specs {
            let name = Arc::clone(&spec.name);
            let compiled = if tools.contains_key(&name) {
                Err(format!(
                    "tool `{name}` is declared twice: the first one is kept, give this one another name"
                ))
            } else {
                compile::compile(&spec)
            };
            match compiled {
                Ok(validator) => {
                    offered.push(Arc::clone(&spec));
                    tools.insert(name, Entry { spec, validator });
                }
                Err(reason) => quarantined.push(Quarantined { name, reason }),
            }
        }
        let specs = tools.iter().map(|(name, entry)| (name, &*entry.spec)).collect();
        quarantined.extend(fallback::problems(&specs));
        let declared_tokens = offered.iter().map(|spec| declaration_tokens(spec)).sum();
        (Self { offered: offered.into(), declared_tokens, tools: Arc::new(tools) }, quarantined)
    }

    /// The tools in the order of their declaration.
    pub const fn offered(&self) -> &Arc<[Arc<ToolSpec>]> {
        &self.offered
    }

    /// What the declarations take of a context window, by estimate.
    pub(crate) const fn declared_tokens(&self) -> u64 {
        self.declared_tokens
    }

    /// The tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.tools.get(name).map(|entry| &entry.spec)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tools.keys().map(|name| &**name)
    }

    /// Decides whether a call may run.
    ///
    /// `cut` says that the output limit cut the reply and that this call is the last in it: then it
    /// does not run even if it happens to be complete. Calls before it pass `None`.
    pub fn admit(&self, raw: &RawCall, cut: Option<OutputLimit>) -> Admission {
        let arguments = read(&raw.arguments);
        let entry = self.tools.get(&raw.name);
        if let Some(reason) = &raw.garbled {
            return answered(raw, arguments.ok(), answers::garbled(&raw.name, reason));
        }
        if let Some(limit) = cut {
            let spec = entry.map(|entry| &*entry.spec);
            return answered(raw, arguments.ok(), answers::cut(&raw.name, limit, spec));
        }
        match (entry, arguments) {
            (Some(entry), Ok(arguments)) => entry.admit(raw, arguments),
            (Some(entry), Err(problem)) => answered(raw, None, answers::unreadable(&entry.spec, problem)),
            (None, arguments) => self.admit_meant(raw).unwrap_or_else(|| Admission::Answered {
                call: shown(raw, arguments.map_or_else(|_| Json::empty_object(), |read| read.text)),
                failure: answers::unknown_tool(&raw.name, self),
                fingerprint: Fingerprint::of_unknown(&raw.name),
            }),
        }
    }

    /// Admits a call under a name that is a tool's but for a namespace, if its arguments fit that
    /// tool: with any doubt the model is asked instead.
    fn admit_meant(&self, raw: &RawCall) -> Option<Admission> {
        let entry = self.tools.get(naming::meant(&raw.name, self.names())?)?;
        let meant = RawCall { name: Arc::clone(&entry.spec.name), ..raw.clone() };
        match entry.admit(&meant, read(&raw.arguments).ok()?) {
            Admission::Run { call, spec, fingerprint, mut repairs } => {
                repairs.insert(0, Repair::Renamed { written: legal(&raw.name) });
                Some(Admission::Run { call, spec, fingerprint, repairs })
            }
            Admission::Answered { .. } => None,
        }
    }
}

impl Entry {
    /// Coerces, validates, and explains what is wrong.
    fn admit(&self, raw: &RawCall, arguments: Arguments) -> Admission {
        let Arguments { mut text, mut tree, mut value, mut repairs } = arguments;
        let as_written = text.clone();
        let coerced = fit(&mut tree, &self.spec.parameters);
        if !coerced.is_empty() {
            value = tree.to_value();
            text = Json::parse(&tree.to_string()).unwrap_or(text);
            repairs.extend(coerced);
        }
        let fingerprint = Fingerprint::of(&self.spec.name, &tree);
        match explain(&self.validator, &self.spec.parameters, &value) {
            None => {
                let spec = Arc::clone(&self.spec);
                Admission::Run { call: shown(raw, text), spec, fingerprint, repairs }
            }
            Some(explained) => {
                let failure = answers::misfit(&self.spec, explained);
                Admission::Answered { call: shown(raw, as_written), failure, fingerprint }
            }
        }
    }
}

fn declaration_tokens(spec: &ToolSpec) -> u64 {
    const MARKS: u64 = 16;
    let schema = spec.parameters.to_string();
    MARKS + [&*spec.name, &*spec.description, &schema].into_iter().map(crate::context::estimate).sum::<u64>()
}

/// Answers a call that got no further than its text.
fn answered(raw: &RawCall, arguments: Option<Arguments>, failure: Failure) -> Admission {
    let (arguments, fingerprint) = match arguments {
        Some(arguments) => (arguments.text, Fingerprint::of(&raw.name, &arguments.tree)),
        None => (Json::empty_object(), Fingerprint::of_unreadable(&raw.name, &raw.arguments)),
    };
    Admission::Answered { call: shown(raw, arguments), failure, fingerprint }
}

/// The call as it may stand in a history.
fn shown(raw: &RawCall, arguments: Json) -> ToolCall {
    ToolCall { id: Arc::clone(&raw.id), name: legal(&raw.name).into(), arguments }
}

/// Equal when the same tools are offered in the same order.
impl PartialEq for Toolbox {
    fn eq(&self, other: &Self) -> bool {
        self.offered == other.offered
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests;
