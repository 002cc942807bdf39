//! Where a fragment of a call belongs. Apart, because it is the one question that providers make
//! hard; it changes nothing and guesses nothing.

use super::OpenCall;
use crate::wire::{Arguments, CallPart};

/// Where a fragment belongs. Places are those in the list of calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// It says nothing, or only what is known.
    Nowhere,
    /// It starts a call.
    Open,
    /// It continues this one.
    Join(usize),
    /// It either starts a call or continues this one; neither can be trusted.
    OpenInDoubt(usize, &'static str),
    /// It could belong to any call; none can be trusted.
    Unclear(&'static str),
}

const SHARED_PLACE: &str = "pieces with different ids came under one number";
const SPLIT_ID: &str = "pieces with one id came under different numbers";
const NO_OWNER: &str = "a piece of arguments came that fits no call";

/// Whether a fragment holds nothing at all.
pub(super) fn says_nothing(part: &CallPart) -> bool {
    let no_arguments = match &part.arguments {
        Arguments::Absent => true,
        Arguments::Text(text) => text.is_empty(),
        Arguments::Value(_) | Arguments::NotText => false,
    };
    part.id.is_none() && part.name.is_none() && no_arguments && part.extra.is_empty()
}

/// Finds the place of a fragment. `alone` says that no other fragment of its chunk is as bare.
pub(super) fn route(calls: &[OpenCall], part: &CallPart, alone: bool) -> Route {
    if says_nothing(part) {
        return Route::Nowhere;
    }
    // The newest call counts where a number or an id was used before.
    let find = |matches: &dyn Fn(&OpenCall) -> bool| calls.iter().rposition(matches);
    let by_index = part.index.and_then(|index| find(&|call| call.index == Some(index)));
    let by_id = part.id.as_ref().and_then(|id| find(&|call| call.id.as_ref() == Some(id)));
    let same_id = |at: usize| calls.get(at).is_some_and(|call| call.id == part.id);
    match (by_index, by_id) {
        (Some(place), Some(owner)) if place != owner && !same_id(place) => Route::Unclear(SHARED_PLACE),
        (Some(at), _) | (None, Some(at)) => continue_or_open(calls, at, part),
        (None, None) if part.name.is_some() => named(calls, part),
        (None, None) => nameless(calls, part, alone),
    }
}

/// For a fragment whose number or id is that of a call: the same call, or another one?
fn continue_or_open(calls: &[OpenCall], at: usize, part: &CallPart) -> Route {
    let (Some(call), Some(name)) = (calls.get(at), &part.name) else { return Route::Join(at) };
    let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
    if matches!((call.index, part.index), (Some(a), Some(b)) if a != b) {
        let half_written = !call.has_no_arguments() && !call.is_closed();
        return if half_written { Route::OpenInDoubt(at, SPLIT_ID) } else { Route::Open };
    }
    if differ(&call.id, &part.id) {
        let clear = call.is_closed() || call.name != *name;
        return if clear { Route::Open } else { Route::OpenInDoubt(at, SHARED_PLACE) };
    }
    match (call.name == *name, call.is_closed()) {
        (true, true) => match &part.arguments {
            Arguments::Text(text) if text.trim().is_empty() => Route::Nowhere,
            Arguments::Text(text) | Arguments::Value(text) if *text == call.arguments => Route::Nowhere,
            Arguments::Absent => Route::Join(at),
            Arguments::Text(_) | Arguments::Value(_) | Arguments::NotText => Route::Open,
        },
        (true, false) => Route::Join(at),
        (false, _) if call.name.is_empty() => Route::Join(at),
        (false, true) => Route::Open,
        // The name comes in pieces, before the arguments.
        (false, false) if call.has_no_arguments() => Route::Join(at),
        (false, false) => Route::OpenInDoubt(at, SHARED_PLACE),
    }
}

/// For a fragment with a name whose number and id are new.
fn named(calls: &[OpenCall], part: &CallPart) -> Route {
    let (Some(last), None) = (calls.last(), part.index) else { return Route::Open };
    let at = calls.len() - 1;
    let id_comes_late =
        last.id.is_none() && last.has_no_arguments() && Some(&last.name) == part.name.as_ref();
    if part.id.is_none() || id_comes_late { continue_or_open(calls, at, part) } else { Route::Open }
}

/// For a fragment with neither a name nor a known number or id.
fn nameless(calls: &[OpenCall], part: &CallPart, alone: bool) -> Route {
    let Some(last) = calls.last() else { return Route::Open };
    let at = calls.len() - 1;
    if part.id.is_some() {
        return match part.index {
            // Its name may still come.
            Some(_) => Route::Open,
            None if last.id.is_none() && !last.is_closed() => Route::Join(at),
            None => Route::Unclear(NO_OWNER),
        };
    }
    // Without any numbers the calls can only have come one after the other.
    let in_sequence = part.index.is_none() && calls.iter().all(|call| call.index.is_none());
    let only_one = calls.len() == 1 || in_sequence;
    match &part.arguments {
        _ if only_one && alone && !last.is_closed() => Route::Join(at),
        Arguments::Absent => Route::Nowhere,
        Arguments::Text(text) if text.trim().is_empty() => Route::Nowhere,
        Arguments::Text(_) | Arguments::Value(_) | Arguments::NotText => Route::Unclear(NO_OWNER),
    }
}
