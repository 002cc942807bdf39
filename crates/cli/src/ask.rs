//! Questions of an agent, put to the person at the terminal.
//!
//! Only a terminal is read: what is piped in belongs to the goal, and a script that waits for an
//! answer nobody gives would hang. What an agent writes is shown and never obeyed.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use dauntless_contract::Question;
use dauntless_daemon::wiring::Answerer;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::output;

/// Whether a person can be asked: standard input is a terminal, and the goal does not come from it.
pub(crate) fn is_possible(goal: &str) -> bool {
    io::stdin().is_terminal() && goal != "-"
}

/// The lines that the person types, read from the first question on.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    lines: Option<UnboundedReceiver<String>>,
}

impl Keyboard {
    /// Puts question after question and gives the run its answers. Never ends by itself: drop it with
    /// the run.
    pub(crate) async fn answer(
        &mut self,
        mut questions: UnboundedReceiver<Question>,
        answerer: Answerer,
    ) -> Infallible {
        while let Some(question) = questions.recv().await {
            output::prompt(&asked(&question));
            let line = self.line().await.unwrap_or_default();
            // A run that has ended meanwhile needs no answer.
            let _ = answerer.answer(question.call, picked(&line, &question)).await;
        }
        std::future::pending().await
    }

    /// The next line that is typed; none when the person has closed the input.
    async fn line(&mut self) -> Option<String> {
        let lines = self.lines.get_or_insert_with(read);
        // What was typed while nothing was asked is the answer to nothing.
        while lines.try_recv().is_ok() {}
        lines.recv().await
    }
}

/// Reads lines in a thread of its own, which the end of the process does not wait for.
fn read() -> UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The question as it is shown, with the cursor left behind it.
fn asked(question: &Question) -> String {
    let mut text = format!("\nThe agent asks: {}\n", output::harmless(&question.question));
    for (number, choice) in (1..).zip(&question.choices) {
        let _ = writeln!(text, "  {number}. {}", output::one_line(choice, 200));
    }
    text.push_str(match question.choices.is_empty() {
        true => "Your answer (an empty line for none): ",
        false => "Your answer (a number, or your own words; an empty line for none): ",
    });
    text
}

/// The words of the choice that a number stands for; else the line itself.
fn picked(line: &str, question: &Question) -> String {
    let number: Option<usize> = line.trim().parse().ok();
    let choice = number.and_then(|number| question.choices.get(number.checked_sub(1)?));
    choice.map_or_else(|| line.trim().to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use dauntless_contract::{CallKey, Question};

    use super::{asked, picked};

    fn question(choices: &[&str]) -> Question {
        let choices = choices.iter().map(|choice| (*choice).into()).collect();
        Question { call: CallKey { turn: 1, index: 0 }, question: "Which\u{1b}[2J?".into(), choices }
    }

    #[test]
    fn a_number_picks_a_choice_and_anything_else_is_taken_as_it_is() {
        let colours = question(&["red", "blue"]);
        let answers = ["2", " 1 ", "0", "3", "green", ""].map(|line| picked(line, &colours));
        assert_eq!(answers, ["blue", "red", "0", "3", "green", ""]);
        assert_eq!(picked("1", &question(&[])), "1");
    }

    #[test]
    fn a_question_is_shown_and_not_obeyed() {
        expect_test::expect![[r#"

            The agent asks: Which\u{1b}[2J?
              1. red
              2. blue
            Your answer (a number, or your own words; an empty line for none): "#]]
        .assert_eq(&asked(&question(&["red", "blue"])));
    }
}
