//! Commands that only print a text: the schema, the example, completions.

use clap::CommandFactory;
use clap_complete::Shell;
use dauntless_daemon::config;

use crate::args::Args;
use crate::exit::{Exit, Stop};
use crate::output::print;

pub(crate) fn schema() -> Result<Exit, Stop> {
    print(&format!("{:#}\n", config::schema()))?;
    Ok(Exit::COMPLETED)
}

pub(crate) fn example() -> Result<Exit, Stop> {
    print(include_str!("../../../../config/dauntless.example.toml"))?;
    Ok(Exit::COMPLETED)
}

pub(crate) fn completions(shell: Shell) -> Result<Exit, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "dauntless", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::COMPLETED)
}
