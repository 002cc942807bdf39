//! `dauntless check`: what is wrong with a configuration, in the file and on this machine.

use std::fmt::Write as _;
use std::sync::Arc;

use dauntless_daemon::config::{self, AgentConfig, Config, ModelConfig, Report, WindowSource};
use dauntless_daemon::probe;
use dauntless_daemon::wiring::{App, lacks};

use crate::args::CheckArgs;
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, END_WITHIN, Watching};

pub(crate) fn check(args: &CheckArgs) -> Result<Exit, Stop> {
    let config = config::load(&args.config)?;
    let mut found = String::new();
    for (name, agent) in &config.agents {
        let _ = writeln!(found, "agent {name} on {}: {}", model(&config, agent), tools(agent));
        let asks = agent.asks();
        if !asks.is_empty() {
            let _ = writeln!(found, "  may ask {}", asks.join(", "));
        }
    }
    for (name, plan) in &config.plans {
        let _ = writeln!(found, "plan {name}");
        for line in plan.outline() {
            let _ = writeln!(found, "  {line}");
        }
    }
    output::print(&found)?;
    for warning in windows(&config) {
        output::tell(&warning);
    }
    let lacking = config::load_with(&args.config, &mut |tool| lacks(tool, &process::environment)).err();
    process::block_on(&Watching::default(), async {
        let checked = machine(&config, lacking).await;
        if !args.probe {
            return checked;
        }
        let probed = models(&config).await;
        checked.and(probed)
    })
}

/// Asks one model after another: several may share one machine.
async fn models(config: &Config) -> Result<Exit, Stop> {
    let mut failed = 0;
    for (name, model) in &config.models {
        let probed = probe::probe(name, model, config, &process::environment).await;
        failed += usize::from(!probed.works());
        output::print(&output::harmless(&format!("{probed}\n")))?;
    }
    match failed {
        0 => Ok(Exit::COMPLETED),
        n => Err(Stop::new(
            Exit::PROBE_FAILED,
            format_args!("{n} of {} models cannot work as configured", config.models.len()),
        )),
    }
}

fn model<'a>(config: &'a Config, agent: &'a AgentConfig) -> &'a str {
    config.models.get(&agent.model).map_or(&agent.model, |model| &model.spec.name)
}

/// What is only guessed of the models in use.
fn windows(config: &Config) -> Vec<String> {
    let used = |name: &Arc<str>| {
        let falls_back = |model: &ModelConfig| model.fallback.as_ref().is_some_and(|(to, _)| to == name);
        config.agents.values().any(|agent| agent.model == *name) || config.models.values().any(falls_back)
    };
    let models = config.models.iter().filter(|(name, _)| used(name));
    models
        .filter_map(|(name, model)| {
            let guess = match model.window() {
                WindowSource::Set => return None,
                WindowSource::ByName(tokens) => format!("it is taken to be {tokens} by the name"),
                WindowSource::Unknown => "it is not known before a request is refused for its length".to_owned(),
            };
            Some(format!(
                "dauntless: model `{name}` ({}) has no `context_window`: {guess}. Set it to what the service grants.",
                model.spec.name
            ))
        })
        .collect()
}

fn tools(agent: &AgentConfig) -> String {
    match agent.tools.is_empty() {
        true => "no tools".to_owned(),
        false => agent.tools.join(", "),
    }
}

/// What cannot start here: tools with their places in the file, then agents.
async fn machine(config: &Config, lacking: Option<Report>) -> Result<Exit, Stop> {
    let app = App::assemble(config, &process::environment).await;
    let app = app.map_err(|error| Stop::new(Exit::INTERNAL, error))?;
    let agents = app.broken().iter().filter(|part| part.is_agent()).map(ToString::to_string);
    let told: Vec<String> = lacking.iter().map(ToString::to_string).chain(agents).collect();
    app.shutdown(END_WITHIN).await;
    match told.is_empty() {
        true => {
            output::print("No mistakes, and everything can start on this machine.\n")?;
            Ok(Exit::COMPLETED)
        }
        false => Err(Stop::verbatim(Exit::CANNOT_START, told.join("\n"))),
    }
}
