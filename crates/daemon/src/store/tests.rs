use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dauntless_contract::ListQuery;
use expect_test::expect;

use super::*;
use crate::config;

fn configured(journal: &str) -> JournalConfig {
    let rest = "\n[model]\nprovider = \"openai\"\nname = \"m\"\n[agents.clerk]\ninstructions = \"Work.\"\n";
    config::parse(&format!("{journal}{rest}"), "dauntless.toml", Path::new("/etc/dauntless")).unwrap().journal
}

fn at(journal: &str, variables: &[(&str, &str)]) -> String {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match address(&configured(journal), &|name| variables.get(name).cloned()) {
        Ok(address) => address.to_string(),
        Err(error) => format!("{error}"),
    }
}

#[test]
fn the_place_comes_from_the_file_or_a_variable_or_the_users_home() {
    let by_variable = "journal.url_env = \"JOURNAL\"";
    let secret = "postgres://ann:hunter22@db/runs?password=hunter22";
    let both = "journal = { url_env = \"JOURNAL\", url = \"sqlite:j.db\" }";
    let places = [
        at("", &[("HOME", "/home/ann")]),
        at("", &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/state")]),
        at("", &[("HOME", "not/absolute")]),
        at("journal = \"sqlite:j.db\"", &[]),
        at(by_variable, &[("JOURNAL", secret)]),
        at(by_variable, &[("JOURNAL", " ")]),
        at(by_variable, &[("JOURNAL", "hunter22")]),
        at(both, &[]),
        at(both, &[("JOURNAL", "sqlite:/k.db")]),
    ];
    expect![[r#"
        sqlite:/home/ann/.local/state/dauntless/journal.db
        sqlite:/state/dauntless/journal.db
        the configuration names no journal, and neither XDG_STATE_HOME nor HOME says where one would be: name it with journal = "sqlite:PATH"
        sqlite:/etc/dauntless/j.db
        postgres://db/runs
        the journal's address is in the environment variable JOURNAL, which is not set
        the environment variable JOURNAL does not hold the address of a journal: it does not begin with one of the two kinds there are: `sqlite:PATH`, a file of this machine, and `postgres://HOST/DATABASE`, a server
        sqlite:/etc/dauntless/j.db
        sqlite:/k.db
    "#]].assert_eq(&(places.join("\n") + "\n"));
}

#[tokio::test]
async fn the_users_own_journal_is_made_where_only_the_user_looks() {
    let home = std::env::temp_dir().join(format!("dauntless-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    let variable = |name: &str| (name == "XDG_STATE_HOME").then(|| home.display().to_string());
    let journal = open(&configured(""), &variable).await.unwrap();
    let query = ListQuery { state: None, root: None, after: None, limit: 1 };
    assert_eq!(journal.list(query).await.unwrap(), []);
    let mode = std::fs::metadata(home.join("dauntless")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(journal);
    std::fs::remove_dir_all(&home).unwrap();
}

#[tokio::test]
async fn what_a_store_refuses_is_told_with_its_place() {
    let refused = |journal: &'static str| async move {
        open(&configured(journal), &|_| None).await.err().unwrap().to_string()
    };
    let missing = refused("journal = \"sqlite:/nonexistent/j.db\"").await;
    assert!(missing.contains("/nonexistent"), "{missing}");
    let closed = refused("journal = \"postgres://ann@127.0.0.1:1/runs\"").await;
    assert!(closed.starts_with("the journal at postgres://127.0.0.1:1/runs cannot be opened: "), "{closed}");
}
