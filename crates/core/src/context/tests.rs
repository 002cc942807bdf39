use std::sync::Arc;

use dauntless_contract::*;
use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::results::{KEPT_BYTES_MAX, KEPT_MAX, READ_BYTES_MAX, Results};
use super::*;

fn key(turn: u32, index: u32) -> CallKey {
    CallKey { turn, index }
}

fn round(turn: usize, results: &[usize]) -> Round {
    let call = |(index, bytes): (usize, &usize)| {
        let id: Arc<str> = format!("c{turn}_{index}").into();
        let call = ToolCall { id, name: "find".into(), arguments: Json::empty_object() };
        (call, Observation { text: "é1 中 ".repeat(bytes / 8 + 1).into() })
    };
    Round { text: None, extra: None, calls: results.iter().enumerate().map(call).collect() }
}

/// A piece of a conversation: a round with results of these sizes, an answer, or a nudge.
#[derive(Clone, Debug)]
enum Piece {
    Round(Vec<usize>),
    Answer,
    Nudge,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let size = prop_oneof![4 => 0..2000usize, 1 => 2000..60_000usize];
    let piece = prop_oneof![
        6 => prop::collection::vec(size, 1..5).prop_map(Piece::Round),
        1 => Just(Piece::Answer),
        1 => Just(Piece::Nudge),
    ];
    prop::collection::vec(piece, 1..30)
}

fn history(instructions: &str, pieces: &[Piece]) -> History {
    let mut history = History::open(&instructions.into(), &"The goal.".into());
    for (turn, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Round(results) => history.round(round(turn + 1, results)),
            Piece::Answer => history.answer("Perhaps.".into(), None),
            Piece::Nudge => history.user("Go on.".into()),
        }
    }
    history
}

/// What strict providers ask of a conversation.
fn check(history: &History, instructions: &str) {
    let messages = history.messages();
    let mut rest = messages.iter();
    if !instructions.is_empty() {
        assert!(matches!(rest.next(), Some(Message::System { text }) if &**text == instructions));
    }
    assert!(matches!(rest.next(), Some(Message::User { text }) if &**text == "The goal."));
    let mut open: Vec<&str> = Vec::new();
    for message in rest {
        match message {
            Message::Tool { call_id, text, .. } => {
                assert!(!open.is_empty() && !text.is_empty());
                assert_eq!(&**call_id, open.remove(0));
            }
            Message::Assistant { text, calls, .. } => {
                assert!(open.is_empty());
                assert!(!calls.is_empty() || text.as_ref().is_some_and(|text| !text.trim().is_empty()));
                open = calls.iter().map(|call| &*call.id).collect();
            }
            Message::User { text } => assert!(open.is_empty() && !text.trim().is_empty()),
            Message::System { .. } => panic!("instructions come once"),
        }
    }
    assert!(open.is_empty());
}

fn newest(history: &History) -> Vec<String> {
    let block = history.blocks().filter(|block| block.len() > 1).last();
    let ids = |message: &Message| match message {
        Message::Tool { call_id, .. } => call_id.to_string(),
        Message::Assistant { calls, .. } => format!("{} calls", calls.len()),
        Message::System { .. } | Message::User { .. } => String::new(),
    };
    block.map_or_else(Vec::new, |block| history.messages()[block].iter().map(ids).collect())
}

fn model(window: u64) -> ModelSpec {
    ModelSpec {
        name: "m".into(),
        provider: "test".into(),
        price: Price::default(),
        output_tokens_max: None,
        context_window: Some(Tokens(window)),
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    }
}

proptest! {
    #[test]
    fn a_history_is_valid_wherever_it_is_cut(pieces in pieces(), with_instructions in any::<bool>()) {
        let instructions = if with_instructions { "Be good." } else { "" };
        let whole = history(instructions, &pieces);
        let blocks = whole.blocks().count();
        prop_assert_eq!(blocks, pieces.len());
        for cut in 0..=blocks + 1 {
            let mut history = whole.clone();
            let replaced = history.replace_oldest(cut, "What went before.".into());
            prop_assert_eq!(replaced, (1..=blocks).contains(&cut));
            prop_assert_eq!(history.blocks().count(), if replaced { blocks - cut + 1 } else { blocks });
            check(&history, instructions);
            prop_assert!(!history.replace_oldest(1, " ".into()), "a blank text stands for nothing");
        }
        for index in 0..=whole.messages().len() {
            let mut history = whole.clone();
            let is_tool = matches!(whole.messages().get(index), Some(Message::Tool { .. }));
            prop_assert_eq!(history.retell(index, "Less.".into()), is_tool);
            prop_assert!(!history.retell(index, "\n".into()));
            check(&history, instructions);
        }
    }

    #[test]
    fn a_conversation_is_made_to_fit_and_keeps_what_matters(
        pieces in pieces(),
        window in 2000..40_000u64,
        works in any::<bool>(),
    ) {
        let toolbox = Toolbox::build(Vec::new()).0;
        let mut history = Arc::new(history("Be good.", &pieces));
        let last = newest(&history);
        let mut context = Context::default();
        context.take_in(&history, 1);
        let room = context.room(0, &model(window), 100).unwrap();
        let mut requests = 0;
        loop {
            let (fit, _) = context.fit(&mut history, room, &toolbox);
            check(&history, "Be good.");
            let Fit::Summary { plan, request } = fit else { break };
            requests += 1;
            let mut sent = Context::default();
            sent.take_in(&request, 0);
            prop_assert!(sent.total <= room.limit, "a summary of {} for {}", sent.total, room.limit);
            let text = works.then(|| "A sentence about it. ".repeat(2000));
            context.replace(&mut history, plan, text.as_deref(), room);
        }
        check(&history, "Be good.");
        prop_assert!(requests <= 1, "{} summaries", requests);
        prop_assert_eq!(newest(&history), last);
        prop_assert!(context.total + 100 <= room.limit, "{} of {}", context.total, room.limit);
        let mut afresh = Context::default();
        afresh.take_in(&history, 1);
        prop_assert_eq!(afresh.total, context.total, "the sizes are those of the messages");
        prop_assert_eq!(afresh.entries.len(), context.entries.len());
    }

    #[test]
    fn reading_gives_every_character_once(text in "[a-z中é😀]{1,400}", step in 1..9usize) {
        let mut results = Results::default();
        results.keep(key(1, 0), &text.as_str().into());
        let (mut read, mut at) = (String::new(), 0);
        while at < text.len() {
            let answer = results.read("r1-0", at, Some(at + step)).unwrap();
            let piece = answer.split_once('\n').unwrap().1;
            prop_assert!(!piece.is_empty());
            read.push_str(piece);
            at = read.len();
        }
        prop_assert_eq!(read, text);
    }
}

#[test]
fn an_estimate_knows_alphabets() {
    let of = |text: &str, times: usize| estimate(&text.repeat(times));
    expect!["english 1258, russian 1143, chinese 1286, emoji 2286"].assert_eq(&format!(
        "english {}, russian {}, chinese {}, emoji {}",
        of("word ", 880),
        of("ж", 2000),
        of("中", 1000),
        of("😀", 1000)
    ));
    assert_eq!(estimate(""), 0);
}

#[test]
fn a_known_vocabulary_counts_once_the_room_gets_scarce() {
    #[derive(Debug)]
    struct Words;
    impl CountTokens for Words {
        fn vocabulary(&self) -> &str {
            "words"
        }
        fn count(&self, text: &str) -> u64 {
            u64::try_from(text.split_whitespace().count()).unwrap()
        }
    }
    let history = History::open(&"".into(), &"one two three".into());
    let mut context = Context::default();
    context.take_in(&history, 0);
    let (estimate, counter) = (context.total, TokenCounter::new(Words));
    let large = context.room(0, &model(1000), 0).unwrap();
    assert!(!context.sharpen(&history, Some(&counter), large) && context.total == estimate);
    let small = context.room(0, &model(16), 0).unwrap();
    assert!(!context.sharpen(&history, None, small));
    assert!(context.sharpen(&history, Some(&counter), small));
    assert_eq!(context.total, 4 + 3);
    assert!(!context.sharpen(&history, Some(&counter), small), "once");
}

#[test]
fn a_message_is_counted_once() {
    #[derive(Debug, Default)]
    struct Counted(std::sync::atomic::AtomicU64);
    impl CountTokens for Counted {
        fn vocabulary(&self) -> &str {
            "counted"
        }
        fn count(&self, _: &str) -> u64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        }
    }
    let counter = TokenCounter::new(Counted::default());
    let mut history = History::open(&"".into(), &"go".into());
    let mut context = Context { counter: Some(counter.clone()), ..Context::default() };
    for turn in 1..=100 {
        history.round(round(turn, &[10]));
        context.take_in(&history, 1);
    }
    assert_eq!(counter.count(""), 1 + 100 * 3, "goal; name, arguments and observation of each round");
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
    let mut results = Results::default();
    let last = u32::try_from(KEPT_MAX).unwrap() + 1;
    for turn in 1..=last {
        assert!(results.keep(key(turn, 0), &"text".into()));
    }
    let gone = results.read("r1-0", 0, None).unwrap_err();
    assert!(gone.hint.unwrap().ends_with("Older ones that were dropped to make room: 1."));
    assert!(results.read("r2-0", 0, None).is_ok());
    let half: Arc<str> = "x".repeat(KEPT_BYTES_MAX / 2).into();
    results.keep(key(last + 1, 0), &half);
    results.keep(key(last + 2, 0), &half);
    assert!(results.read("r2-0", 0, None).is_err() && results.get(key(last + 1, 0)).is_some());
    assert!(!results.keep(key(9, 9), &"x".repeat(KEPT_BYTES_MAX + 1).into()), "larger than all room");
    assert!(results.get(key(last + 2, 0)).is_some());
}

#[test]
fn one_reading_is_bounded_and_says_where_to_go_on() {
    let mut results = Results::default();
    results.keep(key(1, 2), &"中".repeat(10_000).into());
    let answer = results.read("r1-2", 1, None).unwrap();
    assert!(answer.starts_with("[Bytes 0 to 16383 of 30000 of `r1-2`. To go on, read from 16383.]\n中"));
    assert!(answer.len() <= READ_BYTES_MAX + 100);
    let empty = results.read("r1-2", 30_000, None).unwrap_err();
    assert_eq!(
        &*empty.message,
        "There is nothing in the bytes 30000 to 30000 of `r1-2`, which has 30000 bytes."
    );
}

#[test]
fn a_fallback_with_a_smaller_window_has_its_own_room() {
    let mut context = Context { total: 3000, ..Context::default() };
    let (large, small) = (model(100_000), model(2000));
    assert!(context.room(0, &large, 0).unwrap().limit > 90_000);
    assert!(context.room(1, &small, 0).unwrap().limit < 2000);
    assert!(context.may_send(0, 0).is_ok());
    context.overflowed(0, large.context_window, &Failure::too_large("Too long."), 1).unwrap();
    assert!(context.room(0, &large, 0).unwrap().limit <= 2700);
    assert!(context.may_send(0, 0).is_err() && context.may_send(1, 0).is_ok());
    context.turn_started();
    assert!(context.room(0, &large, 0).unwrap().limit < 2700, "it is remembered");
}

#[test]
fn a_schema_is_part_of_what_is_sent() {
    let small = Toolbox::build(vec![Arc::new(ToolSpec::new("a", "Does a.", json!({"type": "object"})))]).0;
    let long = json!({"type": "object", "description": "x".repeat(7000)});
    let large = Toolbox::build(vec![Arc::new(ToolSpec::new("a", "Does a.", long))]).0;
    assert!(large.declared_tokens() > small.declared_tokens() + 2000);
}
