//! Workers whose wall clock is an hour wrong, as the system tells it to their processes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::cast::{claim, claim_within};
use crate::child::Process;
use crate::rig::{Folder, Rig, SHORT};

/// Tells a process a wall clock that is `JOURNAL_TEST_CLOCK` seconds off; the steady one is right.
const WRONG_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int end = syscall(SYS_clock_gettime, id, t);
    const char *off = getenv("JOURNAL_TEST_CLOCK");
    if (end == 0 && id == CLOCK_REALTIME && off) t->tv_sec += atol(off);
    return end;
}
"#;

struct WrongClock {
    _folder: Folder,
    library: PathBuf,
}

impl WrongClock {
    fn new() -> Self {
        let folder = Folder::new("clock");
        let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
        std::fs::write(&source, WRONG_CLOCK).unwrap();
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(made.expect("a C compiler is needed, as for SQLite").success());
        Self { _folder: folder, library }
    }

    fn start(&self, hours: i64, rig: &Rig, role: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("LD_PRELOAD", &self.library).env("JOURNAL_TEST_CLOCK", (hours * 3600).to_string());
        Process::start_by(command, &rig.address(), role)
    }
}

pub(crate) async fn dur_16_a_wrong_wall_clock_moves_no_takeover(rig: &Rig) {
    let clock = WrongClock::new();
    let heir = rig.worker("heir").await;
    let hours = [1, -1];
    let live = |n: usize| format!("live {} {n}", SHORT.as_millis());
    let mut owners = [0, 1].map(|n| clock.start(hours[n], rig, &live(n)));
    for (owner, hours) in owners.iter_mut().zip(hours) {
        let said = owner.says().unwrap();
        let off = said.strip_prefix("live ").unwrap().parse::<i64>().unwrap() - seconds_now();
        assert!((off - hours * 3600).abs() < 60, "its clock is {off} s off");
    }
    let mut thieves = hours.map(|hours| clock.start(hours, rig, &format!("steal thief{hours} 2000")));
    let started = Instant::now();
    while started.elapsed() < SHORT * 3 {
        assert_eq!(claim(&heir, 9).await, [], "no false takeover");
        tokio::time::sleep(SHORT / 8).await;
    }
    for thief in &mut thieves {
        assert_eq!(thief.says().as_deref(), Some("stole 0"), "nor by one whose clock is wrong");
    }
    for owner in &mut owners {
        owner.kill();
        assert!(claim_within(&heir, rig.takeover_within()).await.is_some(), "no delayed takeover");
    }
}

fn seconds_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}
