//! Ids of calls in the shape that a provider takes back.

use std::borrow::Cow;

use crate::profile::CallIds;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LENGTH: usize = 9;

impl CallIds {
    /// The id as it is sent. Equal ids stay equal and different ones different, in every request.
    pub(super) fn sendable(self, id: &str) -> Cow<'_, str> {
        let fits = id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self {
            Self::Nine if !fits => Cow::Owned(nine(id)),
            Self::Any | Self::Nine => Cow::Borrowed(id),
        }
    }
}

/// Nine letters and digits out of a hash. They hold 53 bits of it, so that a conversation of a
/// thousand calls has two of one id with a chance of one in ten billion.
fn nine(id: &str) -> String {
    let mut rest = fnv1a(id.as_bytes());
    let mut next = || {
        let place = usize::try_from(rest % 62).unwrap_or(0);
        rest /= 62;
        ALPHABET.get(place).copied().map_or('0', char::from)
    };
    (0..LENGTH).map(|_| next()).collect()
}

/// The standard library's hash may change with its version, and with it the start of a conversation
/// that a provider has cached.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
