//! The commands, one module each.

pub(crate) mod check;
pub(crate) mod rehearse;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod runs;
pub(crate) mod texts;
pub(crate) mod tools;
pub(crate) mod work;
