use std::path::Path;

use rusqlite::Connection;

use super::file::{SettingError, check_engine, check_kind, check_settings};

#[test]
fn dur_35_an_engine_with_the_defect_is_refused() {
    let refused = check_engine(3_050_004, "3.50.4").unwrap_err().to_string();
    assert_eq!(refused, "SQLite 3.50.4 can corrupt a write-ahead log; build with 3.51.3 or newer");
    assert!(check_engine(3_051_002, "3.51.2").is_err());
    assert!(check_engine(3_051_003, "3.51.3").is_ok());
    assert!(check_engine(rusqlite::version_number(), rusqlite::version()).is_ok());
}

#[test]
fn dur_35_a_network_filesystem_is_refused() {
    let refused = check_kind(Path::new("/srv/journal"), 0x6969).unwrap_err().to_string();
    assert_eq!(
        refused,
        "/srv/journal is on a network filesystem (nfs), where locks do not hold: use a local disk, or PostgreSQL for \
         several machines"
    );
    assert!(check_kind(Path::new("/srv"), 0xef53).is_ok(), "ext4");
}

#[test]
fn dur_35_settings_that_lose_data_are_refused() {
    let found = |pragmas: &str| {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(pragmas).unwrap();
        match check_settings(&connection) {
            Ok(()) => "fine".to_owned(),
            Err(SettingError::NotDurable { setting, found, .. }) => format!("{setting} = {found}"),
            Err(SettingError::Engine(error)) => error.to_string(),
        }
    };
    assert_eq!(found("PRAGMA synchronous = NORMAL"), "synchronous = 1");
    assert_eq!(found("PRAGMA synchronous = FULL"), "journal_mode = memory");
}
