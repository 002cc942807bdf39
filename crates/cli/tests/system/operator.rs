//! An operator at a second terminal: looks at a run and switches its tools while it goes on.

use std::process::Child;
use std::time::Instant;

use dauntless_testkit::{Answer, Call, Reply, RequestCounter, Script};
use serde_json::{Value, json};

use super::{Folder, PATIENCE, Ran, provider, written};

const NOTHING: &str = "dauntless: nothing is running: `dauntless run` and `dauntless rehearse` can be asked \
                       while they run, by the user who started them, and unless they were started with \
                       --no-control\n";

/// A tool that fails, one that quotes a key when it does, and one that says that it has started and goes on until there is a file `go`.
fn tools(counter: &RequestCounter) -> String {
    let address = counter.url().replace("http://", "");
    format!(
        "[tools.stock]\ndescription = \"Count.\"\neffect = \"read_only\"\non_exhausted = \"observe\"\n\
         retry = {{ attempts = 2, base = \"5ms\" }}\nbreaker = {{ consecutive_failures = 2, open_for = \"1m\" }}\n\
         [tools.stock.http]\nurl = \"http://{address}/\"\nhosts = [\"{address}\"]\n\
         [tools.wait]\ndescription = \"Wait.\"\neffect = \"read_only\"\n[tools.wait.command]\n\
         argv = [\"sh\", \"-c\", \"echo $$ > started; while [ ! -e go ]; do sleep 0.02; done; echo done\"]\n\
         [tools.login]\ndescription = \"Log in.\"\neffect = \"read_only\"\n[tools.login.command]\n\
         argv = [\"sh\", \"-c\", \"echo no entry for $T >&2; exit 1\"]\nenv = {{ T = \"${{OPENAI_API_KEY}}\" }}\n"
    )
}

fn call(tool: &str) -> Reply {
    Reply::calls([Call::new(tool, &json!({}))])
}

/// A run whose first call has failed, and whose second goes on.
fn running(folder: &Folder, arguments: &[&str]) -> Child {
    let child = folder.command(&[&["run", "Work."], arguments].concat()).spawn().unwrap();
    written(&folder.0.join("started"));
    child
}

#[test]
fn a_run_is_looked_at_and_switched_from_a_second_process() {
    let folder = Folder::new();
    let counter =
        RequestCounter::start([Answer::status(503), Answer::status(503), Answer::json(200, &json!({}))])
            .unwrap();
    let script = [
        Reply::calls(["stock", "login"].map(|tool| Call::new(tool, &json!({})))),
        call("wait"),
        call("stock"),
        Reply::text("Three are left."),
    ];
    let provider = provider(Script::by_turn(script));
    folder.configure(&provider, &tools(&counter));
    folder.run(&["tools", "--status"]).assert(68, "", NOTHING);
    let child = running(&folder, &[]);
    let pid = child.id().to_string();

    let table = folder.run(&["tools", "--status"]);
    assert_eq!((table.code, &*table.err), (Some(0), ""), "{table:?}");
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(lines[0].starts_with(&format!("process {pid}, Dauntless 0.1.0, up ")), "{table:?}");
    let row = |name: &str| *lines.iter().find(|line| line.starts_with(name)).unwrap();
    for part in ["tool", "up", "open, probe in ", "/10"] {
        assert!(row("stock").contains(part), "{part}: {table:?}");
    }
    assert!(row("wait").contains("1/8") && row("m ").contains("model"), "{table:?}");

    let one = folder.run(&["tools", "--status", "stock"]);
    assert!(one.out.contains("failed attempts   unavailable ×2\n"), "{one:?}");
    assert!(one.out.contains("latest failures"), "{one:?}");
    assert!(!one.out.contains("wait "), "only the tool asked for: {one:?}");
    // That no output holds the key is looked at in every test.
    let quotes = folder.run(&["tools", "--status", "login"]);
    assert!(quotes.out.contains("no entry for "), "{quotes:?}");
    let json = folder.run(&["tools", "--status", "--json", "--pid", &pid]);
    let status: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(status["pid"], json!(child.id()));
    assert_eq!(status["tools"][0]["breaker"]["is"], "open");

    let switch = |to: &str| folder.run(&["tools", "switch", "stock", to]);
    switch("open").assert(0, &format!("stock in process {pid}: forced open\n"), "");
    switch("reset").assert(0, &format!("stock in process {pid}: closed\n"), "");
    folder.run(&["tools", "switch", "stok", "open"]).assert(
        2,
        "",
        "dauntless: no running process has a tool `stok`; there are: login, stock, wait\n",
    );

    folder.write("go", "");
    let ran = Ran::wait(child);
    assert_eq!((ran.code, &*ran.out), (Some(0), "Three are left.\n"), "{ran:?}");
    assert_eq!(
        ran.err.matches("an operator switched the breaker dependency=\"stock\"").count(),
        2,
        "{ran:?}"
    );
    assert_eq!(counter.requests(), 3, "after the reset the tool was asked again");
    folder.run(&["tools", "--status"]).assert(68, "", NOTHING);
    let gone = folder.run(&["tools", "switch", "stock", "open", "--pid", &pid]);
    assert!(gone.err.starts_with(&format!("dauntless: process {pid} is not there to be asked")), "{gone:?}");
}

#[test]
fn a_run_can_be_closed_to_operators_or_listen_elsewhere() {
    let folder = Folder::new();
    let counter = RequestCounter::start([Answer::status(503)]).unwrap();
    let provider = provider(Script::by_turn([call("wait"), Reply::text("Done.")]));
    folder.configure(&provider, &tools(&counter));
    let elsewhere = folder.0.join("control");
    let elsewhere = elsewhere.to_str().unwrap();

    let child = running(&folder, &["--control", elsewhere]);
    folder.run(&["tools", "--status"]).assert(68, "", NOTHING);
    assert_eq!(folder.run(&["tools", "--status", "--control", elsewhere]).code, Some(0));
    folder.write("go", "");
    Ran::wait(child).assert(0, "Done.\n", "");
    assert!(!folder.0.join("control").exists());

    let _ = std::fs::remove_file(folder.0.join("started"));
    let child = running(&folder, &["--no-control"]);
    folder.run(&["tools", "--status"]).assert(68, "", NOTHING);
    Ran::wait(child).assert(0, "Done.\n", "");
}

#[test]
fn two_runs_with_one_tool_are_told_apart_and_a_killed_one_is_forgotten() {
    let folder = Folder::new();
    let counter = RequestCounter::start([Answer::status(503)]).unwrap();
    let provider = provider(Script::by_turn([call("wait"), Reply::text("Done.")]));
    folder.configure(&provider, &tools(&counter));
    let mut first = running(&folder, &[]);
    std::fs::remove_file(folder.0.join("started")).unwrap();
    let second = running(&folder, &[]);
    let mut pids = [first.id(), second.id()];
    pids.sort_unstable();
    let ran = folder.run(&["tools", "switch", "wait", "open"]);
    let expected = format!(
        "dauntless: several processes have `wait`: {}, {}; say which is meant with --pid\n",
        pids[0], pids[1]
    );
    ran.assert(2, "", &expected);
    let pid = second.id().to_string();
    let opened = folder.run(&["tools", "switch", "wait", "open", "--pid", &pid]);
    opened.assert(0, &format!("wait in process {pid}: forced open\n"), "");

    first.kill().unwrap();
    first.wait().unwrap();
    let start = Instant::now();
    let only = folder.run(&["tools", "--status"]);
    assert_eq!(only.out.matches("process ").count(), 1, "{only:?}");
    assert!(start.elapsed() < PATIENCE);
    folder.write("go", "");
    assert_eq!(Ran::wait(second).code, Some(0));
}

#[test]
fn a_socket_that_cannot_be_opened_costs_the_view_and_not_the_run() {
    let folder = Folder::new();
    let provider = provider(Script::always(Reply::text("Done.")));
    folder.configure(&provider, "");
    folder.write("taken", "mine\n");
    let ran = folder.run(&["run", "Work.", "--control", "taken"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "Done.\n"), "{ran:?}");
    assert_eq!(
        ran.err,
        "dauntless: `dauntless tools --status` will not show this process: taken: there is a file that is no \
         socket (--control PATH puts its socket elsewhere, --no-control does without)\n"
    );
}
