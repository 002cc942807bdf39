use std::collections::BTreeSet;

use super::*;

#[test]
fn every_place_and_try_has_an_id_of_its_own_and_the_same_each_time() {
    let parent = RunId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
    let mut ids = BTreeSet::new();
    for turn in 1..60 {
        for index in 0..20 {
            for attempt in 1..4 {
                ids.insert(child_run(parent, &format!("{turn}.{index}"), attempt));
            }
        }
    }
    assert_eq!(ids.len(), 59 * 20 * 3);
    let child = child_run(parent, "1.0", 1);
    assert_eq!(child, child_run(parent, "1.0", 1));
    assert_ne!(child, child_run(RunId::from_u128(2), "1.0", 1));
    let text = child.to_string();
    assert!(text.starts_with("01900000-0000-8"), "the parent's time, version 8: {text}");
    assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
}

#[test]
fn goals_are_the_same_whatever_their_case_space_and_order_of_keys() {
    assert_eq!(digest("Find  the order."), digest(" find the\norder"));
    assert_eq!(digest(r#"{"a":1,"b":[2]}"#), digest(r#"{ "b": [2], "a": 1 }"#));
    assert_ne!(digest("Find order 7"), digest("Find order 8"));
}

#[test]
fn an_input_of_nothing_but_a_goal_is_that_goal() {
    let goal = |text| goal_of(&Json::parse(text).unwrap());
    assert_eq!(&*goal(r#"{"goal":"Find it."}"#), "Find it.");
    assert_eq!(&*goal(r#"{"goal":"Find it.","limit":3}"#), r#"{"goal":"Find it.","limit":3}"#);
}

#[test]
fn the_same_goal_back_at_an_agent_that_waits_for_it_is_a_circle_with_its_chain() {
    let root = Kin::new(RunId::from_u128(1), &"a".into(), "Do it.", None);
    let child = Kin::new(RunId::from_u128(2), &"b".into(), "do it", Some(root.of_child()));
    assert_eq!(root.circle("a", "DO IT").unwrap(), "`a` → `a`");
    assert_eq!(child.circle("a", "Do it!").unwrap(), "`a` → `b` → `a`");
    assert_eq!(child.circle("a", "Do the half of it."), None, "a smaller goal is no circle");
    assert_eq!(child.circle("c", "Do it."), None, "the goal may be passed on");
    let lineage = child.of_child();
    assert_eq!(
        (lineage.root, lineage.parent, lineage.depth()),
        (RunId::from_u128(1), RunId::from_u128(2), 3)
    );
}
