//! Every example runs, and says what it promises to say. Here so that none of them can rot.
#![expect(clippy::expect_used, reason = "a test that cannot look must fail")]

use std::path::Path;
use std::process::Command;

use dauntless_daemon::config;
use dauntless_daemon::wiring::App;

/// What the program writes on its standard output.
fn output(program: &str) -> String {
    let ended = Command::new(program).output().expect("the example starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).expect("the example writes text")
}

#[test]
fn one_agent_answers_with_what_its_tool_said() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_01_one_agent")),
        "Your order was shipped on Monday and arrives on Thursday.\n\
         -- completed, 2 turns, 1 call\n"
    );
}

#[test]
fn tools_that_fail_are_retried_told_or_end_the_run() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_02_tools_fail")),
        r#"weather {"city":"Oslo"}
   attempt 1: unavailable: The weather service is restarting. Trying again.
   attempt 2: unavailable: The weather service is restarting. Trying again.
   worked, attempts: 3
customer {"name":"Ada"}
   not_found: No customer is named Ada.
customer {"name":"Ada Lovelace"}
   worked, attempts: 1
map {"city":"Oslo"}
   crashed: `map` broke while it worked on this call. This is a defect in `map`. The call may have been carried out all the same, so it was not repeated.
invoices {"customer":"C-1"}
   unauthenticated: No invoices of C-1: this tool's key has expired.
-- tool_terminal: invoices (call_5_1) failed with unauthenticated after 1 attempt
-- No invoices of C-1: this tool's key has expired.
"#
    );
}

#[test]
fn a_fan_out_answers_in_the_order_of_its_calls() {
    let output = output(env!("CARGO_BIN_EXE_03_fan_out"));
    let (answers, time) = output.split_once("-- 8 calls took as long as ").expect("the last line");
    assert_eq!(
        answers,
        r#"shop 1: 37 €
shop 2: 33 €
shop 3: 40 €
shop 4: 36 €
{"error":"no_results","message":"Shop 5 sells no kettles.","attempts":1,"effect":"none"}
shop 6: 39 €
shop 7: 35 €
shop 8: 31 €
"#
    );
    // One after the other they would take as long as five of the slowest; a busy machine may take
    // longer than one.
    assert!(time.trim().parse::<u32>().expect("a number") < 4, "{time}");
}

#[test]
fn a_keyed_write_is_repeated_without_being_done_twice() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_04_tool_with_state")),
        "calls: 2, attempts: 3\n\
         answer: I delivered 2 kettles, 8 are left.\n\
         calls: 1, attempts: 2\n\
         stopped at its limit of turns; so far: Two kettles are on their way.\n"
    );
}

#[test]
fn a_report_is_written_without_the_researchers_that_failed() {
    let output = output(env!("CARGO_BIN_EXE_05_researchers"));
    let (ends, report) = output.split_at(output.find("completed: ").expect("the report"));
    for end in [
        "scholar: completed\n",
        "archivist: tool_exhausted: archive (call_1_1) failed with unavailable after 3 attempts",
        "surfer: tool_exhausted: web (call_1_1) failed with timeout after 1 attempt",
        "gossip: malformed_output\n",
    ] {
        assert!(ends.contains(end), "{output}");
    }
    assert_eq!(
        report,
        "completed: It was invented in 1837. The archivist (unavailable), the surfer (timeout) and the gossip \
         (partial) gave no finding.\n\
         -- 4 runs below, 8 calls in all\n"
    );
}

#[tokio::test]
async fn the_agent_that_is_killed_while_it_pays_can_start() {
    let config = config::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("payment.toml"));
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let app = App::assemble(&config, &|name| std::env::var(name).ok()).await.expect("it starts");
    assert!(app.broken().is_empty());
}

#[tokio::test]
async fn the_agent_without_code_corrects_its_mistake() {
    let config = config::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("agent.toml"));
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let app = App::assemble(&config, &|name| std::env::var(name).ok()).await.expect("it starts");
    assert!(app.broken().is_empty());
    let agent = app.agent(None).expect("there is one agent");

    let outcome = app.runtime().run(agent, "How full is the disk?").await;

    let answer = outcome.answer().expect("it completes");
    assert!(answer.contains("Filesystem"), "{answer}");
    assert_eq!((outcome.totals.tool_calls, outcome.totals.failed_calls), (2, 1));
}

#[tokio::test]
async fn the_plan_without_code_routes_asks_several_at_once_and_improves() {
    let config = config::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("06_plans.toml"));
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let app = App::assemble(&config, &|name| std::env::var(name).ok()).await.expect("it starts");
    assert!(app.broken().is_empty());
    let plan = app.agent(Some("reply")).expect("there is such a plan");

    for (letter, runs) in [("The kettle that you sent came broken.", 9), ("What a kettle!", 9)] {
        let outcome = app.runtime().run(plan, letter).await;

        let answer = outcome.answer().unwrap_or_else(|| panic!("{letter}: {:?}", outcome.reason));
        assert_eq!(answer, "Dear customer, we send a new kettle. Yours sincerely");
        // The sorter, the clerk or the greeter, three at once, and two drafts with their reviews.
        assert_eq!(outcome.totals.children, runs);
    }
}
