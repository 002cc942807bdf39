use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use dauntless_contract::{CancelSignal, FailureCode};
use expect_test::expect;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::*;
use crate::tests::{ctx, env, list, spec};

/// A folder of its own for one test, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dauntless-tools-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Cancelled from the start, or when it is told so.
struct Cancel {
    from_start: bool,
    notify: Notify,
}

impl CancelSignal for Cancel {
    fn is_cancelled(&self) -> bool {
        self.from_start
    }
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.notify.notified())
    }
}

fn cancellable(from_start: bool) -> (Arc<Cancel>, ToolCtx) {
    let cancel = Arc::new(Cancel { from_start, notify: Notify::new() });
    (Arc::clone(&cancel), ToolCtx { cancel, ..ctx() })
}

fn try_build(spec: Arc<ToolSpec>, toml: &str) -> Result<CommandTool, Vec<ToolConfigError>> {
    CommandTool::build(spec, toml::from_str(toml).unwrap(), &env, Arc::default())
}

fn build(parameters: &[&str], toml: &str) -> CommandTool {
    try_build(spec(Effect::Once, parameters), toml).unwrap()
}

fn shell(script: &str) -> CommandTool {
    shell_with(script, "")
}

fn shell_with(script: &str, more: &str) -> CommandTool {
    build(&[], &format!("argv = ['sh', '-c', '''{script}''']\n{more}"))
}

async fn call(tool: &CommandTool, arguments: Value) -> Result<String, Failure> {
    tool.call(ctx(), Json::from(arguments)).await.map(|output| output.text.to_string())
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(5), "{what} did not come");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_value_is_one_element_and_never_passes_a_shell() {
    let toml = r#"argv = ["printf", "[%s]", "{a}", "x={b}", "--c={c?}", "{{d}}"]"#;
    let tool = build(&["a", "b", "c?"], toml);
    let shown = call(&tool, json!({"a": "$(id); rm -rf / *", "b": "two words\n\"'"})).await.unwrap();
    assert_eq!(shown, "[$(id); rm -rf / *][x=two words\n\"'][{d}]");
    let shown = call(&tool, json!({"a": 1, "b": true, "c": [1, "z"]})).await.unwrap();
    assert_eq!(shown, r#"[1][x=true][--c=[1,"z"]][{d}]"#);
}

#[tokio::test]
async fn a_value_that_looks_like_an_option_is_refused_unless_allowed() {
    let failure = call(&build(&["a"], r#"argv = ["echo", "{a}"]"#), json!({"a": "-n"})).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::InvalidArguments);
    assert_eq!(&*failure.message, "`a` begins with `-`, and the command would take it for an option.");
    for toml in [
        r#"argv = ["printf", "%s", "{a}"]
           allow_dash = true"#,
        r#"argv = ["printf", "%s", "--", "{a}"]"#,
        r#"argv = ["printf", "%s", "a={a}"]"#,
    ] {
        assert!(call(&build(&["a"], toml), json!({"a": "-n"})).await.unwrap().ends_with("-n"), "{toml}");
    }
}

#[tokio::test]
async fn a_nul_character_in_a_value_is_refused() {
    let failure = call(&build(&["a"], r#"argv = ["echo", "{a}"]"#), json!({"a": "x\0y"})).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::InvalidArguments);
}

#[tokio::test]
async fn arguments_come_on_stdin_as_one_line_with_every_digit() {
    let tool = build(&["n", "text"], "argv = ['cat']\nstdin = 'json'");
    let arguments = Json::parse("{\n  \"n\": 12345678901234567890.10,\n  \"text\": \"a\\nb\"\n}").unwrap();
    let output = tool.call(ctx(), arguments).await.unwrap();
    assert_eq!(&*output.text, r#"{   "n": 12345678901234567890.10,   "text": "a\nb" }"#);
}

#[tokio::test]
async fn a_program_that_does_not_read_its_stdin_is_no_failure() {
    let tool = build(&["text"], "argv = ['true']\nstdin = 'json'");
    assert_eq!(call(&tool, json!({"text": "x".repeat(1 << 20)})).await.unwrap(), "");
}

#[tokio::test]
async fn the_environment_holds_only_what_was_named() {
    let folder = Folder::new();
    let toml = format!(
        "argv = ['sh', '-c', 'pwd; env | grep -v -e ^PWD -e ^PATH -e ^OLDPWD -e ^SHLVL -e ^_= | sort']
         cwd = '{}'
         env = {{ MODE = 'x', KEY = 'Bearer ${{TOKEN}}' }}",
        folder.path("")
    );
    let tool = build(&[], &toml);
    let shown = call(&tool, json!({})).await.unwrap().replace(folder.0.to_str().unwrap(), "FOLDER");
    expect![[r#"
        FOLDER
        DAUNTLESS_IDEMPOTENCY_KEY=key-1
        HOME=/home/of-test
        KEY=Bearer FAKE-TOKEN-1
        MODE=x"#]]
    .assert_eq(&shown);
    assert_eq!(tool.secrets(), ["FAKE-TOKEN-1"]);
    assert!(!format!("{tool:?}").contains("FAKE"));
}

#[tokio::test]
async fn an_exit_code_means_what_the_operator_says() {
    let more = "exit_codes = { 2 = 'not_found', 75 = 'unavailable' }";
    let failure = call(&shell_with("echo no such order >&2; exit 2", more), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::NotFound, EffectState::None));
    assert_eq!(&*failure.message, r#"The command ended with exit code 2. It wrote: "no such order""#);
    let failure = call(&shell_with("exit 75", more), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::Unavailable, EffectState::Unknown));
    let failure = call(&shell_with("echo on stdout; exit 124", more), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::ToolError, EffectState::Unknown));
    assert_eq!(&*failure.message, r#"The command ended with exit code 124. It wrote: "on stdout""#);
}

#[tokio::test]
async fn a_command_that_only_reads_never_leaves_an_effect_in_doubt() {
    let tool = try_build(spec(Effect::ReadOnly, &[]), "argv = ['false']").unwrap();
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::ToolError, EffectState::None));
    assert_eq!(&*failure.message, "The command ended with exit code 1 and wrote nothing about it.");
}

#[tokio::test]
async fn a_command_ended_by_a_signal_has_crashed() {
    let failure = call(&shell("kill -SEGV $$"), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::Crashed, EffectState::Unknown));
    assert!(failure.message.starts_with("The command was ended by signal 11"), "{failure}");
}

#[tokio::test]
async fn the_model_gets_the_last_lines_of_a_long_error_output() {
    let failure = call(&shell("seq 1 100000 >&2; echo boom >&2; exit 1"), json!({})).await.unwrap_err();
    assert!(failure.message.ends_with(r#"\n100000\nboom""#), "{failure}");
    assert!(failure.message.len() < 700, "{failure}");
    assert!(failure.source.unwrap().len() < 2200);
}

#[tokio::test]
async fn a_long_output_keeps_both_ends_at_whole_characters() {
    let tool = shell_with("yes 中 | head -c 4000000", "output_bytes_max = 100");
    let shown = call(&tool, json!({})).await.unwrap();
    assert!(shown.starts_with("中\n中\n"), "{shown}");
    assert!(shown.contains("bytes left out …]"), "{shown}");
    assert!(!shown.contains('\u{fffd}') && shown.len() < 150, "{shown}");
}

#[tokio::test]
async fn output_that_is_no_text_is_shown_with_replacements() {
    assert_eq!(call(&shell(r"printf 'a\377b\n'"), json!({})).await.unwrap(), "a\u{fffd}b");
}

#[tokio::test]
async fn json_output_is_checked() {
    let json = |script| shell_with(script, "output = 'json'\noutput_bytes_max = 64");
    assert_eq!(call(&json(r#"echo " {{\"n\": 1.10}}""#), json!({})).await.unwrap(), r#"{"n": 1.10}"#);
    let failure = call(&json("echo oops"), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::ToolError, EffectState::Happened));
    let failure = call(&json("seq 1 1000"), json!({})).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::TooLarge);
    assert_eq!(&*failure.message, "The command wrote more JSON than the 64 bytes that are kept.");
}

#[tokio::test]
async fn a_pipe_held_by_a_grandchild_does_not_hold_the_call() {
    let tool = shell_with("sleep 30 & echo done", "stop_grace = '100ms'");
    let start = Instant::now();
    assert_eq!(call(&tool, json!({})).await.unwrap(), "done");
    assert!(start.elapsed() < Duration::from_secs(1));
    until("the end of the grandchild", || tool.reaper.live() == 0).await;
}

#[tokio::test]
async fn closed_pipes_do_not_end_the_call_before_the_process() {
    let failure = call(&shell("exec >&- 2>&-; sleep 0.1; exit 3"), json!({})).await.unwrap_err();
    assert!(failure.message.contains("exit code 3"), "{failure}");
}

/// Starts a call, waits for the script to write its pid to `pid`, and gives both up.
async fn start_and_drop(tool: &CommandTool, folder: &Folder) -> Pid {
    let pid_file = folder.path("pid");
    let pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok();
    tokio::select! {
        result = call(tool, json!({})) => panic!("ended by itself: {result:?}"),
        () = until("the start", || pid().is_some()) => {}
    }
    Pid::from_raw(pid().unwrap()).unwrap()
}

#[tokio::test]
async fn dropping_a_call_ends_the_whole_group_even_if_it_ignores_term() {
    let folder = Folder::new();
    let (pid, canary) = (folder.path("pid"), folder.path("canary"));
    let script = format!(
        r#"trap "" TERM; (trap "" TERM; sleep 0.7; touch {canary}; sleep 30) & echo $$ > {pid}; wait"#
    );
    let tool = shell_with(&script, "stop_grace = '100ms'");
    let start = Instant::now();
    let leader = start_and_drop(&tool, &folder).await;
    assert_eq!(tool.reaper.live(), 1);
    tool.reaper.drain(Duration::from_secs(2)).await;
    assert_eq!(tool.reaper.live(), 0);
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
    assert!(test_kill_process(leader).is_err(), "no zombie stays");
    sleep(Duration::from_millis(900).saturating_sub(start.elapsed())).await;
    assert!(!Path::new(&canary).exists());
}

#[tokio::test]
async fn a_command_that_heeds_term_may_clean_up() {
    let folder = Folder::new();
    let (pid, cleaned) = (folder.path("pid"), folder.path("cleaned"));
    let script = format!("trap 'touch {cleaned}; exit' TERM; echo $$ > {pid}; while :; do sleep 0.05; done");
    let tool = build(&[], &format!("argv = ['sh', '-c', \"\"\"{script}\"\"\"]"));
    start_and_drop(&tool, &folder).await;
    tool.reaper.drain(Duration::from_secs(2)).await;
    assert!(Path::new(&cleaned).exists());
}

#[tokio::test]
async fn a_cancelled_call_answers_at_once_and_ends_its_processes() {
    let tool = shell_with("sleep 30 & sleep 30; wait", "stop_grace = '100ms'");
    let (cancel, ctx) = cancellable(false);
    cancel.notify.notify_one();
    let start = Instant::now();
    let failure = tool.call(ctx, Json::empty_object()).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::Cancelled, EffectState::Unknown));
    assert!(start.elapsed() < Duration::from_millis(500));
    until("the end of the group", || tool.reaper.live() == 0).await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_already_starts_nothing() {
    let tool = shell("true");
    let failure = tool.call(cancellable(true).1, Json::empty_object()).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::Cancelled, EffectState::None));
    assert_eq!(tool.reaper.live(), 0);
}

#[tokio::test]
async fn a_drain_that_runs_out_of_time_kills() {
    let tool = Arc::new(shell_with("trap \"\" TERM; exec sleep 30", "stop_grace = '1m'"));
    let running = tokio::spawn({
        let tool = Arc::clone(&tool);
        async move { call(&tool, json!({})).await }
    });
    until("the start", || tool.reaper.live() == 1).await;
    tool.reaper.drain(Duration::from_millis(50)).await;
    assert_eq!(tool.reaper.live(), 0);
    assert_eq!(running.await.unwrap().unwrap_err().code, FailureCode::Crashed);
}

#[test]
fn a_runtime_that_goes_away_takes_the_processes_along() {
    let folder = Folder::new();
    let pid = folder.path("pid");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tool = shell_with(&format!("echo $$ > {pid}; exec sleep 30"), "stop_grace = '1m'");
    let leader = runtime.block_on(start_and_drop(&tool, &folder));
    drop(runtime);
    assert_eq!(tool.reaper.live(), 0);
    let start = Instant::now();
    let is_zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", leader.as_raw_pid()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    while test_kill_process(leader).is_ok() && !is_zombie() {
        assert!(start.elapsed() < Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_program_that_vanished_is_gone() {
    let folder = Folder::new();
    let path = folder.script("tool", "#!/bin/sh\necho here\n");
    let tool = build(&[], &format!("argv = ['{path}']"));
    assert_eq!(call(&tool, json!({})).await.unwrap(), "here");
    std::fs::remove_file(&path).unwrap();
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::Gone, EffectState::None));
}

#[test]
fn a_process_that_did_not_start_had_no_effect() {
    use rustix::io::Errno;
    for (errno, code) in [
        (Errno::NOENT, FailureCode::Gone),
        (Errno::ACCESS, FailureCode::PermissionDenied),
        (Errno::TOOBIG, FailureCode::TooLarge),
        (Errno::TXTBSY, FailureCode::Unavailable),
        (Errno::MFILE, FailureCode::Overloaded),
        (Errno::AGAIN, FailureCode::Overloaded),
        (Errno::IO, FailureCode::ToolError),
    ] {
        let failure = not_started(&errno.into());
        assert_eq!((failure.code, failure.effect), (code, EffectState::None));
    }
}

fn without_path(shown: String) -> String {
    shown.replace(&env("PATH").unwrap(), "…")
}

#[test]
fn every_mistake_is_reported_at_once() {
    let folder = Folder::new();
    std::fs::write(folder.path("plain"), "x").unwrap();
    let toml = r#"
        argv = ["no-such-program-7", "{ordr}", "{limit}", "{"]
        cwd = "/no/such/folder"
        env = { KEY = "${NONE}", "A=B" = "x" }
        exit_codes = { 0 = "not_found", 300 = "not_found", 2 = "not_fund", 3 = "crashed" }
        output_bytes_max = 0
    "#;
    let mistakes = try_build(spec(Effect::Once, &["order", "limit?"]), toml).unwrap_err();
    expect![[r#"
        command.argv.1: there is no parameter `ordr`: did you mean `{order}`? (A brace that is meant as such is written twice.)
        command.argv.2: parameter `limit` may be absent: list it under `required` in the schema, or write `{limit?}` where it may be left out
        command.argv.3: a brace has no partner: write `{name}` for an argument, `{{` or `}}` for a brace
        command.cwd: there is no folder `/no/such/folder`
        command.env.A=B: no environment variable can have this name
        command.env.KEY: the environment variable `NONE` is not set
        command.argv.0: `no-such-program-7` is not on PATH: install it, or write its full path (PATH is `…`)
        command.exit_codes.0: exit code 0 is success
        command.exit_codes.2: `not_fund` is not a failure code that a tool can give; did you mean `not_found`?
        command.exit_codes.3: `crashed` is not a failure code that a tool can give; use one of rate_limited, unavailable, timeout, connection_failed, unauthenticated, permission_denied, quota_exhausted, gone, not_found, no_results, ambiguous, conflict, tool_error, partial, invalid_arguments, too_large, outcome_unknown
        command.exit_codes.300: `300` is no exit code: write one from 1 to 255
        command.output_bytes_max: 0 keeps nothing of the output: use 1 or more
    "#]].assert_eq(&without_path(list(&mistakes)));
    let mistakes = |argv: String| {
        list(&try_build(spec(Effect::Once, &["word"]), &format!("argv = [{argv}]")).unwrap_err())
            .replace(folder.0.to_str().unwrap(), "FOLDER")
    };
    let shown = [
        mistakes(String::new()),
        mistakes("'{word}'".to_owned()),
        without_path(mistakes("'no-such-program-7', '{word}'".to_owned())),
        mistakes(format!("'{}', '{{word}}'", folder.path("plain"))),
        mistakes(format!("'{}', '{{word}}'", folder.path("none"))),
        mistakes("'env', 'bash', '-ec', 'grep {word} log'".to_owned()),
        mistakes("'date'".to_owned()),
    ];
    expect![[r#"
        command.argv.0: name the program and its arguments, like ["date", "-u"]
        command.argv.0: the program must be fixed: no argument may choose it
        command.argv.0: `no-such-program-7` is not on PATH: install it, or write its full path (PATH is `…`)
        command.argv.0: `FOLDER/plain` is not executable: set its mode with `chmod +x`
        command.argv.0: there is no program `FOLDER/none`
        command.argv.3: the shell would run the values in this script as code: pass them as arguments, like ["sh", "-c", "grep \"$1\" log", "sh", "{word}"]
        command.argv: parameter `word` is used nowhere: put it in an element, set `stdin = "json"`, or take it out of the schema
    "#]].assert_eq(&shown.concat());
}

#[test]
fn a_script_that_is_one_value_is_the_operators_choice() {
    assert!(try_build(spec(Effect::Once, &["script"]), "argv = ['sh', '-c', '{script}']").is_ok());
    assert!(try_build(spec(Effect::Once, &["n"]), "argv = ['head', '-c', '{n}k']").is_ok());
}

#[test]
fn a_length_of_time_has_a_unit() {
    let grace = |text: &str| {
        toml::from_str::<CommandConfig>(&format!("argv = ['x']\nstop_grace = '{text}'"))
            .map(|config| config.stop_grace)
    };
    assert_eq!(grace("250ms").unwrap(), Duration::from_millis(250));
    assert_eq!(grace("3s").unwrap(), Duration::from_secs(3));
    assert_eq!(grace("2m").unwrap(), Duration::from_secs(120));
    let schema = schemars::schema_for!(CommandConfig);
    let default = schema.pointer("/properties/stop_grace/default").and_then(Value::as_str);
    assert_eq!(
        grace(default.unwrap()).unwrap(),
        toml::from_str::<CommandConfig>("argv = []").unwrap().stop_grace
    );
    for text in ["3", "s", "-1s", "1.5s", "3h", ""] {
        assert!(grace(text).unwrap_err().to_string().contains("is no length of time"), "{text}");
    }
}

#[tokio::test]
async fn after_a_kill_nothing_starts_any_more() {
    let folder = Folder::new();
    let canary = folder.path("canary");
    let tool = shell(&format!("touch {canary}"));
    tool.reaper.kill_all();
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!(failure.effect, EffectState::None);
    assert!(!Path::new(&canary).exists());
}
