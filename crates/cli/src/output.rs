//! Text that leaves the process: to standard output, where it must arrive, and to standard error,
//! where it should.
//!
//! Text from models and tools is written by others. On a terminal it must not move the cursor or
//! turn the line around, so it is shown and never obeyed.

use std::io::{self, IsTerminal, Write};

use crate::exit::{Exit, Stop};

/// Whether anybody still reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Listening,
    /// The other end of the pipe is closed, which is its right and no failure.
    Gone,
}

/// Writes to standard output, at once.
pub(crate) fn print(text: &str) -> Result<Reader, Stop> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Listening),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => {
            Err(Stop::new(Exit::UNWRITABLE, format_args!("cannot write to standard output: {error}")))
        }
    }
}

/// Writes an answer or a value, which ends with one line end.
pub(crate) fn print_answer(answer: &str) -> Result<Reader, Stop> {
    let answer = answer.trim_end_matches('\n');
    match io::stdout().is_terminal() {
        true => print(&format!("{}\n", harmless(answer))),
        false => print(&format!("{answer}\n")),
    }
}

/// Writes a line or more to standard error, if that is possible.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end_matches('\n'));
}

/// Writes to standard error without a line end, so that an answer is typed behind it.
pub(crate) fn prompt(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Reads all of standard input.
pub(crate) fn read_stdin(what: &str) -> Result<String, Stop> {
    io::read_to_string(io::stdin().lock()).map_err(|error| {
        Stop::new(Exit::UNREADABLE, format_args!("cannot read {what} from standard input: {error}"))
    })
}

/// Whether a stream may be coloured. `NO_COLOR` with any value forbids it, as everywhere.
pub(crate) fn is_colorful(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_unset("NO_COLOR") && !is_dumb()
}

/// Whether lines can be rewritten on a stream.
pub(crate) fn is_rewritable(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !is_dumb()
}

fn is_unset(name: &str) -> bool {
    std::env::var_os(name).is_none_or(|value| value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The text on lines of its own, without anything a terminal would obey.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_obeyed(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The text on one line, at most so many characters long.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(' '),
            c if is_obeyed(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    match shown.char_indices().nth(chars_max) {
        None => shown,
        Some(_) => shown.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Control characters, and those that change the direction of the text around them.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
