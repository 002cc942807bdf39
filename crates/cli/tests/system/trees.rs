//! Runs that ask for other runs, and plans, from a configuration alone.

use expect_test::expect;
use serde_json::Value;

use super::Folder;

const TREE: &str = r#"
journal = "sqlite:j.db"

[agents.lead]
instructions = "Lead."
model = "lead"
agents = ["writer", "oracle"]
links.oracle.on_failure = "observe"

[agents.writer]
instructions = "Write."
description = "Writes poems."
model = "writer"
agents = ["archive"]

[agents.archive]
instructions = "Remember."
model = "archive"

[agents.oracle]
instructions = "Foresee."
model = "oracle"

[plans.report]
sequence = [{ agent = { name = "archive" } }, { agent = { name = "writer" } }]

[models]
lead = { provider = "scripted", script = "lead.toml" }
writer = { provider = "scripted", script = "writer.toml" }
archive = { provider = "scripted", script = "archive.toml" }
oracle = { provider = "scripted", script = "oracle.toml" }
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("dauntless.toml", TREE);
    folder.write(
        "lead.toml",
        r#"
        [[turns]]
        calls = [
          { tool = "writer", arguments = { goal = "A poem" } },
          { tool = "oracle", arguments = { goal = "What will come of it" } },
        ]
        usage = { prompt = 100, completion = 10 }
        [[turns]]
        text = "Here it is."
        usage = { prompt = 200, completion = 10 }
        "#,
    );
    folder.write(
        "writer.toml",
        r#"
        [[turns]]
        calls = [{ tool = "archive", arguments = { goal = "Old poems" } }]
        usage = { prompt = 50, completion = 5 }
        [[turns]]
        text = "A poem."
        delay = "200ms"
        usage = { prompt = 60, completion = 5 }
        "#,
    );
    folder.write("archive.toml", "[[turns]]\ntext = \"Old.\"\nusage = { prompt = 7, completion = 1 }\n");
    folder.write("oracle.toml", "[[turns]]\nfail = { code = \"unauthenticated\", message = \"No key.\" }\n");
    folder
}

/// The text with each id replaced by a letter, in the order in which they come, and each length by one.
fn without_chance(text: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            if bare.len() == 36 && bare.matches('-').count() == 4 {
                let place = ids.iter().position(|id| id == bare).unwrap_or_else(|| {
                    ids.push(bare.to_owned());
                    ids.len() - 1
                });
                words.push(word.replace(bare, &format!("<{place}>")));
            } else {
                words.push(word.to_owned());
            }
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

/// The lines of a timeline without their times.
fn without_times(text: &str) -> String {
    let line = |line: &str| match line.get(..6).map(str::trim) {
        Some(seq) if !seq.is_empty() && seq.chars().all(|c| c.is_ascii_digit()) => {
            format!("{seq:>6}  {}", line.get(21..).unwrap_or_default())
        }
        _ => line.to_owned(),
    };
    text.lines().filter(|line| !line.starts_with("  state")).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn check_says_whom_agents_may_ask_and_what_plans_do() {
    let ran = folder().run(&["check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    expect![[r#"
        agent archive on scripted: no tools
        agent lead on scripted: no tools
          may ask oracle, writer
        agent oracle on scripted: no tools
        agent writer on scripted: no tools
          may ask archive
        plan report
          one after the other
            agent archive
            agent writer
        No mistakes, and everything can start on this machine.
    "#]]
    .assert_eq(&ran.out);
}

#[test]
fn a_tree_is_shown_under_the_calls_that_asked_and_listed_by_its_root() {
    let folder = folder();
    let ran = folder.run(&["run", "--durable", "--agent", "lead", "Make a poem."]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "Here it is.\n"), "{ran:?}");
    let id = ran.err.trim().rsplit(' ').next().unwrap().to_owned();

    let shown = folder.run(&["show", &id]);
    expect![[r#"
        run <0>
          agent    lead
          goal     Make a poem.
          used     2 turns, 2 calls, 2 attempts, 448 tokens, and below it 3 runs with 4 turns and 1 call
          ended    completed

             1  started for lead with oracle, writer
             2  turn 1: the model asks for 2 calls (110 tokens)
                               1.0 writer {"goal":"A poem"}
                               1.1 oracle {"goal":"What will come of it"}
             3  1.1 oracle: run <1> ended: model_failed: unauthenticated after 1 attempt
                                 oracle <1>: ended: model_failed: unauthenticated after 1 attempt; 1 turn, 0 calls
             4  1.0 writer: run <2> ended: completed: A poem.
                                 writer <2>: ended: completed; 2 turns, 1 call, 1 attempt, 128 tokens, and below it 1 run with 1 turn and 0 calls
                                   archive <3>: ended: completed; 1 turn, 0 calls, 8 tokens
             5  turn 2: the model says: Here it is. (210 tokens)"#]].assert_eq(&without_chance(&without_times(&shown.out)));

    let roots = folder.run(&["runs"]).out;
    assert_eq!((roots.matches(" lead ").count(), roots.matches(" writer ").count()), (1, 0), "{roots}");
    assert!(roots.contains("2 turns, 448 tokens, +3 runs of 4 turns"), "{roots}");
    let all = folder.run(&["runs", "--all"]).out;
    assert_eq!(all.matches(&format!("asked for by {id}")).count(), 2, "{all}");

    let json: Value = serde_json::from_str(&folder.run(&["show", &id, "--json"]).out).unwrap();
    let tree = json["tree"].as_array().unwrap();
    let told = |run: &Value| format!("{} {} {}", run["level"], run["meta"]["agent"], run["meta"]["reason"]);
    expect![[r#"
        1 "oracle" "model_failed: unauthenticated after 1 attempt"
        1 "writer" "completed"
        2 "archive" "completed""#]]
    .assert_eq(&tree.iter().map(told).collect::<Vec<_>>().join("\n"));
    for run in tree {
        assert_eq!(run["meta"]["root"], id.as_str());
    }
    assert_eq!(tree[0]["meta"]["parent"], id.as_str());
    assert_eq!(json["headline"]["below"]["runs"], 3);
}

#[test]
fn a_plan_is_submitted_worked_on_and_shown_like_an_agent() {
    let folder = folder();
    let ran = folder.run(&["submit", "--agent", "report", "Report."]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    let id = ran.out.trim().to_owned();
    let resumed = folder.run(&["resume", &id]);
    assert_eq!((resumed.code, &*resumed.out), (Some(0), "A poem.\n"), "{resumed:?}");
    let shown = folder.run(&["show", &id]);
    expect![[r#"
        run <0>
          agent    report
          goal     Report.
          used     0 turns, 0 calls, 136 tokens, and below it 3 runs with 4 turns and 1 call
          ended    completed

             1  started for report without tools
             2  step 1: run <1> ended: completed: Old.
                                 archive <1>: ended: completed; 1 turn, 0 calls, 8 tokens
             3  step 2: run <2> ended: completed: A poem.
                                 writer <2>: ended: completed; 2 turns, 1 call, 1 attempt, 128 tokens, and below it 1 run with 1 turn and 0 calls
                                   archive <3>: ended: completed; 1 turn, 0 calls, 8 tokens"#]].assert_eq(&without_chance(&without_times(&shown.out)));
    let replayed = folder.run(&["replay", &id]);
    assert_eq!((replayed.code, &*replayed.out), (Some(0), "3 events, no difference\n"), "{replayed:?}");
    let unknown = folder.run(&["run", "--agent", "reprot", "x"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn the_events_of_a_tree_carry_their_parent_and_their_root() {
    let ran = folder().run(&["run", "--json", "--agent", "lead", "Make a poem."]);
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let root = events.last().unwrap()["outcome"]["run"].clone();
    let inside: Vec<&Value> = events.iter().filter(|event| event["event"] == "in_child").collect();
    assert!(inside.iter().all(|event| event["root"] == root), "{ran:?}");
    let writer = inside.iter().find(|event| event["agent"] == "writer").unwrap();
    let archive = inside.iter().find(|event| event["agent"] == "archive").unwrap();
    assert_eq!((&writer["parent"], &archive["parent"]), (&root, &writer["run"]));
}
