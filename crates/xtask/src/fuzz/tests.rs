use super::*;

#[test]
fn a_line_names_a_length_and_a_target() {
    assert_eq!(Order::of(&[]), Ok(Order { seconds: 60, target: None }));
    assert_eq!(Order::of(&["redact"]), Ok(Order { seconds: 60, target: Some("redact") }));
    assert_eq!(Order::of(&["--seconds", "5", "redact"]), Ok(Order { seconds: 5, target: Some("redact") }));
    assert_eq!(Order::of(&["redact", "--seconds", "5"]), Ok(Order { seconds: 5, target: Some("redact") }));
}

#[test]
fn a_line_that_is_not_understood_is_told_how_it_goes() {
    let reason = |words: &[&str]| Order::of(words).unwrap_err();
    assert_eq!(reason(&["--seconds"]), "--seconds needs a number from 1 on, like --seconds 600");
    assert_eq!(reason(&["--seconds", "0"]), "--seconds needs a number from 1 on, like --seconds 600");
    let usage = "usage: cargo xtask fuzz [--seconds N] [TARGET]";
    assert_eq!(reason(&["redact", "schema"]), format!("`schema` is not understood; {usage}"));
    assert_eq!(reason(&["--jobs", "2"]), format!("`--jobs` is not understood; {usage}"));
}

#[test]
fn every_target_is_found_by_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let targets = Workspace { workspace_root: root, target_directory: PathBuf::new() }.targets().unwrap();
    assert!(targets.contains(&"assembler".to_owned()), "{targets:?}");
    assert!(targets.is_sorted());
}
