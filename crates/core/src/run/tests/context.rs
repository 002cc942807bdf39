//! A conversation that grows beyond its model's window.

use super::*;

impl Scene {
    fn windowed(tokens: u64) -> Self {
        Self::changed(RunLimits { turns: 400, ..RunLimits::default() }, PanicPolicy::Observe, |spec| {
            Arc::make_mut(&mut spec.model).context_window = Some(Tokens(tokens));
            spec.fallbacks.clear();
        })
    }

    fn unwindowed() -> Self {
        Self::changed(RunLimits::default(), PanicPolicy::Observe, |spec| spec.fallbacks.clear())
    }

    /// Answers a request for a summary; nothing happens where none was asked for.
    pub(super) fn summarises(&mut self, text: Option<&str>) -> &mut Self {
        let (turn, model, attempts) = (self.turn, self.model, 1);
        self.on(match text {
            Some(text) => RunEvent::SummaryReplied { turn, model, reply: ModelReply::text(text), attempts },
            None => RunEvent::SummaryFailed { turn, model, failure: Failure::unavailable("Down."), attempts },
        })
    }

    fn overflows(&mut self, window: Option<u32>) -> &mut Self {
        let (turn, model) = (self.turn, self.model);
        let window = window.and_then(std::num::NonZeroU32::new);
        let failure = Failure { window, ..Failure::too_large("The conversation is too long.") };
        self.on(RunEvent::ModelFailed { turn, model, failure, attempts: 1 })
    }

    /// So many turns with one call each, whose result has so many bytes.
    fn rounds(&mut self, count: u32, bytes: usize) -> &mut Self {
        for n in 0..count {
            if self.seen.last().is_some_and(|line| line.starts_with("summarise")) {
                self.summarises(Some("Words."));
            }
            let question = format!(r#"{{"q":"{}-{n}"}}"#, self.turn);
            self.asks(&[("find", &question)]);
            self.ends(0, Ok(&format!("{} {}", self.turn, "word ".repeat(bytes / 5))));
        }
        self
    }

    fn bytes(&self) -> usize {
        bytes(self.machine.history())
    }

    fn texts(&self) -> Vec<&str> {
        self.machine.history().messages().iter().map(text).collect()
    }

    fn count(&self, start: &str) -> usize {
        self.seen.iter().filter(|line| line.starts_with(start)).count()
    }
}

fn text(message: &Message) -> &str {
    match message {
        Message::System { text } | Message::User { text } | Message::Tool { text, .. } => text,
        Message::Assistant { text, .. } => text.as_deref().unwrap_or_default(),
    }
}

fn bytes(history: &History) -> usize {
    history.messages().iter().map(|message| text(message).len()).sum()
}

#[test]
fn without_a_window_nothing_is_left_out() {
    let mut scene = Scene::unwindowed();
    scene.rounds(40, 4000).says("Done.");
    assert!(scene.bytes() > 160_000);
    assert_eq!(scene.count("trim") + scene.count("summarise"), 0);
}

#[test]
fn old_observations_are_shortened_first_and_can_be_read_again() {
    let mut scene = Scene::windowed(9000);
    scene.rounds(7, 4000);
    assert_eq!(scene.count("trim Shortened"), 1);
    let texts = scene.texts();
    let note = texts.iter().find(|text| text.contains("left out to save room")).unwrap();
    expect![[r#"
        1 word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word wor
        [… 3842 of 4002 bytes left out to save room. To read them, call read_result with the id `r1-0` and a range of bytes. …]"#]]
        .assert_eq(note);
    assert!(texts.last().unwrap().len() > 4000, "the newest is whole");
    scene.asks(&[("read_result", r#"{"id":"r1-0","from":3990}"#)]);
    let texts = scene.texts();
    assert_eq!(
        texts.last().unwrap(),
        &"[Bytes 3990 to 4002 of 4002 of `r1-0`. This is the end of it.]\nd word word "
    );
    assert_eq!(scene.seen.last().unwrap(), "ask 9 All +read_result");
    scene.replay_is_equal();
}

#[test]
fn after_a_trim_many_turns_follow_before_the_next() {
    let mut scene = Scene::windowed(32_768);
    scene.rounds(10, 4000);
    let mut trimmed_at = Vec::new();
    for n in 0..60 {
        let before = scene.count("trim");
        scene.rounds(1, 4000);
        if scene.count("trim") > before {
            trimmed_at.push(n);
        }
        scene.summarises(Some("Words were found."));
    }
    assert!(trimmed_at.windows(2).all(|pair| pair[1] - pair[0] >= 5), "{trimmed_at:?}");
}

#[test]
fn whole_rounds_give_way_to_a_summary_when_that_is_not_enough() {
    let mut scene = Scene::windowed(4000);
    while scene.count("summarise") == 0 {
        scene.rounds(1, 600);
    }
    let request = scene.summary.clone().unwrap();
    assert!(text(&request.messages()[1]).contains("Do it."), "it knows the goal");
    assert!(text(&request.messages()[1]).contains("assistant calls find: {\"q\":\"1-0\"}"));
    assert!(bytes(&request) < 4000 * 3);
    let (turns, usage) = (scene.machine.totals().turns, Usage::new(Tokens(900), Tokens(10)));
    let (turn, model) = (scene.turn, scene.model);
    let reply = ModelReply { usage: Some(usage), ..ModelReply::text("Words, a lot of them.") };
    scene.on(RunEvent::SummaryReplied { turn, model, reply, attempts: 2 });
    let texts = scene.texts();
    assert_eq!(texts[..2], ["Be good.", "Do it."]);
    assert!(texts[2].starts_with("[Note of the harness, not of the user: "), "{}", texts[2]);
    assert!(texts[2].ends_with("\nWords, a lot of them."), "{}", texts[2]);
    let totals = scene.machine.totals();
    assert_eq!((totals.turns, totals.model_attempts), (turns, turns - 1 + 2), "no turn, but two attempts");
    assert_eq!((totals.usage.prompt, totals.cost), (Tokens(900), MicroUsd(900)));
    scene.rounds(2, 100).says("Done.");
    scene.history_is_valid();
    scene.replay_is_equal();
    assert!(scene.machine.outcome().unwrap().is_completed());
}

#[test]
fn without_a_summary_a_note_says_what_is_gone_and_an_earlier_summary_stays() {
    let mut scene = Scene::windowed(4000);
    while scene.count("summarise") == 0 {
        scene.rounds(1, 600);
    }
    scene.summarises(Some("The first words."));
    while scene.count("summarise") == 1 {
        scene.rounds(1, 600);
    }
    scene.summarises(None);
    assert_eq!(scene.count("trim Dropped"), 1);
    let texts = scene.texts();
    assert!(
        texts[2].contains("No notes could be made") && texts[2].ends_with("The first words."),
        "{}",
        texts[2]
    );
    while scene.count("summarise") == 2 {
        scene.rounds(1, 600);
    }
    scene.summarises(Some(" \n"));
    assert_eq!(scene.count("trim Dropped"), 2, "a blank summary is none");
    scene.history_is_valid();
    scene.replay_is_equal();
}

#[test]
fn a_summary_that_uses_up_the_limit_leads_to_the_last_words() {
    let limits = RunLimits { tokens: Tokens(5000), turns: 400, ..RunLimits::default() };
    let mut scene = Scene::changed(limits, PanicPolicy::Observe, |spec| {
        Arc::make_mut(&mut spec.model).context_window = Some(Tokens(4000));
    });
    while scene.count("summarise") == 0 {
        scene.rounds(1, 600);
    }
    let (turn, model) = (scene.turn, scene.model);
    let usage = Some(Usage::new(Tokens(5000), Tokens(10)));
    let reply = ModelReply { usage, ..ModelReply::text("Words.") };
    scene.on(RunEvent::SummaryReplied { turn, model, reply, attempts: 1 });
    assert_eq!(scene.seen.last().unwrap(), &format!("ask {turn} Nothing"));
    scene.says("All I know.");
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::LimitReached(LimitKind::Tokens));
    scene.replay_is_equal();
}

#[test]
fn a_run_can_be_cancelled_while_it_waits_for_a_summary() {
    let mut scene = Scene::windowed(4000);
    while scene.count("summarise") == 0 {
        scene.rounds(1, 600);
    }
    let turn = scene.turn;
    scene.on(RunEvent::CancelRequested { by: "a test".into() });
    assert_eq!(
        scene.seen[scene.seen.len() - 2..],
        [format!("cancel model {turn}"), "end cancelled by a test".to_owned()]
    );
    let before = scene.machine.clone();
    scene.summarises(Some("Late."));
    assert_eq!(scene.machine, before);
}

#[test]
fn the_newest_round_is_cut_when_it_alone_is_too_much_and_stays_whole_as_a_round() {
    let mut scene = Scene::windowed(8000);
    scene.rounds(1, 300);
    let calls: Vec<String> = (0..8).map(|n| format!(r#"{{"q":"{n}"}}"#)).collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|call| ("find", &**call)).collect();
    scene.asks(&calls);
    for n in 0..7 {
        scene.ends(n, Ok(&"中文".repeat(5000)));
    }
    scene.ends(7, Ok("small"));
    assert!(scene.bytes() < 8000 * 3, "{}", scene.bytes());
    assert_eq!(scene.texts().last().unwrap(), &"small", "what is small is not touched");
    assert_eq!(scene.machine.history().blocks().last().unwrap().len(), 9);
    scene.history_is_valid();
    scene.replay_is_equal();
}

#[test]
fn a_large_result_is_kept_and_read_in_pieces() {
    let mut scene = Scene::unwindowed();
    scene.asks(&[("find", "{}"), ("find", r#"{"q":"b"}"#)]);
    scene.ends(0, Ok(&"ab中".repeat(20_000))).ends(1, Ok("small"));
    let texts = scene.texts();
    let note = texts.iter().find(|text| text.contains("left out")).unwrap();
    assert!(
        note.contains("of 100000 bytes left out. To read them, call read_result with the id `r1-0`"),
        "{note:.200}"
    );
    scene.asks(&[
        ("read_result", r#"{"id":"r1-0","from":"50003","to":50009}"#),
        ("read_result", r#"{"id":"r9-9"}"#),
    ]);
    let texts = scene.texts();
    let (read, unknown) = (texts[texts.len() - 2], texts[texts.len() - 1]);
    assert_eq!(read, "[Bytes 50002 to 50007 of 100000 of `r1-0`. To go on, read from 50007.]\n中ab");
    expect![[r#"{"error":"not_found","message":"No result `r9-9` is kept.","hint":"Kept, the newest first: `r1-0`.","effect":"none"}"#]]
        .assert_eq(unknown);
    scene.asks(&[("read_result", r#"{"id":"r1-0","from":200000}"#), ("read_result", r#"{"from":1}"#)]);
    assert_eq!([1, 0].map(|back| scene.observation(back)["error"].clone()), ["invalid_arguments"; 2]);
    let totals = scene.machine.totals();
    assert_eq!((totals.tool_calls, totals.failed_calls, totals.tool_attempts), (6, 3, 4));
    scene.says("Done.").seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        run 1.1 find {"q":"b"}
        ask 2 All +read_result
        ask 3 All +read_result
        ask 4 All +read_result
        end completed `Done.`
    "#]]);
}

#[test]
fn there_is_no_reader_before_there_is_something_to_read() {
    let mut scene = Scene::unwindowed();
    scene.asks(&[("read_result", r#"{"id":"r1-0"}"#)]);
    assert_eq!(scene.observation(0)["error"], "unknown_tool");
}

#[test]
fn a_tool_of_the_agent_that_is_named_read_result_keeps_its_name() {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |run| {
        let tools = [spec("read_result", |_| {}), spec("find", |_| {})];
        run.toolbox = Toolbox::build(tools.to_vec()).0;
    });
    scene.asks(&[("find", "{}")]).ends(0, Ok(&"x".repeat(100_000)));
    assert!(scene.texts().last().unwrap().contains("call again for less at a time"));
    scene.asks(&[("read_result", "{}")]).ends(0, Ok("mine")).says("Done.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        ask 2 All
        run 2.0 read_result {}
        ask 3 All
        end completed `Done.`
    "#]]);
}

#[test]
fn a_run_that_reads_the_same_piece_again_and_again_is_stuck() {
    let mut scene = Scene::unwindowed();
    scene.asks(&[("find", "{}")]).ends(0, Ok(&"x".repeat(100_000)));
    for _ in 0..8 {
        scene.asks(&[("read_result", r#"{"id":"r1-0"}"#)]);
    }
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "stuck");
}

#[test]
fn an_overflow_that_names_the_window_is_answered_with_what_fits_it() {
    let mut scene = Scene::unwindowed();
    scene.rounds(10, 4000);
    scene.overflows(Some(8000));
    assert_eq!((scene.count("trim Shortened"), scene.count("ask 11 ")), (1, 2), "{:?}", scene.seen);
    assert!(scene.bytes() < 8000 * 4, "{}", scene.bytes());
    scene.rounds(20, 4000);
    assert!(scene.bytes() < 8000 * 4, "it remembers");
    scene.says("Done.");
    assert!(scene.machine.outcome().unwrap().is_completed());
    scene.replay_is_equal();
}

#[test]
fn an_overflow_without_numbers_makes_each_request_smaller_until_the_run_ends() {
    let mut scene = Scene::unwindowed();
    scene.rounds(30, 4000);
    let mut sizes = vec![scene.bytes()];
    while scene.machine.outcome().is_none() {
        scene.overflows(None).summarises(Some("Words."));
        sizes.push(scene.bytes());
    }
    sizes.pop();
    assert!(sizes.windows(2).all(|pair| pair[1] < pair[0]), "{sizes:?}");
    assert!(sizes.len() > 2, "{sizes:?}");
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason.name(), "model_failed");
    assert_eq!(outcome.reason.to_string(), format!("model_failed: too_large after {} attempts", sizes.len()));
    assert!(outcome.explanation.as_deref().unwrap().starts_with("The conversation is too long. "));
    scene.history_is_valid();
    scene.replay_is_equal();
}

#[test]
fn a_goal_that_does_not_fit_is_sent_once() {
    let mut scene = Scene::unwindowed();
    scene.overflows(None);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        end model_failed: too_large after 1 attempt
    "#]]);
    let why = scene.machine.outcome().unwrap().explanation.clone().unwrap();
    assert_eq!(&*why, "The conversation is too long. Nothing more can be left out of it.");
}

#[test]
fn an_overflow_of_the_request_for_a_summary_costs_the_summary_alone() {
    let mut scene = Scene::windowed(4000);
    while scene.count("summarise") == 0 {
        scene.rounds(1, 600);
    }
    let (turn, model, attempts) = (scene.turn, scene.model, 1);
    scene.on(RunEvent::SummaryFailed { turn, model, failure: Failure::too_large("Too long."), attempts });
    assert_eq!((scene.count("summarise"), scene.count("trim Dropped")), (1, 1));
    assert_eq!(scene.seen.last().unwrap(), &format!("ask {turn} All +read_result"));
    scene.history_is_valid();
}

#[test]
fn a_fallback_for_a_conversation_that_is_too_large_goes_first() {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |spec| {
        for fallback in &mut spec.fallbacks {
            fallback.on.push(Bucket::ModelMistake);
        }
    });
    scene.rounds(3, 4000).overflows(None);
    assert_eq!(scene.seen.last().unwrap(), "ask 4 All model 1");
    scene.overflows(None).overflows(None).summarises(None);
    assert!(
        scene.count("trim") > 0 && scene.count("ask 4 All") == 4,
        "the last of them gets less: {:?}",
        scene.seen
    );
}

#[test]
fn what_the_provider_reports_corrects_the_count() {
    let mut scene = Scene::windowed(16_000);
    scene.rounds(4, 4000);
    let usage = Some(Usage::new(Tokens(13_000), Tokens(10)));
    scene.reply(ModelReply { usage, ..asking(&[("find", r#"{"q":"z"}"#)]) });
    scene.ends(0, Ok(&"word ".repeat(600)));
    assert_eq!(scene.count("trim Shortened"), 1, "a request thought small was large");
}
