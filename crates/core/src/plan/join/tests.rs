use proptest::prelude::*;

use super::*;

const JOINS: [Join; 5] = [Join::All, Join::FirstSuccess, Join::Quorum(2), Join::Quorum(1), Join::BestEffort];

fn tally(open: u32, succeeded: u32, failed: u32) -> Tally {
    Tally { open, succeeded, failed }
}

#[test]
fn each_join_is_settled_as_soon_as_it_can_be() {
    let settled = |tally| JOINS.map(|join| join.settle(tally));
    use Joined::{Met, Missed, Open};
    assert_eq!(settled(tally(3, 0, 0)), [Open, Open, Open, Open, Open]);
    assert_eq!(settled(tally(2, 1, 0)), [Open, Met, Open, Met, Open]);
    assert_eq!(settled(tally(2, 0, 1)), [Missed, Open, Open, Open, Open]);
    assert_eq!(settled(tally(1, 0, 2)), [Missed, Open, Missed, Open, Open]);
    assert_eq!(settled(tally(0, 0, 3)), [Missed, Missed, Missed, Missed, Met]);
    assert_eq!(settled(tally(0, 3, 0)), [Met; 5]);
}

#[test]
fn a_join_that_can_never_be_met_says_so() {
    assert!(Join::Quorum(3).problem(2).unwrap().contains("can never be met by 2 branches"));
    assert!(Join::Quorum(0).problem(2).unwrap().contains("1 or more"));
    assert!(Join::All.problem(0).is_some());
    assert_eq!(Join::Quorum(2).problem(2), None);
}

proptest! {
    #[test]
    fn once_settled_a_join_stays_as_it_is_and_is_settled_when_nothing_is_open(
        join in prop::sample::select(&JOINS[..]),
        ends in prop::collection::vec(any::<bool>(), 2..8),
    ) {
        let mut tally = tally(u32::try_from(ends.len()).unwrap(), 0, 0);
        let mut before = Joined::Open;
        for succeeds in ends {
            tally.open -= 1;
            *(if succeeds { &mut tally.succeeded } else { &mut tally.failed }) += 1;
            let now = join.settle(tally);
            prop_assert!(before == Joined::Open || before == now);
            before = now;
        }
        prop_assert!(before != Joined::Open);
    }
}
