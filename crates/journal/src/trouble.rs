//! What goes wrong with a store as a whole, and the error of each port that it becomes.

use dauntless_contract::{AppendError, CreateError, JournalError, ReadError};

/// The store did not do its work.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// It may again.
    Unavailable(String),
    /// Not for this process.
    Fatal(String),
}

macro_rules! becomes {
    ($($error:ident)+) => {
        $(impl From<Trouble> for $error {
            fn from(trouble: Trouble) -> Self {
                match trouble {
                    Trouble::Unavailable(reason) => Self::Unavailable(reason),
                    Trouble::Fatal(reason) => Self::Fatal(reason),
                }
            }
        })+
    };
}

becomes! { AppendError CreateError JournalError ReadError }
