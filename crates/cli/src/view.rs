//! Follows one run to its end: shows its events, cancels it when asked, and says how it ended.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use dauntless_contract::{Outcome, Progress, StopReason};
use dauntless_daemon::wiring::RunStream;

use crate::exit::{Exit, Stop};
use crate::output::{self, Reader};
use crate::process;
use crate::progress::{Story, length};
use crate::screen::{Detail, Screen};
use crate::signals::Signals;

/// How the events of a run are shown.
pub(crate) enum View<W> {
    /// As lines, and the model's words among them if `words` is there.
    Lines { story: Story, screen: Screen<W>, words: Option<Words> },
    /// As JSON on standard output.
    Json,
}

/// The words of the model, as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Words {
    turn: u32,
    attempt: u32,
    /// What the latest attempt has said.
    said: String,
}

/// A run that ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) exit: Exit,
}

/// How much of a run is shown on standard error. `has_more` says that spans, streamed words or questions
/// come between the lines, so that none can be rewritten then.
pub(crate) fn detail(json: bool, has_more: bool) -> Detail {
    match process::is_watched() && !json {
        false => Detail::Hidden,
        true if has_more || !output::is_rewritable(&io::stderr()) => Detail::Final,
        true => Detail::Live,
    }
}

impl View<io::Stderr> {
    /// The view that a command's `--json` and `--stream` ask for.
    pub(crate) fn asked(json: bool, stream: bool, detail: Detail) -> Self {
        if json {
            return Self::Json;
        }
        let screen = Screen::new(io::stderr(), detail, output::is_colorful(&io::stderr()));
        Self::lines(screen, stream.then(Words::default))
    }
}

impl<W: Write> View<W> {
    pub(crate) fn lines(screen: Screen<W>, words: Option<Words>) -> Self {
        Self::Lines { story: Story::default(), screen, words }
    }

    pub(crate) fn see(&mut self, event: &Progress) -> Result<Reader, Stop> {
        match self {
            Self::Json => {
                let line = serde_json::to_string(event);
                let line =
                    line.map_err(|error| Stop::new(Exit::INTERNAL, format_args!("an event: {error}")))?;
                output::print(&format!("{line}\n"))
            }
            Self::Lines { story, screen, words } => {
                match (event, words) {
                    (Progress::TextArrived { turn, attempt, text }, Some(words)) => {
                        words.show(screen, *turn, *attempt, text);
                    }
                    _ => {
                        let done = story.see(event);
                        screen.show(done.as_ref(), &story.open());
                    }
                }
                Ok(Reader::Listening)
            }
        }
    }

    pub(crate) fn close(&mut self) {
        if let Self::Lines { screen, .. } = self {
            screen.clear();
        }
    }

    /// Whether a person has already read these words on the terminal that is also standard output.
    pub(crate) fn has_shown(&self, answer: &str) -> bool {
        let on_one_screen = io::stdout().is_terminal() && io::stderr().is_terminal();
        match self {
            Self::Lines { words: Some(words), .. } => on_one_screen && words.said == answer,
            Self::Lines { words: None, .. } | Self::Json => false,
        }
    }
}

impl Words {
    fn show<W: Write>(&mut self, screen: &mut Screen<W>, turn: u32, attempt: u32, text: &str) {
        if (self.turn, self.attempt) != (turn, attempt) {
            let starts_over = self.turn == turn && !self.said.is_empty();
            (self.turn, self.attempt) = (turn, attempt);
            self.said.clear();
            screen.clear();
            if starts_over {
                screen.text("(the model starts over)\n");
            }
        }
        self.said.push_str(text);
        screen.text(&output::harmless(text));
    }
}

/// Shows a run until it ends, and gives each event to `count` as well.
///
/// A signal cancels it, and so does whoever stops reading its events.
pub(crate) async fn follow<W: Write>(
    mut stream: RunStream,
    signals: &Signals,
    view: &mut View<W>,
    mut count: impl FnMut(&Progress),
) -> Result<Ended, Stop> {
    let canceller = stream.canceller();
    let mut first = signals.clone();
    // In a task of its own, because showing an event can block on a terminal that is held.
    let cancelling = tokio::spawn({
        let canceller = canceller.clone();
        async move { canceller.cancel(first.first().await.name()) }
    });
    let mut reader = Ok(Reader::Listening);
    let mut ended = None;
    while let Some(event) = stream.next().await {
        count(&event);
        if let Ok(Reader::Listening) = reader {
            reader = view.see(&event);
            match reader {
                Ok(Reader::Listening) => {}
                Ok(Reader::Gone) => canceller.cancel("the reader of the events, who went away"),
                Err(_) => canceller.cancel("a failure to write the events"),
            }
        }
        if let Progress::RunEnded { outcome } = event {
            ended = Some(outcome);
        }
    }
    cancelling.abort();
    view.close();
    reader?;
    let outcome = ended.ok_or_else(|| Stop::new(Exit::INTERNAL, "the run ended without an outcome"))?;
    Ok(Ended { exit: exit(&outcome, signals), outcome })
}

fn exit(outcome: &Outcome, signals: &Signals) -> Exit {
    match (&outcome.reason, signals.received()) {
        (StopReason::Cancelled { by }, Some(signal)) if &**by == signal.name() => signal.exit(),
        (reason, _) => Exit::of(reason),
    }
}

/// What there is to say about a run that did not complete.
pub(crate) fn why_stopped(outcome: &Outcome) -> String {
    let mut text =
        format!("dauntless: the run stopped: {}\n", output::one_line(&outcome.reason.to_string(), 400));
    if let Some(explanation) = &outcome.explanation {
        let _ = writeln!(text, "{}", output::harmless(explanation));
    }
    if let Some(partial) = outcome.partial() {
        let _ = writeln!(text, "Best partial answer:\n{}", output::harmless(partial));
    }
    text
}

/// Prints the answer, or why there is none.
pub(crate) fn told<W: Write>(view: &View<W>, outcome: &Outcome, detail: Detail) -> Result<(), Stop> {
    if detail != Detail::Hidden {
        output::tell(&format!("     {}", used(outcome)));
    }
    match outcome.answer() {
        None => output::tell(&why_stopped(outcome)),
        Some(_) if matches!(view, View::Json) => {}
        Some(answer) if view.has_shown(answer) => {}
        // A reader who wanted less than the whole answer is no failure of the run.
        Some(answer) => match output::print_answer(answer)? {
            Reader::Listening | Reader::Gone => {}
        },
    }
    Ok(())
}

/// What a run used, in one line.
pub(crate) fn used(outcome: &Outcome) -> String {
    let totals = &outcome.totals;
    let tokens = totals.usage.prompt + totals.usage.completion;
    let mut text = format!(
        "{}, {} in {}",
        counted(totals.turns, "turn"),
        counted(totals.tool_calls, "call"),
        counted(totals.tool_attempts, "attempt"),
    );
    if tokens.0 > 0 {
        let _ = write!(text, ", {tokens}");
    }
    if totals.cost.0 > 0 {
        let _ = write!(text, ", {}", totals.cost);
    }
    let _ = write!(text, ", {}", length(outcome.elapsed));
    text
}

fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
