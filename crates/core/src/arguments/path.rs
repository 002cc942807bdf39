//! Places inside the arguments, written as JSON paths.

use std::fmt::Write as _;

use crate::excerpt::shortened;

const KEY_BYTES_MAX: usize = 64;

/// A place, as a chain of steps on the stack of whoever walks the tree.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Self = Self { parent: None, step: Step::Root, depth: 0 };

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key), depth: self.depth + 1 }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index), depth: self.depth + 1 }
    }

    /// Steps from the root.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// `$.items[2].sku`; keys are shortened.
    pub(crate) fn written(&self) -> String {
        let mut text = self.parent.map(Path::written).unwrap_or_default();
        match self.step {
            Step::Root => text.push('$'),
            Step::Key(key) => push_key(&mut text, key),
            Step::Index(index) => push_index(&mut text, index),
        }
        text
    }
}

/// Adds a step into an object: `.sku`, or `["odd key"]` where a dot would not be read back.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let key = shortened(key, KEY_BYTES_MAX);
    // Writing to a string cannot fail.
    let _ = if plain { write!(path, ".{key}") } else { write!(path, "[{key:?}]") };
}

/// Adds a step into an array.
pub(crate) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}
