//! The real binary, from outside: what it prints and where, how it ends, and what it leaves behind.
//!
//! Each test has a folder and an environment of its own, and a model on loopback that is stricter
//! than any provider. Nothing here looks inside the process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod answers;
mod bad_input;
mod chaos;
mod crashes;
mod ending;
mod operator;
mod rehearsal;
mod running;
mod runs;
mod tools;
mod trees;
mod work;

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dauntless_testkit::{Script, StrictProvider};

/// Longer than any test may take: a hang is a failure, not a reason to wait.
const PATIENCE: Duration = Duration::from_secs(30);
const KEY: &str = "sk-canary-0123456789abcdef";

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dauntless-system-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Writes `dauntless.toml`: a model at the provider, an agent with all the tools, and the tools.
    fn configure(&self, provider: &StrictProvider, tools: &str) {
        let names = tools.lines().filter_map(|line| line.strip_prefix("[tools.")?.strip_suffix(']'));
        let names: Vec<String> =
            names.filter(|name| !name.contains('.')).map(|name| format!("{name:?}")).collect();
        let mut text = format!(
            "[model]\nprovider = \"openai\"\nname = \"m\"\ncontext_window = 32768\nbase_url = \"{}\"\n\
             [agents.clerk]\ninstructions = \"Work.\"\ntools = [{}]\n",
            provider.url(),
            names.join(", ")
        );
        let _ = write!(text, "{tools}");
        self.write("dauntless.toml", &text);
    }

    /// The command in this folder, with a key and nothing else of this test's environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dauntless"));
        command.args(arguments).current_dir(&self.0).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("OPENAI_API_KEY", KEY);
        command.env("XDG_RUNTIME_DIR", &self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a command ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(mut command: Command) -> Self {
        Self::wait(command.spawn().unwrap())
    }

    fn wait(mut child: Child) -> Self {
        let out = read_all(child.stdout.take());
        let err = read_all(child.stderr.take());
        let code = ended(&mut child);
        let ran = Self { code, out: out.join().unwrap(), err: err.join().unwrap() };
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        assert!(!ran.err.contains(KEY) && !ran.out.contains(KEY), "{ran:?}");
        ran
    }

    #[track_caller]
    fn assert(&self, code: i32, out: &str, err: &str) {
        assert_eq!((self.code, &*self.out, &*self.err), (Some(code), out, err));
    }
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_string(&mut text).unwrap();
        }
        text
    })
}

/// Waits for the end; a process that does not come to it is killed and fails the test.
fn ended(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a file has text, which a process writes.
fn written(path: &Path) -> String {
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(start.elapsed() < PATIENCE, "{} was never written", path.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn provider(script: Script) -> StrictProvider {
    StrictProvider::start(script).unwrap()
}
