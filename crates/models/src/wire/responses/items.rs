//! One response: read whole, or followed through the events of its stream.
//!
//! A stream says most things several times: in fragments, once the part is done, once the item is
//! done, and in the whole response at the end. Servers leave out any of these, and most of the ids
//! and numbers that tell which item an event is about. What was said is remembered here, so that
//! text is passed on once. Whole arguments are passed on each time: by them the assembler finds out
//! whether a fragment was lost.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::REASONING_KEY;
use crate::wire::fields::Fields;
use crate::wire::packet::{merge, usage};
use crate::wire::{Arguments, CallPart, Choice, Packet, Part, WireError};

/// What of a reasoning item goes back; the rest is refused there.
const SEALED_FIELDS: [&str; 4] = ["type", "id", "summary", "encrypted_content"];

/// The items of one response, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Items {
    known: Vec<Item>,
    /// Reasoning that waits for the part of the reply that it led to, with its place in `known`.
    sealed: Vec<(usize, Value)>,
    is_over: bool,
}

#[derive(Debug)]
struct Item {
    mark: Mark,
    has_name: bool,
    has_text: bool,
    has_refusal: bool,
    is_whole: bool,
}

/// What tells an item from others.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    kind: Kind,
    id: Option<String>,
    call_id: Option<String>,
    place: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Reasoning,
}

/// The two kinds of words in a message.
#[derive(Clone, Copy)]
enum Words {
    Text,
    Refusal,
}

impl Items {
    /// Whether the provider said how the response ended. Nothing that follows belongs to it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads a body that came in one piece.
    pub(crate) fn whole(&mut self, raw: &RawValue) -> Packet {
        let Some(mut fields) = Fields::of(raw) else { return failed(Some(WireError::of_body(raw.get()))) };
        if fields.has("output") || fields.has("status") {
            return self.end(fields, None);
        }
        failed(WireError::nested(&mut fields).or_else(|| WireError::bare(fields)))
    }

    /// Reads the next event of a stream. Any JSON will do; what is not understood says nothing.
    pub(crate) fn event(&mut self, raw: &RawValue) -> Packet {
        let Some(mut fields) = Fields::of(raw) else { return failed(Some(WireError::of_body(raw.get()))) };
        let name = fields.text("type").unwrap_or_default();
        match name.strip_prefix("response.").unwrap_or(&name) {
            "output_text.delta" => self.words(Words::Text, fields, "delta"),
            "output_text.done" => self.words(Words::Text, fields, "text"),
            "refusal.delta" => self.words(Words::Refusal, fields, "delta"),
            "refusal.done" => self.words(Words::Refusal, fields, "refusal"),
            "function_call_arguments.delta" => self.arguments(fields, "delta"),
            "function_call_arguments.done" => self.arguments(fields, "arguments"),
            "output_item.added" => self.added(fields),
            "output_item.done" => self.done(fields),
            status @ ("completed" | "incomplete" | "failed" | "cancelled") => {
                self.end(fields.object("response").unwrap_or_default(), Some(status))
            }
            "created" | "in_progress" | "queued" => {
                let model = fields.object("response").and_then(|mut response| response.word("model"));
                Packet { model, ..Packet::default() }
            }
            "error" => failed(WireError::nested(&mut fields).or_else(|| Some(WireError::of_fields(fields)))),
            _ => failed(WireError::nested(&mut fields)),
        }
    }

    /// A piece of a message's words, or all of them once they are done.
    fn words(&mut self, words: Words, mut fields: Fields<'_>, name: &str) -> Packet {
        let Some(said) = fields.text(name) else { return Packet::default() };
        let at = self.of_fragment(Mark::of_fragment(Kind::Message, &mut fields));
        let Some(item) = self.known.get_mut(at) else { return Packet::default() };
        let (text, refusal) = match words {
            Words::Text => (said, String::new()),
            Words::Refusal => (String::new(), said),
        };
        let part = item.unsaid(Part { text, refusal, ..Part::default() }, name == "delta");
        self.packet(part)
    }

    /// A piece of a call's arguments, or all of them once they are done.
    fn arguments(&mut self, mut fields: Fields<'_>, name: &str) -> Packet {
        let raw = fields.take(name);
        let at = self.of_fragment(Mark::of_fragment(Kind::Call, &mut fields));
        let arguments = raw.map_or(Arguments::Absent, Arguments::of);
        let arguments = if name == "delta" { arguments } else { arguments.whole() };
        let call = CallPart { name: self.name_once(at, fields.word("name")), arguments, ..CallPart::at(at) };
        self.packet(Part { calls: vec![call], ..Part::default() })
    }

    /// An item begins. What it says now may be incomplete, and is said again.
    fn added(&mut self, mut event: Fields<'_>) -> Packet {
        let place = event.count("output_index");
        let Some((mark, mut item)) = event.take("item").and_then(|raw| Mark::of_item(raw, place)) else {
            return Packet::default();
        };
        let is_known = !mark.is_bare() && self.known.iter().any(|known| known.mark == mark);
        if is_known || mark.kind == Kind::Reasoning {
            return Packet::default();
        }
        let (kind, id) = (mark.kind, mark.call_id.clone());
        let at = self.open(mark);
        let mut part = Part::default();
        if kind == Kind::Call {
            let name = self.name_once(at, item.word("name"));
            part.calls.push(CallPart { id, name, ..CallPart::at(at) });
        }
        self.packet(part)
    }

    /// An item is done, and said as a whole.
    fn done(&mut self, mut event: Fields<'_>) -> Packet {
        let place = event.count("output_index");
        let Some((mark, item)) = event.take("item").and_then(|raw| Mark::of_item(raw, place)) else {
            return Packet::default();
        };
        let unfinished = |item: &Item| mark.is_bare() && !item.is_whole && item.mark.may_be(&mark);
        let at = self.find(&mark).or_else(|| self.known.iter().rposition(unfinished));
        let part = self.take_item(at, mark, item);
        part.map_or_else(Packet::default, |part| self.packet(part))
    }

    /// The response is over, and said as a whole. Its items are those of the stream, in order.
    ///
    /// Where the event and the response differ in the status, the one that is no good end counts,
    /// unless the response only tells how things stood before.
    fn end(&mut self, mut response: Fields<'_>, event: Option<&str>) -> Packet {
        self.is_over = true;
        self.forget_waiting();
        let own = response.word("status");
        let status = match (event, own.as_deref()) {
            (Some("completed"), Some(own @ ("incomplete" | "failed" | "cancelled"))) => own,
            (Some(event), _) => event,
            (None, own) => own.unwrap_or("completed"),
        };
        let error = WireError::nested(&mut response);
        let reason = response.object("incomplete_details").and_then(|mut details| details.word("reason"));
        let (finish, error) = match (status, reason.as_deref()) {
            (_, Some("content_filter")) => ("content_filter", error),
            ("incomplete", _) | ("completed", Some(_)) => ("max_output_tokens", error),
            ("completed", None) => ("completed", error),
            (other, _) => (other, Some(error.unwrap_or_else(|| WireError::of_kind(other)))),
        };
        let mut all = Part::default();
        let mut kinds = Vec::new();
        for raw in response.list("output") {
            let Some((mark, item)) = Mark::of_item(raw, None) else { continue };
            let kind = mark.kind;
            let before = kinds.iter().filter(|known| **known == kind).count();
            kinds.push(kind);
            let of_kind = self.known.iter().enumerate().filter(|(_, item)| item.mark.kind == kind);
            let at = of_kind.map(|(at, _)| at).nth(before);
            if let Some(part) = self.take_item(at, mark, item) {
                let Part { text, refusal, calls, extra } = self.with_reasoning(part);
                all.text.push_str(&text);
                all.refusal.push_str(&refusal);
                all.calls.extend(calls);
                merge(&mut all.extra, extra);
            }
        }
        Packet {
            error,
            model: response.word("model"),
            usage: usage(&mut response, ["input_tokens", "output_tokens"]),
            choice: Some(Choice { finish: Some(finish.to_owned()), part: all }),
        }
    }

    /// Takes an item that is said as a whole; none where it holds nothing for the reply.
    fn take_item(&mut self, at: Option<usize>, mark: Mark, mut fields: Fields<'_>) -> Option<Part> {
        let (kind, id) = (mark.kind, mark.call_id.clone());
        let at = match at {
            Some(at) => at,
            None => self.open(mark),
        };
        let item = self.known.get_mut(at)?;
        let was_whole = std::mem::replace(&mut item.is_whole, true);
        match kind {
            Kind::Message => {
                let mut part = Part::default();
                if let Some(content) = fields.take("content") {
                    part.add_content(content);
                }
                Some(item.unsaid(part, false))
            }
            Kind::Call => {
                let arguments = fields.take("arguments").map_or(Arguments::Absent, Arguments::of).whole();
                let name = self.name_once(at, fields.word("name"));
                let call = CallPart { id, name, arguments, ..CallPart::at(at) };
                Some(Part { calls: vec![call], ..Part::default() })
            }
            Kind::Reasoning => {
                if !was_whole {
                    self.sealed.extend(sealed(fields).map(|seal| (at, seal)));
                }
                None
            }
        }
    }

    fn open(&mut self, mark: Mark) -> usize {
        self.known.push(Item { mark, has_name: false, has_text: false, has_refusal: false, is_whole: false });
        self.known.len() - 1
    }

    /// The item that a fragment belongs to: the one it names, else the newest of its kind.
    fn of_fragment(&mut self, mark: Mark) -> usize {
        let newest = |items: &Self| items.known.iter().rposition(|item| item.mark.kind == mark.kind);
        match self.find(&mark).or_else(|| newest(self)) {
            Some(at) => at,
            None => self.open(mark),
        }
    }

    /// The item that fits best: some servers give every item one number, others one item many ids.
    fn find(&self, mark: &Mark) -> Option<usize> {
        let fits = self.known.iter().enumerate().map(|(at, item)| (item.mark.likeness(mark), at));
        fits.filter(|(likeness, _)| *likeness > 0).max().map(|(_, at)| at)
    }

    /// A name the first time it is said: what is said again could be taken for another piece of it.
    fn name_once(&mut self, at: usize, name: Option<String>) -> Option<String> {
        let item = self.known.get_mut(at)?;
        let name = name.filter(|_| !item.has_name);
        item.has_name |= name.is_some();
        name
    }

    fn packet(&mut self, part: Part) -> Packet {
        let part = self.with_reasoning(part);
        Packet { choice: Some(Choice { finish: None, part }), ..Packet::default() }
    }

    /// Gives the reasoning that came before a part to that part.
    fn with_reasoning(&mut self, mut part: Part) -> Part {
        if !self.sealed.is_empty() {
            let extra = part.calls.first_mut().map_or(&mut part.extra, |call| &mut call.extra);
            let seals = self.sealed.drain(..).map(|(_, seal)| seal);
            extra.insert(REASONING_KEY.to_owned(), seals.collect::<Vec<_>>().into());
        }
        part
    }

    /// The whole response says again where in it the reasoning belongs that still waits.
    fn forget_waiting(&mut self) {
        for (at, _) in self.sealed.drain(..) {
            if let Some(item) = self.known.get_mut(at) {
                item.is_whole = false;
            }
        }
    }
}

impl Item {
    /// What of a message was not said before. A piece is always new; a whole repeats the pieces.
    fn unsaid(&mut self, mut part: Part, is_piece: bool) -> Part {
        if self.has_text && !is_piece {
            part.text.clear();
        }
        if self.has_refusal && !is_piece {
            part.refusal.clear();
        }
        self.has_text |= !part.text.is_empty();
        self.has_refusal |= !part.refusal.is_empty();
        part
    }
}

impl Mark {
    /// The mark of an event about a part of an item.
    fn of_fragment(kind: Kind, event: &mut Fields<'_>) -> Self {
        Self { kind, id: event.word("item_id"), call_id: None, place: event.count("output_index") }
    }

    /// The mark of an item, and its fields; none where it is nothing that a reply consists of.
    fn of_item(raw: &RawValue, place: Option<u64>) -> Option<(Self, Fields<'_>)> {
        let mut item = Fields::of(raw)?;
        let kind = match item.text("type").as_deref() {
            Some("message") => Kind::Message,
            Some("function_call") => Kind::Call,
            Some("reasoning") => Kind::Reasoning,
            Some(_) => return None,
            None if item.has("arguments") => Kind::Call,
            None if item.has("content") => Kind::Message,
            None => return None,
        };
        let call_id = item.word("call_id").filter(|id| id != "null");
        Some((Self { kind, id: item.word("id"), call_id, place }, Fields::of(raw)?))
    }

    /// Whether it says neither which item it is nor where.
    fn is_bare(&self) -> bool {
        self.id.is_none() && self.place.is_none()
    }

    /// Whether both may be marks of one item.
    fn may_be(&self, other: &Self) -> bool {
        let differ = matches!((&self.call_id, &other.call_id), (Some(a), Some(b)) if a != b);
        self.kind == other.kind && !differ
    }

    /// How much speaks for both being marks of one item; 0 for nothing.
    fn likeness(&self, other: &Self) -> u8 {
        if !self.may_be(other) {
            return 0;
        }
        let same_id = self.id.is_some() && self.id == other.id;
        let same_place = self.place.is_some() && self.place == other.place;
        2 * u8::from(same_id) + u8::from(same_place)
    }
}

/// A reasoning item as it goes back; none where it is not sealed, for the provider keeps nothing
/// that it could be read from.
fn sealed(mut fields: Fields<'_>) -> Option<Value> {
    let mut item: Map<String, Value> = fields.keep(&SEALED_FIELDS.map(str::to_owned));
    item.get("encrypted_content")?.as_str().filter(|seal| !seal.is_empty())?;
    item.insert("type".to_owned(), "reasoning".into());
    item.entry("summary").or_insert_with(|| Value::Array(Vec::new()));
    Some(item.into())
}

fn failed(error: Option<WireError>) -> Packet {
    Packet { error, ..Packet::default() }
}
