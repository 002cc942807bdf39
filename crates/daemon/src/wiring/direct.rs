//! A model that is named on a command line, where there is no configuration to name it.

use std::path::Path;

use super::Environment;
use crate::config::{self, Config, Report};

/// Stands where a key has to be and none is needed.
const NO_KEY: &str = "no-key-is-needed-here";

const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// A model by its name and, for a service other than OpenAI's own, its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectModel {
    /// The name, as the provider knows it.
    pub name: String,
    /// The address, like `http://127.0.0.1:8080/v1`. Without it: OPENAI_BASE_URL, else OpenAI's own.
    pub base_url: Option<String>,
}

impl DirectModel {
    /// A configuration with one agent on this model, without instructions and without tools.
    ///
    /// # Errors
    /// A [`Report`], when the name is blank or the address is none.
    pub fn config(&self) -> Result<Config, Report> {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = format!("[model]\nprovider = \"openai\"\nname = {}\n", quoted(&self.name));
        if let Some(url) = &self.base_url {
            text.push_str(&format!("base_url = {}\n", quoted(url)));
        }
        text.push_str("[agents.assistant]\ninstructions = \"\"\n");
        config::parse(&text, "command line", Path::new(""))
    }

    /// The environment in which this model starts: a service with an address of its own may do
    /// without a key.
    pub fn environment<'a>(
        &self,
        outer: Environment<'a>,
    ) -> impl Fn(&str) -> Option<String> + Send + Sync + use<'a> {
        let needs_no_key = self.base_url.is_some();
        move |name| {
            let value = outer(name).filter(|value| !value.trim().is_empty());
            value.or_else(|| (needs_no_key && name == KEY_VARIABLE).then(|| NO_KEY.to_owned()))
        }
    }
}
