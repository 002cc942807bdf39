//! `dauntless rehearse`: a run through trouble, shown as it happens and summed up in a table.

use std::io;

use dauntless_contract::Progress;
use dauntless_daemon::chaos::ChaosReport;
use dauntless_daemon::rehearsal::{Rehearsal, RehearsalError, Scenario};
use dauntless_daemon::tally::Tally;

use crate::args::{RehearseArgs, direct_model};
use crate::chaos;
use crate::control;
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, END_WITHIN, Watching};
use crate::screen::{Detail, Screen};
use crate::signals::Signals;
use crate::view::{self, View};

pub(crate) fn rehearse(args: &RehearseArgs) -> Result<Exit, Stop> {
    let watching = Watching { progress: !args.json, ..Watching::default() };
    process::block_on(&watching, async {
        let scenario = Scenario::from(args.scenario);
        let model = direct_model(args.model.clone(), args.base_url.clone());
        let rehearsal =
            Rehearsal::set_up(scenario, model.as_ref(), args.chaos.switch(), &process::environment).await?;
        let signals = Signals::listen(rehearsal.app().killer())?;
        let command = async {
            let control = control::open(rehearsal.app(), &args.control).await;
            let result = shown(args, scenario, &rehearsal, &signals).await;
            rehearsal.app().shutdown(END_WITHIN).await;
            drop(control);
            result
        };
        signals.guard(command).await
    })
}

async fn shown(
    args: &RehearseArgs,
    scenario: Scenario,
    rehearsal: &Rehearsal,
    signals: &Signals,
) -> Result<Exit, Stop> {
    for broken in rehearsal.app().broken() {
        output::tell(&format!("dauntless: {broken}"));
    }
    chaos::warn(rehearsal.app());
    let mut report = ChaosReport::default();
    let stream = rehearsal.start().await?;
    if args.json {
        let mut view = View::<io::Stdout>::Json;
        let ended = view::follow(stream, signals, &mut view, |event| report.see(event)).await?;
        chaos::tell(rehearsal.app(), &report);
        return Ok(ended.exit);
    }
    let model = rehearsal.model();
    output::print(&format!(
        "A rehearsal with the model `{model}`. The tools are real; what they talk to misbehaves on purpose.\n\n\
         Goal: {}\n\n",
        scenario.goal()
    ))?;
    let stdout = io::stdout();
    let detail = if output::is_rewritable(&stdout) { Detail::Live } else { Detail::Final };
    let color = output::is_colorful(&stdout);
    let mut view = View::lines(Screen::new(stdout, detail, color), None);
    let mut tally = Tally::default();
    let count = |event: &Progress| {
        tally.see(event);
        report.see(event);
    };
    let ended = view::follow(stream, signals, &mut view, count).await?;
    let end = match ended.outcome.answer() {
        Some(answer) => format!("\nAnswer: {}\n", output::harmless(answer)),
        None => String::new(),
    };
    output::print(&format!("{end}\n{}", tally.table(&ended.outcome, rehearsal.refunds())))?;
    chaos::tell(rehearsal.app(), &report);
    Ok(ended.exit)
}

impl From<RehearsalError> for Stop {
    fn from(error: RehearsalError) -> Self {
        match error {
            RehearsalError::Model(report) => report.into(),
            RehearsalError::Agent(error) => error.into(),
            error => Self::new(Exit::INTERNAL, error),
        }
    }
}
