//! What makes two calls the same call.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use crate::arguments::Tree;
use crate::excerpt::shortened;
use crate::redact::is_secret_name;

/// More than is shown in the end: secrets go first, and half a secret has no shape.
const DISPLAY_BYTES_MAX: usize = 1000;

/// One call, up to what does not matter: white space and the order of keys.
///
/// Numbers count by their text, so `1` and `1.0` differ. The same in every process and on every
/// machine. Kept as a digest of 128 bits with a short text to show, so that it is cheap to keep.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    digest: Digest,
    tool: Arc<str>,
    display: Arc<str>,
}

impl Fingerprint {
    /// A call whose arguments were read.
    pub(crate) fn of(tool: &Arc<str>, arguments: &Tree) -> Self {
        let sorted = arguments.clone().sorted();
        let digest = Digest::of(&[tool, &sorted.to_string()]);
        Self::shown(digest, tool, &without_secrets(sorted).to_string())
    }

    /// A call whose arguments could not be read: the text as written counts.
    pub(crate) fn of_unreadable(tool: &Arc<str>, written: &str) -> Self {
        let written = written.trim();
        Self::shown(Digest::of(&[tool, written]), tool, "(unreadable arguments)")
    }

    /// A call of a tool that does not exist: its arguments cannot matter.
    pub(crate) fn of_unknown(tool: &Arc<str>) -> Self {
        Self::shown(Digest::of(&[tool]), tool, "")
    }

    fn shown(digest: Digest, tool: &Arc<str>, arguments: &str) -> Self {
        let text = format!("{} {arguments}", shortened(tool, 64));
        let display = shortened(text.trim_end(), DISPLAY_BYTES_MAX).into();
        Self { digest, tool: Arc::clone(tool), display }
    }

    /// The tool's name, as the model wrote it.
    pub const fn tool(&self) -> &Arc<str> {
        &self.tool
    }

    /// The tool and its arguments in at most 1000 bytes, values of secret keys left out. To be
    /// cleaned of other secrets, and then cut.
    pub const fn display(&self) -> &Arc<str> {
        &self.display
    }

    pub(crate) const fn digest(&self) -> Digest {
        self.digest
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", self.display)
    }
}

fn without_secrets(tree: Tree) -> Tree {
    match tree {
        Tree::List(items) => Tree::List(items.into_iter().map(without_secrets).collect()),
        Tree::Object(members) => {
            let masked = members.into_iter().map(|(key, value)| {
                let value = if is_secret_name(&key) {
                    Tree::Text("[redacted]".to_owned())
                } else {
                    without_secrets(value)
                };
                (key, value)
            });
            Tree::Object(masked.collect())
        }
        tree @ (Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_)) => tree,
    }
}

/// FNV-1a of 128 bits: needs no seed, so it is the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Digest(u128);

impl Digest {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    /// The digest of several texts, each closed by a byte that UTF-8 does not use.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
        Self(bytes.fold(Self::BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(Self::PRIME)))
    }

    /// All of its bits.
    pub(crate) const fn value(self) -> u128 {
        self.0
    }

    /// A digest of the digest, for names that people read.
    pub(crate) fn short(self) -> u32 {
        let words = self.0.to_le_bytes();
        words.chunks_exact(4).fold(0, |short, word| {
            short ^ word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
        })
    }

    /// The digest of several digests, whatever their order.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
