//! The journal and the worker: one address, without a password.

use std::time::Duration;

use super::Resolver;
use crate::config::journal::{JournalFile, JournalTable, WorkerFile};
use crate::config::{JournalConfig, StoreAddress, StoreConfig, WorkerConfig};

/// Renewals go out every third of it, and each takes its time.
const TTL_MIN: Duration = Duration::from_secs(1);

impl Resolver<'_, '_> {
    pub(super) fn journal(&mut self, file: JournalFile) -> JournalConfig {
        // The short form is its own place.
        let at = if self.document.get("/journal/url").is_some() { "/journal/url" } else { "/journal" };
        let JournalTable { url, url_env, root_certificates, keep, on_config_change } = file.table();
        let address = url.and_then(|url| self.address(at, &url.0));
        let root_certificates = root_certificates.map(|path| self.base.join(path));
        if let Some(path) = &root_certificates {
            let pointer = "/journal/root_certificates";
            if let (Some(StoreAddress::Sqlite(_)), None) = (&address, &url_env) {
                let words = "it has no effect on a file of this machine: leave it out".to_owned();
                self.document.rule(pointer, words);
            } else if !path.is_file() {
                self.document.wrong(pointer, "a file that exists", None);
            }
        }
        let store = match (address, url_env) {
            (otherwise, Some(variable)) => StoreConfig::Variable { name: variable.0, otherwise },
            (Some(address), None) => StoreConfig::At(address),
            (None, None) => StoreConfig::PerUser,
        };
        JournalConfig { store, root_certificates, keep: keep.0, on_config_change }
    }

    fn address(&mut self, at: &str, text: &str) -> Option<StoreAddress> {
        let address: StoreAddress = match text.parse() {
            Ok(address) => address,
            Err(problem) => {
                self.document.rule(at, problem);
                return None;
            }
        };
        if address.has_password() && !self.document.is_noted(at) {
            let hint =
                "write the whole address into an environment variable and name that with `journal.url_env`";
            self.document.wrong_found(
                at,
                "an address without a password",
                "one with it",
                Some(hint.to_owned()),
            );
        }
        Some(address.beside(self.base))
    }

    pub(super) fn worker(&mut self, file: WorkerFile) -> WorkerConfig {
        if file.ttl.0 < TTL_MIN {
            self.document.wrong("/worker/ttl", "at least \"1s\"", None);
        }
        WorkerConfig { capacity: file.capacity, name: file.name, ttl: file.ttl.0, grace: file.grace.0 }
    }
}
