//! Ctrl-C, SIGTERM and SIGHUP: the first asks politely, the second ends at once.
//!
//! Tools run in process groups of their own, which a terminal's signals do not reach. So a signal
//! that ended only this process would leave them behind, and none is left to its default once a
//! tool can be running.
//!
//! The second signal does not end the process where it stands: a tool that is just being started
//! would survive, because nobody knows its process yet. The command is dropped instead, and with it
//! every process; a thread sees to it that this takes no longer than a moment.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{Exit, Stop};

/// How long the end may take after the second signal.
const LAST_RESORT_AFTER: Duration = Duration::from_secs(1);

/// A signal that asks for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupt,
    Terminate,
    Hangup,
}

impl Signal {
    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::INTERRUPTED,
            Self::Terminate => Exit::TERMINATED,
            Self::Hangup => Exit::HANGUP,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "Ctrl-C",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        }
    }
}

/// Waits for signals. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    received: watch::Receiver<Received>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Received {
    first: Option<Signal>,
    second: Option<Signal>,
}

impl Signals {
    /// Takes the signals over from now on. At the second, `kill` is called.
    pub(crate) fn listen(kill: impl Fn() + Send + 'static) -> Result<Self, Stop> {
        let mut streams = Streams::open()
            .map_err(|error| Stop::new(Exit::INTERNAL, format_args!("cannot listen for signals: {error}")))?;
        let (sender, received) = watch::channel(Received::default());
        tokio::spawn(async move {
            let first = streams.next().await;
            sender.send_modify(|received| received.first = Some(first));
            let second = streams.next().await;
            kill();
            sender.send_modify(|received| received.second = Some(second));
            std::thread::spawn(move || {
                std::thread::sleep(LAST_RESORT_AFTER);
                kill();
                std::process::exit(second.exit().code.into());
            });
        });
        Ok(Self { received })
    }

    /// The first signal, if there was one.
    pub(crate) fn received(&self) -> Option<Signal> {
        self.received.borrow().first
    }

    /// Waits for the first signal. Cancel safe.
    pub(crate) async fn first(&mut self) -> Signal {
        wait(&mut self.received, |received| received.first).await
    }

    /// Carries a command to its end, or drops it at the second signal.
    pub(crate) async fn guard(
        &self,
        command: impl Future<Output = Result<Exit, Stop>>,
    ) -> Result<Exit, Stop> {
        let mut received = self.received.clone();
        tokio::select! {
            ended = command => ended,
            second = wait(&mut received, |received| received.second) => Ok(second.exit()),
        }
    }
}

async fn wait(
    received: &mut watch::Receiver<Received>,
    which: impl Fn(&Received) -> Option<Signal>,
) -> Signal {
    let signal =
        received.wait_for(|received| which(received).is_some()).await.map(|received| which(&received));
    match signal {
        Ok(Some(signal)) => signal,
        // Whoever listened has ended, so no signal will come.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

struct Streams {
    interrupt: Option<Stream>,
    terminate: Option<Stream>,
    hangup: Option<Stream>,
}

impl Streams {
    fn open() -> io::Result<Self> {
        // Whoever starts us with a signal ignored, as `nohup` does, wants it to stay so.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let open = |kind: SignalKind| match is_ignored(&status, kind.as_raw_value()) {
            true => Ok(None),
            false => signal(kind).map(Some),
        };
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
            hangup: open(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            () = received(&mut self.interrupt) => Signal::Interrupt,
            () = received(&mut self.terminate) => Signal::Terminate,
            () = received(&mut self.hangup) => Signal::Hangup,
        }
    }
}

async fn received(stream: &mut Option<Stream>) {
    if let Some(stream) = stream
        && stream.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Whether the kernel's account of this process says that it ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn a_signal_that_was_ignored_at_start_stays_ignored() {
        let nohup = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(nohup, 1) && is_ignored(nohup, 13));
        assert!(!is_ignored(nohup, 2) && !is_ignored("", 1));
    }
}
