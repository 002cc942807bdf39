//! The stored form of an event: its kind, the version of that kind, and a body in JSON.
//!
//! Only the newest version of a kind is written; an older one is brought up step by step when it
//! is read. An event is read back before it is stored, so that none is written that this program
//! could not use. What is unknown or newer is refused by name, never skipped.

#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "a store in memory keeps events as they are")
)]

use std::sync::{Arc, OnceLock};

use dauntless_contract::{
    AppendError, BlobHash, CallRecord, CreateError, EventProblem, JournalError, NewRun, Recorded, RunEvent,
    Timestamp, TooLarge,
};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::Value;
use sha2::Digest;

/// Events in one append.
const BATCH_EVENTS_MAX: usize = 1024;
/// All bodies of one append together.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The body of one event, before compression.
const BODY_BYTES_MAX: usize = 1 << 20;
/// A blob, and a snapshot.
pub(crate) const BLOB_BYTES_MAX: usize = 64 << 20;
/// A letter or a late result.
pub(crate) const NOTE_BYTES_MAX: usize = BODY_BYTES_MAX;
/// What one page of events holds, as stored.
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;
/// Bodies up to this size are stored as they are.
const PLAIN_BYTES_MAX: usize = 1024;
/// Bodies above this size, as they are stored, are blobs.
const INLINE_BYTES_MAX: usize = 16 << 10;
/// How a compressed body begins. A body in JSON never does.
const COMPRESSED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An event, ready to be stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredEvent {
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) version: u16,
    pub(crate) body: Vec<u8>,
    /// The name of the body, where it is to be stored as a blob.
    pub(crate) hash: Option<BlobHash>,
    /// As [`RunEvent::moves`].
    pub(crate) moves: bool,
    /// As [`RunEvent::config`].
    pub(crate) config: Option<BlobHash>,
}

impl StoredEvent {
    fn new(Recorded { at, event }: &Recorded, text: &EventText) -> Self {
        let body = packed(text.body.as_bytes());
        let hash = (body.len() > INLINE_BYTES_MAX).then(|| hash_of(&body));
        let (moves, config) = (event.moves(), event.config());
        Self { at: *at, kind: text.kind, version: newest(text.kind, UPCASTS), body, hash, moves, config }
    }

    /// What the event's own row holds of the body.
    pub(crate) fn inline(&self) -> &[u8] {
        if self.hash.is_some() { &[] } else { &self.body }
    }

    /// What is stored as a blob.
    pub(crate) fn blob(&self) -> Option<(&BlobHash, &[u8])> {
        self.hash.as_ref().map(|hash| (hash, &*self.body))
    }
}

/// Turns version `from` of a kind into the next one.
struct Upcast {
    kind: &'static str,
    from: u16,
    step: fn(Value) -> Value,
}

/// Every change of a stored event that older journals need. Append only; the newest version of a
/// kind is one more than its last line here.
const UPCASTS: &[Upcast] = &[];

/// Makes a batch ready to be stored.
///
/// # Errors
/// [`AppendError::TooLarge`] and [`AppendError::Invalid`], before anything is written.
pub(crate) fn encode_batch(events: &[Recorded]) -> Result<Vec<StoredEvent>, AppendError> {
    bounded("a batch", events.len(), BATCH_EVENTS_MAX, "events")?;
    let mut stored = Vec::with_capacity(events.len());
    let mut bytes = 0;
    let mut before = Timestamp::ZERO;
    for (index, event) in events.iter().enumerate() {
        let invalid = |problem| AppendError::Invalid { index, problem };
        if event.at < before {
            return Err(invalid(EventProblem::Earlier(before.since(event.at))));
        }
        before = event.at;
        let text = text_of(event).map_err(invalid)?;
        bytes += text.body.len();
        bounded("an event", text.body.len(), BODY_BYTES_MAX, "bytes")?;
        bounded("a batch", bytes, BATCH_BYTES_MAX, "bytes")?;
        stored.push(StoredEvent::new(event, &text));
    }
    Ok(stored)
}

/// Checks a new run, and makes its first event ready to be stored.
///
/// # Errors
/// [`CreateError::TooLarge`] and [`CreateError::Invalid`], before anything is written.
pub(crate) fn encode_new(run: &NewRun) -> Result<StoredEvent, CreateError> {
    let first = match encode_batch(std::slice::from_ref(&run.first)) {
        Ok(stored) => stored.into_iter().next().ok_or_else(|| CreateError::Fatal("no event".into())),
        Err(AppendError::TooLarge(error)) => Err(error.into()),
        Err(AppendError::Invalid { problem, .. }) => Err(CreateError::Invalid(problem)),
        Err(other) => Err(CreateError::Fatal(other.to_string())),
    }?;
    let config_bytes = run.config.as_ref().map_or(0, |config| config.len());
    bounded("a configuration", config_bytes, BLOB_BYTES_MAX, "bytes")?;
    Ok(first)
}

/// Reads an event from the form that the stores keep: its kind, the version of that, and its body.
///
/// # Errors
/// What this program cannot use, by name.
pub fn decode(kind: &str, version: u16, body: &[u8]) -> Result<RunEvent, EventProblem> {
    decode_with(kind, version, body, UPCASTS)
}

fn decode_with(kind: &str, version: u16, body: &[u8], upcasts: &[Upcast]) -> Result<RunEvent, EventProblem> {
    let kind = known(kind)?;
    let newest = newest(kind, upcasts);
    if version > newest {
        return Err(EventProblem::NewerVersion { kind: kind.to_owned(), version, newest });
    }
    let malformed = |problem: &dyn std::fmt::Display| EventProblem::Malformed {
        kind: kind.to_owned(),
        problem: problem.to_string(),
    };
    let body = unpacked(body, BODY_BYTES_MAX).map_err(|error| malformed(&error))?;
    let mut text = String::from_utf8(body).map_err(|error| malformed(&error))?;
    if version < newest {
        let mut value: Value = serde_json::from_str(&text).map_err(|error| malformed(&error))?;
        for upcast in upcasts.iter().filter(|upcast| upcast.kind == kind && upcast.from >= version) {
            value = (upcast.step)(value);
        }
        text = value.to_string();
    }
    from_text(kind, &format!("{{\"{kind}\":{text}}}"))
}

struct EventText {
    kind: &'static str,
    body: String,
}

/// The event as JSON, after a look at whether it can be read again.
fn text_of(event: &Recorded) -> Result<EventText, EventProblem> {
    let unwritable = |problem: String| EventProblem::Malformed { kind: "event".into(), problem };
    let mut text = serde_json::to_string(&event.event).map_err(|error| unwritable(error.to_string()))?;
    // An enum is written as {"kind":body}, so the body is cut out and no number is read on the way.
    let inner = text.strip_prefix("{\"").and_then(|text| text.strip_suffix('}'));
    let Some((kind, _)) = inner.and_then(|inner| inner.split_once("\":")) else {
        return Err(unwritable("it is not written as one kind with a body".into()));
    };
    let kind = known(kind)?;
    // Not compared as values: the raw cause of a failure is not written on purpose.
    if !is_written_as(&from_text(kind, &text)?, &text) {
        let problem = "it reads differently from how it was written".into();
        return Err(EventProblem::Malformed { kind: kind.to_owned(), problem });
    }
    text.truncate(text.len() - "}".len());
    text.drain(.."{\"".len() + kind.len() + "\":".len());
    Ok(EventText { kind, body: text })
}

/// Reads the whole of an event, its kind and its body.
fn from_text(kind: &'static str, text: &str) -> Result<RunEvent, EventProblem> {
    serde_json::from_str(text)
        .map_err(|error| EventProblem::Malformed { kind: kind.to_owned(), problem: error.to_string() })
}

fn is_written_as(event: &RunEvent, text: &str) -> bool {
    let mut left = Expected(text.as_bytes());
    serde_json::to_writer(&mut left, event).is_ok() && left.0.is_empty()
}

/// A writer that keeps nothing and fails at the first byte that is another one.
struct Expected<'a>(&'a [u8]);

impl std::io::Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn newest(kind: &str, upcasts: &[Upcast]) -> u16 {
    upcasts.iter().filter(|upcast| upcast.kind == kind).map(|upcast| upcast.from + 1).max().unwrap_or(1)
}

fn known(kind: &str) -> Result<&'static str, EventProblem> {
    let found = kinds().iter().find(|known| **known == kind);
    found.copied().ok_or_else(|| EventProblem::UnknownKind(kind.to_owned()))
}

/// The kinds that [`RunEvent`] has, as its derived reader announces them.
fn kinds() -> &'static [&'static str] {
    static KINDS: OnceLock<&'static [&'static str]> = OnceLock::new();
    KINDS.get_or_init(|| {
        let mut kinds: &'static [&'static str] = &[];
        let _ = RunEvent::deserialize(Announced(&mut kinds));
        kinds
    })
}

/// A reader that has nothing to read and takes down what an enum would accept.
struct Announced<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Announced<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = variants;
        Err(serde::de::Error::custom("nothing to read"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("nothing to read"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The end of a call as JSON.
///
/// # Errors
/// [`JournalError::TooLarge`]; and [`JournalError::Fatal`] for what cannot be written.
pub(crate) fn encode_record(record: &CallRecord) -> Result<Vec<u8>, JournalError> {
    let body = serde_json::to_vec(record).map_err(|error| JournalError::Fatal(error.to_string()))?;
    bounded("a late result", body.len(), BODY_BYTES_MAX, "bytes")?;
    Ok(packed(&body))
}

/// Reads the end of a call.
///
/// # Errors
/// [`JournalError::Unavailable`] when a newer program wrote it.
pub(crate) fn decode_record(body: &[u8]) -> Result<CallRecord, JournalError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        JournalError::Unavailable(format!("a late result is not readable by this version: {error}"))
    };
    let body = unpacked(body, BODY_BYTES_MAX).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&body).map_err(|error| unreadable(&error))
}

/// The name that a store gives to these bytes.
pub fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash(sha2::Sha256::digest(bytes).into())
}

/// Compresses what is worth it.
fn packed(body: &[u8]) -> Vec<u8> {
    if body.len() > PLAIN_BYTES_MAX
        && let Ok(compressed) = zstd::bulk::compress(body, 1)
        && compressed.len() < body.len()
    {
        return compressed;
    }
    body.to_vec()
}

fn unpacked(body: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    if body.starts_with(&COMPRESSED) {
        return zstd::bulk::decompress(body, bytes_max);
    }
    Ok(body.to_vec())
}

/// The stored form of a snapshot.
///
/// # Errors
/// [`TooLarge`], before anything is written.
pub(crate) fn encode_snapshot(body: &[u8]) -> Result<Vec<u8>, TooLarge> {
    bounded("a snapshot", body.len(), BLOB_BYTES_MAX, "bytes")?;
    // The form is the caller's own: what looks compressed is made so.
    if body.starts_with(&COMPRESSED)
        && let Ok(compressed) = zstd::bulk::compress(body, 1)
    {
        return Ok(compressed);
    }
    Ok(packed(body))
}

/// Reads a snapshot. One that cannot be read is none: the events are still there to fold.
pub(crate) fn decode_snapshot(body: &[u8]) -> Option<Arc<[u8]>> {
    unpacked(body, BLOB_BYTES_MAX).ok().map(Into::into)
}

/// Refuses what is larger than it may be.
pub(crate) fn bounded(
    what: &'static str,
    size: usize,
    max: usize,
    unit: &'static str,
) -> Result<(), TooLarge> {
    if size > max { Err(TooLarge { what, size, max, unit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
