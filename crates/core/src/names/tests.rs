use super::*;

#[track_caller]
fn check(wanted: &str, names: &[&str], expected: &[&str]) {
    assert_eq!(nearest(wanted, names.iter().copied(), 3), expected, "for {wanted:?}");
}

#[test]
fn a_slip_in_spelling_finds_the_name() {
    check("get_wether", &["get_weather", "transfer_money"], &["get_weather"]);
    check("getWeather", &["get_weather", "transfer_money"], &["get_weather"]);
    check("get_date", &["search"], &[]);
    check("transfer_founds", &["transfer_funds", "translate"], &["transfer_funds"]);
}

#[test]
fn a_namespace_in_front_does_not_count() {
    check("functions.read", &["read", "write"], &["read"]);
    check("shop.booking_lookup", &["booking_lookup"], &["booking_lookup"]);
    check("mcp__files__read", &["read"], &["read"]);
    check("read", &["fs__read", "write"], &["fs__read"]);
}

#[test]
fn a_missing_prefix_finds_every_name_it_could_be() {
    check("execute", &["quickjs_execute", "py_execute", "list"], &["py_execute", "quickjs_execute"]);
}

#[test]
fn names_that_differ_only_in_case_are_all_found() {
    check("EDIT", &["Edit", "edit", "audit_everything"], &["Edit", "edit"]);
}

#[test]
fn a_control_token_at_the_end_is_ignored() {
    check("query_dataset<|channel|>commentary", &["query_dataset"], &["query_dataset"]);
}

#[test]
fn names_of_other_worlds_are_near_nothing() {
    for odd in ["", "\u{0}", "__proto__", "constructor", "toString", "<|", "🦀"] {
        check(odd, &["search", "read_file"], &[]);
    }
}

#[test]
fn any_name_becomes_one_that_a_provider_accepts() {
    assert_eq!(legal("read-File_2"), "read-File_2");
    assert_eq!(legal("functions.read"), "functions_read");
    assert_eq!(legal("query_dataset<|channel|>commentary"), "query_dataset");
    assert_eq!(legal("print(default_api.x(id=3))"), "print_default_api_x_id_3__");
    assert_eq!(legal(""), "unnamed");
    assert_eq!(legal(&"é".repeat(100)).len(), 64);
}
