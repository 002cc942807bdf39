//! What a panic says, and where.
//!
//! A panic in a tool costs its attempt and is reported by the runtime; its text belongs into the
//! log, not across the screen of whoever watches the run. The backtrace comes with it where the log
//! is kept or was asked for: when standard error is no terminal, or `DAUNTLESS_LOG` is set.

use std::backtrace::Backtrace;
use std::io::IsTerminal;

use crate::output;
use crate::process::LOG_VARIABLE;

pub(crate) fn install_hook() {
    let with_backtrace = !std::io::stderr().is_terminal() || std::env::var_os(LOG_VARIABLE).is_some();
    std::panic::set_hook(Box::new(move |info| {
        let is_ours = std::thread::current().name() == Some("main");
        let what = output::one_line(&info.to_string(), 400);
        match with_backtrace {
            true => tracing::error!(target: "dauntless::panic", "{what}\n{}", Backtrace::force_capture()),
            false => tracing::error!(
                target: "dauntless::panic",
                "{what} ({LOG_VARIABLE}=error adds the backtrace)"
            ),
        }
        if is_ours {
            output::tell(&format!("dauntless: this is a defect of Dauntless, please report it: {what}"));
        }
    }));
}
