//! A PostgreSQL server of our own: made with the system's programs in a directory for it, reachable
//! by nobody else, with `fsync` on, ended by its process id. It panics where a test has to stop.
//!
//! The suite of the stores has this file as well, by its path.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops where it cannot go on")]

use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server. It and its directory end with the value.
#[derive(Debug)]
pub struct Server {
    dir: PathBuf,
    settings: Vec<String>,
    child: Child,
}

impl Server {
    /// Makes a cluster in a new directory and starts it.
    pub fn new(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        Self::with(dir, &[])
    }

    /// Makes a cluster in a directory that may have files for it, and starts it. The files of the
    /// cluster have not reached the disk by then.
    pub fn with(dir: &Path, settings: &[&str]) -> Self {
        let user = server_user();
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        if let Some((uid, gid)) = user {
            for path in files.chain([dir.to_owned()]) {
                chown(path, Some(uid), Some(gid)).unwrap();
            }
        }
        let mut command = program("initdb", user);
        command
            .args(["-N", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "-D"])
            .arg(dir.join("data"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Self::start(dir, settings)
    }

    /// Starts the cluster that was made in a directory.
    pub fn start(dir: &Path, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { dir: dir.to_owned(), child: start(dir, &settings), settings };
        server.wait_until_ready();
        server
    }

    /// A copy of it that follows it, in a directory of its own.
    pub fn standby(&self, dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let user = server_user();
        if let Some((uid, gid)) = user {
            chown(dir, Some(uid), Some(gid)).unwrap();
        }
        let mut command = program("pg_basebackup", user);
        command
            .args(["-N", "-R", "-c", "fast", "-U", "tester", "-h"])
            .arg(&self.dir)
            .arg("-D")
            .arg(dir.join("data"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        Self::start(dir, &[])
    }

    /// Lets a copy take writes.
    pub fn promote(&self) {
        let mut command = program("pg_ctl", server_user());
        let promoted = command.args(["promote", "-w", "-D"]).arg(self.dir.join("data")).output().unwrap();
        assert!(promoted.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&promoted.stderr));
    }

    /// Ends it as a power cut would, but for the machine.
    pub fn kill(&mut self) {
        self.end("-QUIT");
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.end("-INT");
    }

    /// Starts it, after it was ended.
    pub fn start_again(&mut self) {
        self.child = start(&self.dir, &self.settings);
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while !self.is_ready() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not come up");
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended: {}", log(&self.dir));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The server writes its id into this file, and a word when it takes connections. After a power
    /// cut the file of the one before is still there.
    fn is_ready(&self) -> bool {
        std::fs::read_to_string(self.dir.join("data/postmaster.pid")).is_ok_and(|text| {
            let mut lines = text.lines().map(str::trim);
            lines.next() == Some(&*self.child.id().to_string())
                && lines.nth(6).is_some_and(|state| matches!(state, "ready" | "standby"))
        })
    }

    /// Ends it as a power cut would, but for the machine, and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Ends it as a power cut would, but for the machine, and leaves its directory as it is.
    pub fn crash(mut self) {
        self.kill();
        std::mem::forget(self);
    }

    /// Ends it in order, and leaves its directory as it is.
    pub fn leave(mut self) {
        self.stop();
        std::mem::forget(self);
    }

    fn end(&mut self, signal: &str) {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().unwrap();
        self.child.wait().unwrap();
    }

    /// The directory of its socket.
    pub fn host(&self) -> String {
        self.dir.display().to_string()
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        url(&self.dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of it is kept, so nothing has to reach the disk.
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The address of the server in a directory.
pub fn url(dir: &Path) -> String {
    format!("host={} user=tester dbname=postgres sslmode=disable", dir.display())
}

/// The same as a URL, for a configuration.
pub fn address(dir: &Path) -> String {
    format!("postgres:///postgres?user=tester&host={}&sslmode=disable", dir.display())
}

/// What the server in a directory wrote about itself.
pub fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

/// The server refuses to run as root: the user it then runs as.
fn server_user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
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
