//! A rehearsal: real tools against a real service that misbehaves on purpose.
//!
//! It runs the whole product on a machine without a key and without a network: the configuration is
//! read as a user's would be, the tools speak real HTTP and start real processes, and a scripted
//! model works through the task. It shows what the harness does; it is no test of a model, though
//! one can be put in the script's place.

mod service;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::{self, ChaosSwitch, DEFAULT_MODEL, Report};
use crate::wiring::{App, BuildError, DirectModel, Environment, NoAgent, RunStream, SubmitError};
use service::Service;

/// Which rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// About 20 calls through every kind of trouble; ends `completed`.
    Main,
    /// A credential that nobody in the run can fix; ends `tool_terminal`.
    Terminal,
}

/// A rehearsal that is set up and not yet started.
pub struct Rehearsal {
    scenario: Scenario,
    app: App,
    service: Service,
    model: Arc<str>,
}

/// The rehearsal could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RehearsalError {
    /// No port, or no place for the files.
    #[error("the rehearsal could not set up its service: {0}")]
    Io(#[from] io::Error),
    /// The configuration inside is broken: a defect of this program.
    #[error("the rehearsal's own configuration is broken; please report this:\n{0}")]
    Config(Report),
    /// The model's name or address is none.
    #[error("{0}")]
    Model(Report),
    /// The runtime did not start.
    #[error(transparent)]
    Runtime(#[from] BuildError),
    /// The agent did not start.
    #[error(transparent)]
    Agent(#[from] NoAgent),
    /// The run was not taken on.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

const CONFIG: &str = include_str!("rehearsal.toml");

impl Scenario {
    const fn script(self) -> &'static str {
        match self {
            Self::Main => include_str!("main.script.toml"),
            Self::Terminal => include_str!("terminal.script.toml"),
        }
    }

    const fn agent(self) -> &'static str {
        match self {
            Self::Main => "clerk",
            Self::Terminal => "auditor",
        }
    }

    /// What the agent is asked.
    pub const fn goal(self) -> &'static str {
        match self {
            Self::Main => {
                "A customer asks about orders ORD-2026-99999 and ORD-2026-00042. Check the stock of every \
                 article, when the carrier delivers and what the reviews say, refund the order that exists, \
                 and print a label for the order and one for the refund."
            }
            Self::Terminal => "How many loyalty points does the customer of ORD-2026-00042 have?",
        }
    }
}

impl Rehearsal {
    /// Opens the service and assembles the agent, with a real model in the script's place if one is
    /// given, and with tools that fail on purpose on top if chaos is asked for.
    ///
    /// # Errors
    /// [`RehearsalError`], saying what was not to be had.
    pub async fn set_up(
        scenario: Scenario,
        model: Option<&DirectModel>,
        chaos: Option<ChaosSwitch>,
        environment: Environment<'_>,
    ) -> Result<Self, RehearsalError> {
        let service = Service::open().await?;
        let folder = Folder::new()?;
        std::fs::write(folder.0.join("script.toml"), scenario.script())?;
        let text = CONFIG
            .replace("SERVICE", &service.address().to_string())
            .replace("DEAD", &service.dead_address().to_string())
            .replace("SCRIPT", "script.toml");
        let mut config = config::parse(&text, "rehearsal.toml", &folder.0).map_err(RehearsalError::Config)?;
        if let Some(switch) = chaos {
            config.chaos.switch_on(switch);
        }
        let app = match model {
            None => App::assemble(&config, environment).await?,
            Some(model) => {
                let mut direct = model.config().map_err(RehearsalError::Model)?;
                config.models.extend(direct.models.remove_entry(DEFAULT_MODEL));
                App::assemble(&config, &model.environment(environment)).await?
            }
        };
        let model =
            config.models.get(DEFAULT_MODEL).map_or_else(|| "".into(), |model| model.spec.name.clone());
        Ok(Self { scenario, app, service, model })
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`RehearsalError`], when the agent cannot run.
    pub async fn start(&self) -> Result<RunStream, RehearsalError> {
        let agent = self.app.agent(Some(self.scenario.agent()))?;
        Ok(self.app.runtime().stream(agent, self.scenario.goal()).await?)
    }

    /// The name of the model that works in it.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What runs it.
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// How many refunds the service has made.
    pub fn refunds(&self) -> usize {
        self.service.refunds()
    }
}

/// A folder of its own under the system's, removed at the end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("dauntless-rehearsal-{}-{}", std::process::id(), now.as_nanos());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
