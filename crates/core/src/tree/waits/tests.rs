use proptest::prelude::*;

use super::*;

fn run(n: u128) -> RunId {
    RunId::from_u128(n)
}

#[test]
fn the_wait_that_closes_a_circle_is_refused_with_the_circle() {
    let mut waits = Waits::default();
    assert_eq!(waits.begin(run(1), run(2)), Ok(()));
    assert_eq!(waits.begin(run(2), run(3)), Ok(()));
    let before = waits.clone();
    assert_eq!(waits.begin(run(3), run(1)), Err(vec![run(3), run(1), run(2), run(3)]));
    assert_eq!(waits.begin(run(3), run(3)), Err(vec![run(3), run(3)]));
    assert_eq!(waits, before, "the others go on");
    waits.end(run(1));
    assert_eq!(waits.begin(run(3), run(1)), Ok(()));
}

proptest! {
    #[test]
    fn from_nobody_do_the_waits_lead_back(
        steps in prop::collection::vec((0..6u128, 0..6u128, prop::bool::weighted(0.2)), 1..100),
    ) {
        let mut waits = Waits::default();
        for (from, to, ends) in steps {
            if ends {
                waits.end(run(from));
            } else {
                let _ = waits.begin(run(from), run(to));
            }
            for start in 0..6 {
                let mut at = run(start);
                let mut length = 0;
                while let Some(next) = waits.0.get(&at) {
                    prop_assert!(*next != run(start) && length < 6);
                    (at, length) = (*next, length + 1);
                }
            }
        }
    }
}
