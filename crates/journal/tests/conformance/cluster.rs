//! A PostgreSQL server of our own: made with the system's programs in a directory for temporary
//! files, reachable by nobody else, with `fsync` on, ended by its process id.
//!
//! The processes of this test program share one. Each holds a lock while it lives; a keeper, which
//! is this program as well, ends the server when nobody has held it for a while.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KEPT: &str = "JOURNAL_TEST_KEEP";
/// How often in a row, a second apart, nobody must be there.
const IDLE_CHECKS: u32 = 5;

/// A running server that the value's owner ends.
pub(crate) struct Server {
    dir: PathBuf,
    settings: Vec<String>,
    child: Child,
}

impl Server {
    /// Makes a cluster in a new directory and starts it.
    pub(crate) fn new(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        Self::with(dir, &[])
    }

    /// Makes a cluster in a directory that may have files for it, and starts it.
    pub(crate) fn with(dir: &Path, settings: &[&str]) -> Self {
        let user = server_user();
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        if let Some((uid, gid)) = user {
            for path in files.chain([dir.to_owned()]) {
                chown(path, Some(uid), Some(gid)).unwrap();
            }
        }
        let mut command = program("initdb", user);
        command.args(["-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "-D"]).arg(dir.join("data"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { dir: dir.to_owned(), child: start(dir, &settings), settings };
        server.wait_until_ready();
        server
    }

    /// A copy of it that follows it, in a directory of its own.
    pub(crate) fn standby(&self, dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let user = server_user();
        if let Some((uid, gid)) = user {
            chown(dir, Some(uid), Some(gid)).unwrap();
        }
        let mut command = program("pg_basebackup", user);
        command
            .args(["-R", "-c", "fast", "-U", "tester", "-h"])
            .arg(&self.dir)
            .arg("-D")
            .arg(dir.join("data"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = Self { dir: dir.to_owned(), child: start(dir, &[]), settings: Vec::new() };
        server.wait_until_ready();
        server
    }

    /// Lets a copy take writes.
    pub(crate) fn promote(&self) {
        let mut command = program("pg_ctl", server_user());
        let promoted = command.args(["promote", "-w", "-D"]).arg(self.dir.join("data")).output().unwrap();
        assert!(promoted.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&promoted.stderr));
    }

    /// Ends it without asking.
    pub(crate) fn kill(&mut self) {
        self.end("-QUIT");
    }

    /// Ends it in order.
    pub(crate) fn stop(&mut self) {
        self.end("-INT");
    }

    pub(crate) fn start_again(&mut self) {
        self.child = start(&self.dir, &self.settings);
        self.wait_until_ready();
    }

    /// A connection past the store.
    async fn raw(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn execute(&self, statement: &str) {
        self.raw().await.execute(statement, &[]).await.unwrap();
    }

    /// Waits until a statement answers yes.
    pub(crate) async fn wait_for(&self, statement: &str) {
        let (client, started) = (self.raw().await, Instant::now());
        loop {
            let row = client.query_opt(statement, &[]).await.unwrap();
            if row.and_then(|row| row.get::<_, Option<bool>>(0)) == Some(true) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "never: {statement}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while !is_ready(&self.dir) {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not come up");
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended: {}", log(&self.dir));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a power cut would, but for the machine, and starts it again.
    pub(crate) fn crash_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    fn end(&mut self, signal: &str) {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn host(&self) -> String {
        self.dir.display().to_string()
    }

    pub(crate) fn url(&self) -> String {
        url(&self.dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("-INT");
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn url(dir: &Path) -> String {
    format!("host={} user=tester dbname=postgres sslmode=disable", dir.display())
}

/// The server refuses to run as root: the user it then runs as.
fn server_user() -> Option<(u32, u32)> {
    let me = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    if me != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let line = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("a user for the server"))
}

fn program(name: &str, user: Option<(u32, u32)>) -> Command {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut newest: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin").join(name)).collect();
    newest.retain(|path| path.exists());
    newest.sort();
    let path = newest.pop().unwrap_or_else(|| PathBuf::from(name));
    let mut command = Command::new(path);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn start(dir: &Path, settings: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    program("postgres", server_user())
        .arg("-D")
        .arg(dir.join("data"))
        .arg("-k")
        .arg(dir)
        .args(["-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB"])
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("PostgreSQL is needed: apt-get install postgresql")
}

fn is_ready(dir: &Path) -> bool {
    // The server writes this line when it takes connections.
    std::fs::read_to_string(dir.join("data/postmaster.pid")).is_ok_and(|text| {
        text.lines().nth(7).is_some_and(|state| matches!(state.trim(), "ready" | "standby"))
    })
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

fn shared_dir() -> PathBuf {
    // A socket's path is short, and each checkout has a server of its own.
    let mut hasher = DefaultHasher::new();
    env!("CARGO_TARGET_TMPDIR").hash(&mut hasher);
    std::env::temp_dir().join(format!("dauntless-journal-{:016x}", hasher.finish()))
}

fn lock_file(name: &str) -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    File::options().create(true).truncate(false).write(true).open(path).unwrap()
}

/// The address of the server that all processes of this program share; started by the first.
pub(crate) fn shared_url() -> String {
    let (dir, users, starter) = (shared_dir(), lock_file("postgres-users"), lock_file("postgres-starter"));
    users.lock_shared().unwrap();
    starter.lock().unwrap();
    if !dir.join("keeper-is-there").exists() {
        let _ = std::fs::remove_dir_all(&dir);
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "cluster::keep_the_server"])
            .env(KEPT, &dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(drop)
            .unwrap();
        let started = Instant::now();
        while !dir.join("keeper-is-there").exists() {
            assert!(started.elapsed() < Duration::from_secs(90), "no server: {}", log(&dir));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(starter);
    // The lock lasts as long as this process.
    std::mem::forget(users);
    url(&dir)
}

#[test]
#[ignore = "the body of the process that keeps the shared server"]
fn keep_the_server() {
    let Some(dir) = std::env::var_os(KEPT).map(PathBuf::from) else { return };
    let server = Server::new(&dir);
    std::fs::write(dir.join("keeper-is-there"), "").unwrap();
    let users = lock_file("postgres-users");
    let mut idle = 0;
    while idle < IDLE_CHECKS {
        std::thread::sleep(Duration::from_secs(1));
        idle = match users.try_lock() {
            // Held until the server has ended, so that whoever comes now waits and starts another.
            Ok(()) if idle + 1 == IDLE_CHECKS => IDLE_CHECKS,
            Ok(()) => {
                users.unlock().unwrap();
                idle + 1
            }
            Err(_) => 0,
        };
    }
    drop(server);
}
