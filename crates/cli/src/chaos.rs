//! What is said on standard error while chaos is on: that it is, and what came of it.

use dauntless_daemon::chaos::ChaosReport;
use dauntless_daemon::wiring::App;

use crate::output;

/// Says what fails on purpose, before anything does.
pub(crate) fn warn(app: &App) {
    if let Some(chaos) = app.chaos() {
        output::tell(&format!("dauntless: {}", chaos.banner()));
    }
}

/// Says what became of it.
pub(crate) fn tell(app: &App, report: &ChaosReport) {
    if let Some(chaos) = app.chaos() {
        output::tell(&report.table(chaos));
    }
}
