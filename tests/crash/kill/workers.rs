//! The processes that are struck: the real command, one process a worker, with a model of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dauntless_contract::RunId;
use dauntless_testkit::StrictProvider;
use serde_json::Value;

use super::judge::Shown;
use super::ledger::{Class, Ledger, WorkerNo};
use super::services::{self, QUESTION, WORKER_HEADER, WORKER_PREFIX, WORKER_VARIABLE, goal};
use super::trees::Shape;
use crate::store::Error;

/// How long a worker's runs wait for another where the store cannot see it die.
pub(super) const TTL: Duration = Duration::from_secs(2);
/// How long a worker may take to end in order.
const PATIENCE: Duration = Duration::from_secs(20);

/// The agents of the trees; what the tight limits are enough for is in the rules about limits.
const AGENTS: &str = r#"
[agents.idler]
instructions = "Do what is asked."
answer = { type = "object" }
answer_reasks = 0

[agents.lead]
instructions = "Do what is asked."
agents = ["clerk"]
tools = ["verifiable"]
[agents.lead.links.clerk]
retries = 1

[agents.head]
instructions = "Do what is asked."
agents = ["clerk", "lead"]
tools = ["once", "keyed"]
join = "best_effort"
[agents.head.links.lead]
retries = 1
[agents.head.links.idler]
retries = 1

[agents.hasty]
instructions = "Do what is asked."
agents = ["clerk", "lead"]
join = "first_success"

[agents.tight]
instructions = "Do what is asked."
agents = ["lead", "idler"]
tools = ["once", "keyed"]
[agents.tight.links.clerk]
retries = 1
allowance = { children = 0 }
[agents.tight.limits]
tool_calls = 16
children = 5
"#;

/// What all processes of one round share.
pub(super) struct Site {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) seed: u64,
    pub(super) turns: u32,
    pub(super) ledger: Arc<Ledger>,
}

/// A worker that runs, or stands still.
pub(super) struct Worker {
    pub(super) number: WorkerNo,
    child: Child,
    model: StrictProvider,
    /// Wakes it. In a thread, because whoever stands still while it writes keeps us waiting too.
    waker: Option<JoinHandle<()>>,
}

impl Site {
    /// Writes the configuration of all workers and runs.
    pub(super) fn configure(&self, journal: &str, tools: &str) -> Result<(), Error> {
        let names = Class::ALL.map(Class::as_str);
        let mut text = format!(
            "[journal]\nurl = {journal:?}\n[worker]\nttl = \"{}ms\"\ngrace = \"5s\"\n\
             [model]\nprovider = \"openai\"\nname = \"m\"\ncontext_window = 1000000\n\
             [limits]\nturns = {}\ntool_calls = 100000\ntokens = 1000000000\n\
             [agents.clerk]\ninstructions = \"Do what is asked.\"\ntools = {names:?}\n{AGENTS}",
            TTL.as_millis(),
            self.turns + 10,
        );
        for class in Class::ALL {
            let name = class.as_str();
            let more = match class {
                Class::ReadOnly | Class::Idempotent | Class::Once => String::new(),
                Class::Keyed => "idempotency_header = \"Idempotency-Key\"\n".to_owned(),
                Class::Verifiable => format!("verify = {{ url = \"{tools}{QUESTION}{{intent}}\" }}\n"),
            };
            text += &format!(
                "[tools.{name}]\ndescription = \"Does it.\"\neffect = \"{name}\"\ntimeout = \"30s\"\ndeadline = \"1m\"\n\
                 parameters = {{ type = \"object\", required = [\"intent\"], properties = {{ intent = {{ type = \"string\" }} }} }}\n\
                 [tools.{name}.http]\nmethod = \"POST\"\nurl = \"{tools}/{name}\"\nhosts = [\"127.0.0.1\"]\n\
                 headers = {{ {WORKER_HEADER} = \"${{{WORKER_VARIABLE}}}\" }}\n{more}",
            );
        }
        Ok(std::fs::write(self.config(), text)?)
    }

    fn config(&self) -> PathBuf {
        self.folder.join("dauntless.toml")
    }

    fn command(&self, words: &[&str], worker: WorkerNo) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--config").arg(self.config()).current_dir(&self.folder).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("OPENAI_API_KEY", "none").env("XDG_RUNTIME_DIR", &self.folder);
        command.env(WORKER_VARIABLE, format!("{WORKER_PREFIX}{worker}"));
        command.stdin(Stdio::null());
        command
    }

    /// Submits a run, as whoever wants something done would.
    pub(super) fn submit(&self, run: u64) -> Result<RunId, Error> {
        let agent = Shape::of(run).agent();
        let submitted = self.command(&["submit", "--agent", agent, &goal(run)], 0).output()?;
        let said = String::from_utf8_lossy(&submitted.stdout);
        let id = said.trim().parse();
        id.map_err(|_| {
            format!("submit said `{said}` and `{}`", String::from_utf8_lossy(&submitted.stderr)).into()
        })
    }

    /// Cancels a run, as whoever no longer wants it would.
    pub(super) fn cancel(&self, run: RunId) -> Result<(), Error> {
        let cancelled = self.command(&["cancel", &run.to_string()], 0).output()?;
        let said = String::from_utf8_lossy(&cancelled.stderr);
        // It may have ended meanwhile.
        match cancelled.status.success() || said.contains("is over already") {
            true => Ok(()),
            false => Err(format!("cancel said `{said}`").into()),
        }
    }

    /// What an operator is shown of a run at the top and of all below it.
    pub(super) fn show(&self, run: RunId) -> Result<Shown, Error> {
        let shown = self.command(&["show", "--json", &run.to_string()], 0).output()?;
        let value: Value = serde_json::from_slice(&shown.stdout)
            .map_err(|_| format!("show said `{}`", String::from_utf8_lossy(&shown.stderr)))?;
        let number = |at: &str| value.pointer(at).and_then(Value::as_u64).unwrap_or(0);
        Ok(Shown {
            turns: number("/headline/turns") + number("/headline/below/turns"),
            calls: number("/headline/calls") + number("/headline/below/calls"),
            tokens: number("/headline/tokens"),
            children: number("/headline/below/runs"),
        })
    }

    /// Starts a worker that has not been there yet.
    pub(super) fn start(&self, number: WorkerNo) -> Result<Worker, Error> {
        let model = services::model(&self.ledger, number, self.seed, self.turns)?;
        let log = File::create(self.log(number))?;
        let child = self
            .command(&["work"], number)
            .env("OPENAI_BASE_URL", model.url())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Worker { number, child, model, waker: None })
    }

    /// What a worker wrote.
    pub(super) fn log(&self, worker: WorkerNo) -> PathBuf {
        self.folder.join(format!("{WORKER_PREFIX}{worker}.log"))
    }
}

impl Worker {
    /// kill -9.
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stands still for a while.
    pub(super) fn stop(&mut self, length: Duration) -> Result<(), Error> {
        let id = self.child.id();
        signal(id, "-STOP")?;
        self.waker = Some(std::thread::spawn(move || {
            std::thread::sleep(length);
            // A worker that cannot be woken does not end in order, and that is told.
            let _ = signal(id, "-CONT");
        }));
        Ok(())
    }

    /// Whether it does not stand still.
    pub(super) fn stands(&self) -> bool {
        self.waker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, Error> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Asks it to end in order. Answers whether it did.
    pub(super) fn end(&mut self) -> Result<bool, Error> {
        signal(self.child.id(), "-TERM")?;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }

    /// What was wrong with its requests of the model.
    pub(super) fn violations(&self) -> Vec<String> {
        self.model
            .violations()
            .iter()
            .map(|found| format!("worker {}: {}", self.number, found.broken))
            .collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The id is the child's until it was waited for, so the waker goes first.
        if let Some(waker) = self.waker.take() {
            let _ = waker.join();
        }
        // Ended already, but for a harness that failed.
        let _ = self.kill();
    }
}

fn signal(id: u32, signal: &str) -> Result<(), Error> {
    Command::new("kill").args([signal, &id.to_string()]).status()?;
    Ok(())
}
