//! Chaos: that it is about tools there are, and that each range has a beginning before its end.

use super::Resolver;
use super::agent::meant;
use crate::config::ChaosConfig;
use crate::config::chaos::ChaosFile;
use crate::config::document::join;
use crate::config::unit::Wait;

impl Resolver<'_, '_> {
    pub(super) fn chaos(&mut self, file: ChaosFile) -> ChaosConfig {
        let known = self.document.names("/tools");
        for name in self.document.names("/chaos/tools").iter().filter(|name| !known.contains(name)) {
            let at = join("/chaos/tools", name);
            let expected = "the name of a tool in this file";
            self.document.wrong_name(&at, expected, &format!("{name:?}"), Some(meant(name, &known)));
        }
        self.ordered("/chaos", file.latency);
        for (name, tool) in &file.tools {
            if let Some(latency) = tool.latency {
                self.ordered(&join("/chaos/tools", name), latency);
            }
        }
        file.into()
    }

    fn ordered(&mut self, pointer: &str, [from, to]: [Wait; 2]) {
        if from > to {
            let at = join(pointer, "latency");
            let found = format!("\"{from}\" before \"{to}\"");
            self.document.wrong_found(&at, "the shorter length first", found, None);
        }
    }
}
