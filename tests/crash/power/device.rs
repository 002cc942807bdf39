//! A disk whose power can be cut: ext4 in a file behind a loop device.
//!
//! A cut is the filesystem's own shutdown, without a last flush of its journal. What no program had
//! synced is gone afterwards, as with a disk that does what it says. The disk's own cache is not tried.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dauntless_tests::store::Error;

/// `EXT4_IOC_SHUTDOWN` with `NOLOGFLUSH`. Rust has no safe way to it.
const CUT: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";
/// How long the processes of a dead server may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// A mounted disk. It is unmounted and gone when the value is.
pub(crate) struct Device {
    folder: PathBuf,
    /// The loop device, once there is one.
    node: Option<String>,
}

impl Device {
    pub(crate) fn new(folder: &Path) -> Result<Self, Error> {
        let mut device = Self { folder: folder.to_owned(), node: None };
        std::fs::create_dir_all(device.place())?;
        let image = folder.join("image");
        std::fs::File::create(&image)?.set_len(2 << 30)?;
        call("mkfs.ext4", &["-q", "-F", &text(&image)])?;
        device.node = Some(call("losetup", &["--find", "--show", &text(&image)])?.trim().to_owned());
        device.mount()?;
        Ok(device)
    }

    /// Where its files are.
    pub(crate) fn place(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// A path that a cut does not touch, gone when the disk is.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Waits until all that was written has reached it.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        call("sync", &["--file-system", &text(&self.place())]).map(drop)
    }

    /// Nothing reaches it from now on.
    pub(crate) fn cut(&self) -> Result<(), Error> {
        call("python3", &["-c", CUT, &text(&self.place())]).map(drop)
    }

    /// What the machine does when the power is back: replays the filesystem's journal.
    pub(crate) fn start_again(&self) -> Result<(), Error> {
        let started = Instant::now();
        while let Err(error) = call("umount", &[&text(&self.place())]) {
            if started.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.mount()
    }

    fn mount(&self) -> Result<(), Error> {
        let node = self.node.as_deref().ok_or("there is no loop device")?;
        call("mount", &["-t", "ext4", node, &text(&self.place())]).map(drop)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Lazy, because a process that is about to end may still have files here. Not mounted is fine.
        let _ = call("umount", &["--lazy", &text(&self.place())]);
        if let Some(node) = &self.node {
            let _ = call("losetup", &["--detach", node]);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a program of the system; what it printed.
fn call(program: &str, words: &[&str]) -> Result<String, Error> {
    let ran = Command::new(program).args(words).output();
    let ran = ran.map_err(|error| format!("`{program}` is needed and cannot be started: {error}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&ran.stderr).trim()).into())
}
