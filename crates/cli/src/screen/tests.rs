use expect_test::{Expect, expect};

use super::*;

fn line(label: &str, what: &str) -> Line {
    Line { label: label.to_owned(), what: what.to_owned(), tone: Tone::Good }
}

fn check(detail: Detail, color: bool, act: impl FnOnce(&mut Screen<&mut Vec<u8>>), expected: Expect) {
    let mut out = Vec::new();
    act(&mut Screen::new(&mut out, detail, color));
    expected.assert_eq(&String::from_utf8(out).unwrap().replace('\x1b', "ESC").replace('\r', "CR"));
}

#[test]
fn without_a_terminal_each_line_is_written_once_and_no_cursor_moves() {
    check(
        Detail::Final,
        false,
        |screen| {
            screen.show(None, &[line("a", "…")]);
            screen.show(Some(&line("a", "ok")), &[line("b", "…")]);
            screen.clear();
        },
        expect![[r#"
            a                                               ok
        "#]],
    );
}

#[test]
fn on_a_terminal_lines_are_rewritten_and_taken_away_at_the_end() {
    check(
        Detail::Live,
        true,
        |screen| {
            screen.show(None, &[line("a", "…"), line("b", "…")]);
            screen.show(Some(&line("a", "ok")), &[line("b", "…")]);
            screen.clear();
        },
        expect![[r#"
            CRESC[JESC[?7la                                               ESC[32m…ESC[0m
            b                                               ESC[32m…ESC[0m
            ESC[?7hESC[2ACRCRESC[Ja                                               ESC[32mokESC[0m
            ESC[?7lb                                               ESC[32m…ESC[0m
            ESC[?7hESC[1ACRCRESC[J"#]],
    );
}

#[test]
fn more_lines_than_fit_are_counted() {
    let many: Vec<Line> = (0..20).map(|n| line(&n.to_string(), "…")).collect();
    let mut out = Vec::new();
    Screen::new(&mut out, Detail::Live, false).show(None, &many);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("     and 8 more …\n\x1b[?7h\x1b[13A\r"), "{text:?}");
}

#[test]
fn streamed_words_and_lines_do_not_share_a_line() {
    check(
        Detail::Final,
        false,
        |screen| {
            screen.text("It ");
            screen.text("rains");
            screen.show(Some(&line("a", "ok")), &[]);
            screen.text("done");
            screen.clear();
        },
        expect![[r#"
            It rains
            a                                               ok
            done
        "#]],
    );
}

#[test]
fn hidden_is_hidden() {
    check(
        Detail::Hidden,
        true,
        |screen| screen.show(Some(&line("a", "ok")), &[line("b", "…")]),
        expect![[""]],
    );
}
