use std::time::{Duration, Instant};

use dauntless_contract::Tokens;

use super::{known_counter, known_window};

#[test]
fn a_known_model_counts_with_its_own_vocabulary() {
    let counter = known_counter("gpt-4o-mini").unwrap();
    assert_eq!((counter.vocabulary(), counter.count("hello world")), ("o200k_base", 2));
    assert_eq!(counter, known_counter("openai/gpt-4o").unwrap());
    assert_ne!(counter, known_counter("gpt-4").unwrap());
    assert_eq!(known_window("gpt-4o"), Some(Tokens(128_000)));
}

#[test]
fn an_unknown_model_is_not_guessed_at() {
    assert_eq!(known_counter("qwen3-8b"), None);
    assert_eq!(known_window("llama-3.1-70b"), None);
}

#[test]
fn special_tokens_in_a_text_are_plain_words() {
    assert!(known_counter("gpt-4o").unwrap().count("<|endoftext|>") > 1);
}

#[test]
fn a_long_text_without_a_gap_is_counted_in_time_and_whole() {
    let counter = known_counter("gpt-4o").unwrap();
    counter.count("load");
    let start = Instant::now();
    let (letters, hanzi) = ("a".repeat(200_000), "中".repeat(40_000));
    assert!(counter.count(&letters) > 10_000);
    assert!((10_000..=60_000).contains(&counter.count(&hanzi)));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
