use super::Tally;

#[test]
fn lines_about_scenarios_are_counted_and_no_others() {
    let said = "\
passed: llmock: no fault, plain (0.3 s)
failed: llmock: 429 twice, plain (2.1 s): answer: None instead of 'passed: 1'
passed: llama: a question, streamed (4.0 s)
Traceback (most recent call last):
failed to reach the server
";
    let mut tally = Tally::default();
    said.lines().for_each(|line| tally.add(line));
    assert_eq!(tally, Tally { passed: 2, failed: 1 });
}
