//! The table that lets tools fail on purpose: how it is written, and what it comes to for each tool.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use dauntless_tools::{ChaosPlan, FaultKind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::unit::Wait;

/// Which tools fail on purpose, and how. Off unless somebody says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct ChaosConfig {
    /// Whether any of it takes place.
    pub enabled: bool,
    /// What chance starts from.
    pub seed: u64,
    /// What happens to a tool that has nothing of its own.
    pub plan: ChaosPlan,
    /// What is different for single tools. Keys of [`Config::tools`](super::Config::tools).
    pub tools: BTreeMap<Arc<str>, ToolChaos>,
}

/// What is different for one tool; what is `None` is as for all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolChaos {
    /// For [`ChaosPlan::rate`].
    pub rate: Option<f64>,
    /// For [`ChaosPlan::kinds`].
    pub kinds: Option<Vec<FaultKind>>,
    /// For [`ChaosPlan::latency`].
    pub latency: Option<RangeInclusive<Duration>>,
    /// For [`ChaosPlan::after_effect_ratio`].
    pub after_effect_ratio: Option<f64>,
}

/// Chaos that is asked for on a command line, over what the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChaosSwitch {
    /// In place of the rate for all tools; a tool that has one of its own keeps it.
    pub rate: Option<f64>,
    /// In place of the seed.
    pub seed: Option<u64>,
}

impl ChaosConfig {
    /// Switches it on.
    pub fn switch_on(&mut self, switch: ChaosSwitch) {
        self.enabled = true;
        self.plan.rate = switch.rate.unwrap_or(self.plan.rate);
        self.seed = switch.seed.unwrap_or(self.seed);
    }

    /// What happens to a tool; `None` when it is left alone.
    pub fn plan(&self, tool: &str) -> Option<ChaosPlan> {
        let mut plan = self.plan.clone();
        if let Some(own) = self.tools.get(tool) {
            let own = own.clone();
            plan.rate = own.rate.unwrap_or(plan.rate);
            plan.kinds = own.kinds.unwrap_or(plan.kinds);
            plan.latency = own.latency.unwrap_or(plan.latency);
            plan.after_effect_ratio = own.after_effect_ratio.unwrap_or(plan.after_effect_ratio);
        }
        (self.enabled && (plan.breaks() || plan.slows())).then_some(plan)
    }
}

/// Faults on purpose, so that you see how the agents take them. Nothing of it unless enabled.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChaosFile {
    /// Whether tools fail on purpose. --chaos does the same for one command.
    pub(super) enabled: bool,
    /// What chance starts from: with the same seed the same faults strike.
    pub(super) seed: u64,
    /// The share of attempts that fail, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub(super) rate: f64,
    /// The faults, each as likely as the others: failure codes that a tool can give, "panic", and
    /// "hang", which never answers and so costs the timeout of its attempt.
    pub(super) kinds: Vec<Kind>,
    /// Every attempt waits for a length out of this range first.
    #[schemars(extend("title" = LATENCY))]
    pub(super) latency: [Wait; 2],
    /// The share of faults that strike when the tool has already done its work, so that its answer
    /// is lost. Only of faults that leave this open: a tool that says rate_limited did nothing.
    #[schemars(range(min = 0, max = 1))]
    pub(super) after_effect_ratio: f64,
    /// What is different for single tools, by their name.
    pub(super) tools: BTreeMap<String, ChaosToolFile>,
}

/// What is different for one tool. Each key that is absent is as for all.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChaosToolFile {
    /// The share of attempts that fail, from 0 to 1. With 0 it never does, whatever --chaos says.
    #[schemars(range(min = 0, max = 1))]
    pub(super) rate: Option<f64>,
    /// The faults.
    pub(super) kinds: Option<Vec<Kind>>,
    /// Every attempt waits for a length out of this range first.
    #[schemars(extend("title" = LATENCY))]
    pub(super) latency: Option<[Wait; 2]>,
    /// The share of faults that strike when the tool has already done its work.
    #[schemars(range(min = 0, max = 1))]
    pub(super) after_effect_ratio: Option<f64>,
}

const LATENCY: &str = "two lengths of time like [\"0ms\", \"500ms\"]";

impl Default for ChaosFile {
    fn default() -> Self {
        let plan = ChaosPlan::default();
        Self {
            enabled: false,
            seed: 1,
            rate: plan.rate,
            kinds: plan.kinds.into_iter().map(Kind).collect(),
            latency: [Wait(*plan.latency.start()), Wait(*plan.latency.end())],
            after_effect_ratio: plan.after_effect_ratio,
            tools: BTreeMap::new(),
        }
    }
}

impl From<ChaosFile> for ChaosConfig {
    fn from(file: ChaosFile) -> Self {
        let plan = ChaosPlan {
            rate: file.rate,
            kinds: kinds(file.kinds),
            latency: range(file.latency),
            after_effect_ratio: file.after_effect_ratio,
        };
        let tool = |(name, file): (String, ChaosToolFile)| {
            let tool = ToolChaos {
                rate: file.rate,
                kinds: file.kinds.map(kinds),
                latency: file.latency.map(range),
                after_effect_ratio: file.after_effect_ratio,
            };
            (name.into(), tool)
        };
        Self {
            enabled: file.enabled,
            seed: file.seed,
            plan,
            tools: file.tools.into_iter().map(tool).collect(),
        }
    }
}

fn kinds(written: Vec<Kind>) -> Vec<FaultKind> {
    written.into_iter().map(|kind| kind.0).collect()
}

fn range([from, to]: [Wait; 2]) -> RangeInclusive<Duration> {
    from.0..=to.0
}

/// The name of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind(FaultKind);

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Kind {
    fn schema_name() -> Cow<'static, str> {
        "Fault".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all: Vec<&str> = FaultKind::all().map(FaultKind::as_str).collect();
        json_schema!({ "type": "string", "enum": all })
    }
}
