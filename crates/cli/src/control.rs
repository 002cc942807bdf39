//! The control socket of this command while it runs, and the way to those of other processes.

use std::path::PathBuf;

use dauntless_daemon::control::{self, ControlError, ControlSocket};
use dauntless_daemon::wiring::App;

use crate::args::{ControlArgs, ProcessArgs};
use crate::exit::{Exit, Stop};
use crate::output;

/// Opens it, unless nobody shall look. Without it the command goes on, and says so.
pub(crate) async fn open(app: &App, args: &ControlArgs) -> Option<ControlSocket> {
    if args.no_control {
        return None;
    }
    let opened = match &args.control {
        Some(path) => ControlSocket::open(app, path).await,
        None => match directory() {
            Ok(directory) => ControlSocket::open_in(app, &directory).await,
            Err(error) => Err(error),
        },
    };
    opened
        .inspect_err(|error| {
            output::tell(&format!(
                "dauntless: `dauntless tools --status` will not show this process: {error} (--control PATH \
                 puts its socket elsewhere, --no-control does without)"
            ));
        })
        .ok()
}

/// The sockets of the processes that are meant. Also those where nobody listens any more.
pub(crate) fn sockets(process: &ProcessArgs) -> Result<Vec<PathBuf>, Stop> {
    let failed = |error: ControlError| Stop::new(Exit::NOT_RUNNING, error);
    if let Some(path) = &process.control {
        return Ok(vec![path.clone()]);
    }
    let directory = directory().map_err(failed)?;
    match process.pid {
        Some(pid) => Ok(vec![control::socket_of(&directory, pid)]),
        None => control::sockets(&directory).map_err(failed),
    }
}

/// The folder of this user's sockets. A variable that names no folder, as after `su`, is no help.
fn directory() -> Result<PathBuf, ControlError> {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime_dir = runtime_dir.filter(|path| path.is_absolute() && path.is_dir());
    let temp_dir = std::env::temp_dir();
    control::directory(runtime_dir.as_deref(), &temp_dir)
        .map_err(|error| ControlError { path: temp_dir, why: error.to_string() })
}
