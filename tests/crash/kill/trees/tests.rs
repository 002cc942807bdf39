//! The shape of the trees.

use super::*;

#[test]
fn who_asks_for_a_run_is_known_from_its_number() {
    let above = |number| above(number).collect::<Vec<_>>();
    assert_eq!(above(111), [(110, 1), (100, 1)]);
    assert_eq!(above(120), [(100, 2)]);
    assert_eq!(above(103), [(100, 2)]);
    assert_eq!(above(202), [(200, 1)]);
    assert_eq!((above(100), above(0)), (vec![], vec![]));
}

#[test]
fn a_run_alone_asks_nobody() {
    let asks = |step: &Step| matches!(step, Step::Ask { .. });
    assert!((1..=9).all(|turn| !steps(7, 8, 0, turn).iter().any(asks)));
    assert_eq!(steps(7, 8, 0, 9), []);
}

#[test]
fn the_model_says_the_same_again() {
    assert_eq!(steps(7, 8, 101, 2), steps(7, 8, 101, 2));
    assert!(steps(7, 8, 101, 4).is_empty() && !steps(7, 8, 101, 3).is_empty());
}
