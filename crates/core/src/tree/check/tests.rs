use std::time::Duration;

use dauntless_contract::{RunLimits, Tokens};
use expect_test::expect;

use super::*;
use crate::tree::Allowance;

fn linked(agents: &[(&str, Vec<Link>)]) -> BTreeMap<Arc<str>, Links> {
    agents.iter().map(|(name, links)| ((*name).into(), Links::new(links.clone()))).collect()
}

fn link(agent: &str) -> Link {
    Link::new(agent, RunLimits::default())
}

fn told(agents: &BTreeMap<Arc<str>, Links>) -> String {
    check(agents).iter().map(|problem| format!("{}: {}\n", problem.at, problem.problem)).collect()
}

#[test]
fn everything_that_is_wrong_with_links_is_told_at_once_by_name() {
    let with = |agent: &str, change: fn(&mut Link)| {
        let mut link = link(agent);
        change(&mut link);
        link
    };
    let mut agents = linked(&[
        ("a", vec![link("b"), link("writr")]),
        ("b", vec![link("c")]),
        ("c", vec![link("a")]),
        ("self", vec![link("self")]),
        (
            "writer",
            vec![
                with("reader", |link| link.policy.fallback = Some("nobody".into())),
                with("poor", |link| {
                    link.allowance = Allowance { tokens: Some(Tokens(0)), ..Allowance::default() };
                }),
                with("late", |link| {
                    link.allowance = Allowance { wall_clock: Some(Duration::ZERO), ..Allowance::default() };
                }),
            ],
        ),
        (
            "reader",
            vec![
                with("poor", |link| link.policy.fallback = Some("late".into())),
                with("late", |link| link.policy.fallback = Some("poor".into())),
            ],
        ),
        ("poor", vec![]),
        ("late", vec![]),
    ]);
    agents.get_mut("late").unwrap().join = Join::Quorum(0);
    expect![[r#"
        a: it links to "writr", and there is no such agent: did you mean `writer`?
        a: its links lead back to it (`a` → `b` → `c` → `a`), so that agents could ask each other for ever: take one of them out
        late: a quorum of 0 is met before anything is done: use 1 or more, or `best_effort`
        reader: the fallbacks lead round in a circle (`late` → `poor` → `late`): take one of them out
        reader: the fallbacks lead round in a circle (`poor` → `late` → `poor`): take one of them out
        self: its links lead back to it (`self` → `self`), so that agents could ask each other for ever: take one of them out
        writer: `late` is given no wall_clock, so it could never start: give it some, or leave `wall_clock` out
        writer: `poor` is given no tokens, so it could never start: give it some, or leave `tokens` out
        writer: `nobody`, the fallback of `reader`, is not linked: link it too, or take it out
    "#]]
    .assert_eq(&told(&agents));
}

#[test]
fn agents_that_share_an_agent_below_are_no_circle() {
    let agents = linked(&[
        ("a", vec![link("b"), link("c")]),
        ("b", vec![link("d")]),
        ("c", vec![link("d")]),
        ("d", vec![]),
    ]);
    assert_eq!(told(&agents), "");
}
