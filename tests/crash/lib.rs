//! What shows that runs survive: a server of our own and a harness that kills workers, for the
//! program `crash` and for the test of the command. Neither looks into a process; what is judged
//! stands outside of it: the requests that left it, and the journal.

pub mod chance;
pub mod kill;
pub mod postgres;
pub mod store;
