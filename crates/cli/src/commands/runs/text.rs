//! Runs as text for people and as JSON for programs.

mod tree;

use std::fmt::Write as _;
use std::time::Duration;

use dauntless_contract::{LetterContent, MicroUsd, RunCounts, RunMeta, RunState, Tokens};
use dauntless_daemon::runs::{
    Awaited, Below, Branch, Headline, Late, Line, Look, Overview, Row, Unread, length,
};
use serde_json::{Value, json};

use crate::output::one_line;

/// Longest goal, reason or wait that is shown.
const TEXT_CHARS_MAX: usize = 400;
/// Longest of these in a list.
const CELL_CHARS_MAX: usize = 100;

/// All runs: their counts, those that wait for an operator, and a table.
pub(super) fn overview(overview: &Overview) -> String {
    let Overview { counts, alarms, stuck, stuck_more, rows, rows_more } = overview;
    let mut text = format!("{}\n", counted(counts));
    for alarm in alarms {
        let _ = writeln!(text, "  {}", one_line(&alarm.to_string(), TEXT_CHARS_MAX));
    }
    for (meta, why) in stuck {
        let _ = writeln!(text, "  {} {}", meta.run, one_line(why, TEXT_CHARS_MAX));
    }
    if *stuck_more > 0 {
        let _ = writeln!(text, "  and {stuck_more} more; --state paused and --state quarantined list them");
    }
    if rows.is_empty() {
        return text;
    }
    let cells: Vec<[String; 6]> = rows.iter().map(row).collect();
    let head = ["RUN", "STATE", "AGENT", "AGE", "USED", "WAITS FOR"].map(str::to_owned);
    let all: Vec<&[String; 6]> = [&head].into_iter().chain(&cells).collect();
    text.push('\n');
    text.push_str(&table(&all));
    if *rows_more > 0 {
        let _ = writeln!(text, "and {rows_more} older; --limit shows more");
    }
    text
}

fn counted(counts: &RunCounts) -> String {
    let RunCounts { ready, driven, orphaned, paused, quarantined, ended, unclaimable } = *counts;
    let all = ready + driven + orphaned + paused + quarantined + ended;
    let parts = [
        (ready, "waiting for a worker"),
        (driven, "driven"),
        (orphaned, "whose worker died"),
        (paused, "paused"),
        (quarantined, "in quarantine"),
        (ended, "ended"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let runs = if all == 1 { "run" } else { "runs" };
    let mut text = match parts.is_empty() {
        true => return "no runs".to_owned(),
        false => format!("{all} {runs}: {}", parts.join(", ")),
    };
    if unclaimable > 0 {
        let _ = write!(text, "; {unclaimable} for workers of other code");
    }
    text
}

fn row(Row { meta, headline, waits }: &Row) -> [String; 6] {
    let last = match meta.state {
        RunState::Ended => format!("(ended: {})", meta.reason.as_deref().unwrap_or("it does not say how")),
        _ => waits.clone(),
    };
    let last = match meta.parent {
        Some(parent) => format!("asked for by {parent}: {last}"),
        None => last,
    };
    [
        meta.run.to_string(),
        meta.state.as_str().to_owned(),
        one_line(&meta.agent, 24),
        age(meta.age),
        used(headline),
        one_line(&last, CELL_CHARS_MAX),
    ]
}

fn used(headline: &Headline) -> String {
    let mut text = format!("{} {}", headline.turns, if headline.turns == 1 { "turn" } else { "turns" });
    if headline.tokens > Tokens::ZERO {
        let _ = write!(text, ", {}", headline.tokens);
    }
    if let Some(cost) = headline.cost.filter(|cost| *cost > MicroUsd::ZERO) {
        let _ = write!(text, ", {cost}");
    }
    if let Below { runs: below @ 1.., turns, .. } = headline.below {
        let _ = write!(text, ", +{below} {}", if below == 1 { "run" } else { "runs" });
        let _ = write!(text, " of {turns} {}", if turns == 1 { "turn" } else { "turns" });
    }
    text
}

/// How long ago a run was created.
fn age(age: Duration) -> String {
    match age.as_secs() {
        0..60 => "< 1 min".to_owned(),
        seconds => length(Duration::from_secs(seconds)),
    }
}

/// The cells in columns; the last is as wide as it likes.
fn table(rows: &[&[String; 6]]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        line.extend(row.last().map(String::as_str));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// One run: where it stands, what happened, and what reached it and was not taken in.
pub(super) fn look(look: &Look, tree: &[Branch]) -> String {
    let Look { meta, headline, timeline, unreadable, unrecoverable, unread, late, ends: _, now: _ } = look;
    let mut text = format!("run {}\n", meta.run);
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<9}{}", one_line(value, TEXT_CHARS_MAX));
    };
    field("agent", &headline.agent);
    field("goal", &headline.goal);
    field("state", &state(meta));
    if let Some(parent) = meta.parent {
        field("parent", &parent.to_string());
    }
    field("used", &headline.used());
    for wait in look.waits() {
        field("waits for", &format!(" {wait}"));
    }
    for wait in &headline.waits {
        if let Awaited::Answer(question) = &wait.awaited {
            field("to answer", &format!(" dauntless answer {} {} TEXT", meta.run, question.call));
        }
    }
    if let Some(reason) = &meta.reason {
        field(if meta.state == RunState::Ended { "ended" } else { "because" }, reason);
    }
    if let Some(why) = unrecoverable {
        field("trouble", why);
    }
    text.push('\n');
    for Line { seq, after, text: what, more } in timeline {
        let _ = writeln!(text, "{seq:>6} {:>12}  {}", length(*after), one_line(what, 2 * TEXT_CHARS_MAX));
        for more in more {
            let _ = writeln!(text, "{:21}  {}", "", one_line(more, TEXT_CHARS_MAX));
        }
        for branch in tree::ended_at(tree, *seq) {
            let _ = writeln!(text, "{:21}  {}", "", tree::line(branch));
        }
    }
    if let Some(why) = unreadable {
        let _ = writeln!(text, "       the rest cannot be shown: {}", one_line(why, TEXT_CHARS_MAX));
    }
    let open = tree::open(tree);
    if !open.is_empty() {
        text.push_str("\nruns below it whose end it has not seen\n");
    }
    for branch in open {
        let _ = writeln!(text, "{}", tree::line(branch));
    }
    if !unread.is_empty() {
        text.push_str("\nletters that the run has not read\n");
    }
    for letter in unread {
        let _ = writeln!(text, "  {}", one_line(&told(letter), TEXT_CHARS_MAX));
    }
    if !late.is_empty() {
        text.push_str("\nresults that came after the run had been taken over\n");
    }
    for Late { call, epoch, text: what } in late {
        let _ = writeln!(text, "  {call}, begun under epoch {epoch}: {}", one_line(what, TEXT_CHARS_MAX));
    }
    text
}

fn state(meta: &RunMeta) -> String {
    let mut text = meta.state.as_str().to_owned();
    if let Some(owner) = &meta.owner {
        let _ = write!(
            text,
            "{} {owner}",
            if meta.state == RunState::Driven { " by" } else { ", last driven by" }
        );
    }
    let events = if meta.head == 1 { "event" } else { "events" };
    let _ = write!(text, "; {} {events}, the first {} ago", meta.head, age(meta.age));
    if meta.attempts > 1 {
        let _ = write!(text, ", claimed {} times without getting on", meta.attempts);
    }
    text
}

fn told(Unread { id, content }: &Unread) -> String {
    match content {
        Some(LetterContent::Cancel { by }) => format!("{by} wants it to end"),
        Some(LetterContent::Answer { call, text }) => format!("the answer to {call}: {text}"),
        Some(LetterContent::Message { from, agent, text }) => format!("{agent} (run {from}) wrote: {text}"),
        Some(LetterContent::Configure { adopt: true }) => {
            "an operator adopts the configuration that its agent has now".to_owned()
        }
        Some(LetterContent::Configure { adopt: false }) => {
            "an operator keeps the configuration that its agent had".to_owned()
        }
        Some(LetterContent::LateResult { call, epoch }) => {
            format!("{call}, begun under epoch {epoch}, has come to its end")
        }
        None => format!("`{id}`, which this version cannot read"),
    }
}

/// All runs, as one line of JSON.
pub(super) fn overview_json(overview: &Overview) -> String {
    let Overview { counts, alarms, stuck, stuck_more, rows, rows_more } = overview;
    let alarms: Vec<String> = alarms.iter().map(ToString::to_string).collect();
    let RunCounts { ready, driven, orphaned, paused, quarantined, ended, unclaimable } = *counts;
    let stuck: Vec<Value> = stuck.iter().map(|(meta, why)| json!({ "run": meta.run, "why": why })).collect();
    let rows: Vec<Value> =
        rows.iter().map(|row| json!({ "meta": meta_json(&row.meta), "headline": row.headline })).collect();
    let value = json!({
        "counts": {
            "ready": ready, "driven": driven, "orphaned": orphaned, "paused": paused,
            "quarantined": quarantined, "ended": ended, "unclaimable": unclaimable,
        },
        "alarms": alarms, "stuck": stuck, "stuck_more": stuck_more, "runs": rows, "runs_more": rows_more,
    });
    format!("{value}\n")
}

/// One run, as one line of JSON.
pub(super) fn look_json(look: &Look, tree: &[Branch]) -> String {
    let Look { meta, headline, timeline, unreadable, unrecoverable, unread, late, ends: _, now: _ } = look;
    let unread: Vec<Value> =
        unread.iter().map(|Unread { id, content }| json!({ "id": id, "content": content })).collect();
    let late: Vec<Value> = late
        .iter()
        .map(|Late { call, epoch, text }| json!({ "call": call, "epoch": epoch, "text": text }))
        .collect();
    let value = json!({
        "meta": meta_json(meta), "headline": headline, "timeline": timeline, "unreadable": unreadable,
        "unrecoverable": unrecoverable, "unread": unread, "late": late,
        "tree": tree.iter().map(tree::json).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}

fn meta_json(meta: &RunMeta) -> Value {
    json!({
        "run": meta.run, "agent": meta.agent, "state": meta.state.as_str(), "reason": meta.reason,
        "events": meta.head, "epoch": meta.epoch, "owner": meta.owner, "claims": meta.attempts,
        "ready_in_s": meta.ready_in.as_secs(), "letters": meta.letters, "late_results": meta.late_results,
        "code_version": meta.code_version, "parent": meta.parent, "root": meta.root,
        "age_s": meta.age.as_secs(), "since_last_s": meta.since_last.as_secs(),
    })
}
