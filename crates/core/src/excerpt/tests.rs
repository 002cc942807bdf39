use super::*;

#[test]
fn no_limit_falls_inside_a_character() {
    let text = "a中🦀é\u{0}z";
    for limit in 0..=text.len() + 1 {
        assert!(head(text, limit).len() <= limit);
        assert!(tail(text, limit).len() <= limit);
        assert!(text.starts_with(head(text, limit)) && text.ends_with(tail(text, limit)));
        if limit >= "…".len() {
            assert!(shortened(text, limit).len() <= limit);
        }
        for at in 0..=text.len() {
            assert!(around(text, at, limit).len() <= limit.max(2 * "…".len()));
        }
    }
}

#[test]
fn a_piece_around_a_place_shows_that_place() {
    let text = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
    let piece = around(&text, 502, 40);
    assert!(piece.contains("HERE") && piece.starts_with('…') && piece.ends_with('…'), "{piece}");
    assert!(around(&text, 0, 40).starts_with("aaa"));
    assert!(around(&text, 1004, 40).ends_with("bbb"));
}
