use expect_test::expect;

use super::*;

fn run(n: u128) -> RunId {
    RunId::from_u128(n)
}

fn siblings() -> Siblings {
    let started = [
        (1, "writer", true),
        (2, "reader", true),
        (3, "writer", false),
        (4, "writer", true),
        (5, "clerk", false),
    ];
    Siblings::in_order(started.map(|(n, agent, is_under_way)| (run(n), agent.into(), is_under_way)))
}

#[test]
fn a_sibling_goes_by_its_agent_and_by_a_number_where_there_are_several() {
    let siblings = siblings();
    let name = |n| siblings.name(run(n)).map(|name| name.to_string());
    let names: Vec<_> = (1..=5).filter_map(name).collect();
    assert_eq!(names, ["writer#1", "reader", "writer#2", "writer#3", "clerk"]);
    assert_eq!(siblings.name(run(6)), None);
    let found = [
        (1, "reader", 2),
        (1, "reader#1", 2),
        (1, "writer", 4),
        (2, "writer#1", 1),
        (2, "writer#3", 4),
        (1, "clerk", 5),
        (2, "writer#2", 3),
    ];
    for (me, to, found) in found {
        assert_eq!(siblings.find(run(me), to), Ok(run(found)), "{me} to {to}");
    }
}

#[test]
fn who_cannot_be_meant_is_told_with_those_who_can() {
    let siblings = siblings();
    let told = |(me, to)| {
        let failure = siblings.find(run(me), to).unwrap_err();
        format!("{} {} {}", failure.code.as_str(), failure.message, failure.hint.unwrap())
    };
    let all = [(2, "writer"), (2, "reader"), (2, "boss")].map(told);
    expect![[r#"
        ambiguous There are several of "writer": `writer#1`, `writer#3`. Write to one of them, by its number.
        not_found "reader" is yourself, and nobody else. You can write to `writer#1`, `writer#3`, `parent`, or go on without it.
        not_found There is no "boss" to write to. You can write to `writer#1`, `writer#3`, `parent`, or go on without it."#]]
    .assert_eq(&all.join("\n"));
}
