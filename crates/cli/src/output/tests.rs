use super::*;

#[test]
fn a_terminal_obeys_nothing_that_a_model_writes() {
    assert_eq!(harmless("a\u{1b}[2Jb\nc\r\u{202e}d"), "a\\u{1b}[2Jb\nc\\u{d}\\u{202e}d");
}

#[test]
fn one_line_is_one_line_and_says_where_it_was_cut() {
    assert_eq!(one_line("a\nb\tc", 10), "a b c");
    assert_eq!(one_line("abcdef", 6), "abcdef");
    assert_eq!(one_line("abcdefg", 6), "abcde…");
}
