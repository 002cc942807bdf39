//! Bounded parts of what the world wrote, always valid text.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream and counts what it drops in between.
pub(crate) struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    dropped: u64,
}

impl Excerpt {
    /// Half of the bound for the beginning, half for the end.
    pub(crate) fn both_ends(bytes_max: usize) -> Self {
        Self::new(bytes_max.div_ceil(2), bytes_max / 2)
    }

    /// Only the end.
    pub(crate) fn end(bytes_max: usize) -> Self {
        Self::new(0, bytes_max)
    }

    fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_max, tail_max, dropped: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Bytes that were left out.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The text, with a note where something was left out. Invalid UTF-8 is replaced.
    pub(crate) fn into_text(self) -> String {
        let Self { mut head, tail, dropped, .. } = self;
        let mut tail = Vec::from(tail);
        if dropped == 0 {
            head.append(&mut tail);
            return String::from_utf8_lossy(&head).into_owned();
        }
        let (whole_head, cut_head) = split_cut_char(&head);
        let cut_tail = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let whole_tail = tail.split_off(cut_tail);
        let left_out = dropped + cut_head + cut_tail as u64;
        let tail = String::from_utf8_lossy(&whole_tail);
        if head.is_empty() {
            return tail.into_owned();
        }
        format!("{}\n[… {left_out} bytes left out …]\n{tail}", String::from_utf8_lossy(whole_head))
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Splits off a character that the end of the bytes cuts; gives the rest and the bytes cut off.
fn split_cut_char(bytes: &[u8]) -> (&[u8], u64) {
    match bytes.utf8_chunks().last() {
        Some(last) if is_cut_char(last.invalid()) => {
            let cut = last.invalid().len();
            (bytes.get(..bytes.len() - cut).unwrap_or(bytes), cut as u64)
        }
        _ => (bytes, 0),
    }
}

/// Whether the bytes begin a character that more bytes could complete.
fn is_cut_char(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// The last whole lines of a text within `bytes_max`, or the end of the last line.
pub(crate) fn last_lines(text: &str, bytes_max: usize) -> &str {
    let text = text.trim();
    let from = text.len().saturating_sub(bytes_max);
    if from == 0 {
        return text;
    }
    // One byte earlier, because a line end right before makes the first line a whole one.
    let line_end = text.bytes().skip(from - 1).position(|byte| byte == b'\n');
    let from = line_end.map_or(from, |at| from + at);
    (from..=text.len()).find_map(|from| text.get(from..)).unwrap_or_default()
}

/// The beginning of a text within `bytes_max`.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    (0..=bytes_max.min(text.len())).rev().find_map(|to| text.get(..to)).unwrap_or_default()
}

/// Somebody else's words inside our sentence: quoted, on one line, no control characters.
pub(crate) fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    format!("{:?}", text.trim())
}
