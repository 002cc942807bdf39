//! Puts lines onto a terminal, or into a file, where nothing can be rewritten.
//!
//! On a terminal the lines that still change stand below those that do not. They are drawn without
//! wrapping, and the cursor is left above them: whatever else writes to the terminal, such as the
//! log, then writes over what will be drawn again, and nothing is lost.

use std::io::Write;

use crate::progress::{Line, Tone};

/// Most lines that are rewritten; the rest is counted.
const OPEN_LINES_MAX: usize = 12;

/// From the start of the line, so that an echoed `^C` goes too.
const CLEAR_BELOW: &str = "\r\x1b[J";
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

/// What is shown of a run's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Nothing.
    Hidden,
    /// Each line once, when it is final.
    Final,
    /// The lines that still change as well, rewritten in place.
    Live,
}

/// Where lines go. A writer that fails is ignored: watching must not hurt what is watched.
#[derive(Debug)]
pub(crate) struct Screen<W> {
    out: W,
    detail: Detail,
    color: bool,
    /// Whether lines that will be rewritten are on the screen.
    drawn: bool,
    /// Whether streamed text has left the cursor inside a line.
    inside_line: bool,
}

impl<W: Write> Screen<W> {
    pub(crate) const fn new(out: W, detail: Detail, color: bool) -> Self {
        Self { out, detail, color, drawn: false, inside_line: false }
    }

    /// Shows what is final and what still changes.
    pub(crate) fn show(&mut self, done: Option<&Line>, open: &[Line]) {
        let mut frame = String::new();
        match self.detail {
            Detail::Hidden => return,
            Detail::Final => {
                let Some(line) = done else { return };
                if std::mem::take(&mut self.inside_line) {
                    frame.push('\n');
                }
                frame.push_str(&self.painted(line));
            }
            Detail::Live => {
                frame.push_str(CLEAR_BELOW);
                if let Some(line) = done {
                    frame.push_str(&self.painted(line));
                }
                self.draw_open(open, &mut frame);
                self.drawn = !open.is_empty();
            }
        }
        self.write(&frame);
    }

    /// Shows a piece of streamed text, without a line end of its own.
    pub(crate) fn text(&mut self, piece: &str) {
        self.write(piece);
        self.inside_line = !piece.ends_with('\n');
    }

    /// Ends a line of streamed text and takes away what would have been rewritten.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.inside_line) {
            self.write("\n");
        }
        if std::mem::take(&mut self.drawn) {
            self.write(CLEAR_BELOW);
        }
    }

    fn draw_open(&self, open: &[Line], frame: &mut String) {
        if open.is_empty() {
            return;
        }
        frame.push_str(WRAP_OFF);
        let shown = open.iter().take(OPEN_LINES_MAX);
        let mut lines = shown.len();
        shown.for_each(|line| frame.push_str(&self.painted(line)));
        if open.len() > OPEN_LINES_MAX {
            frame.push_str(&format!("     and {} more …\n", open.len() - OPEN_LINES_MAX));
            lines += 1;
        }
        frame.push_str(&format!("{WRAP_ON}\x1b[{lines}A\r"));
    }

    fn painted(&self, line: &Line) -> String {
        let color = match line.tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "33",
        };
        match self.color {
            true => format!("{}\x1b[{color}m{}\x1b[0m\n", line.columns(), line.what),
            false => format!("{}{}\n", line.columns(), line.what),
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests;
