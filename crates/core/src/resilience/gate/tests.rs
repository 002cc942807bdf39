use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

#[test]
fn rt_11_callers_are_released_one_by_one_after_the_gate_opens() {
    let mut gate = Gate::new(1);
    gate.shut(at(0), Duration::from_secs(5));
    assert_eq!(gate.shut_until(at(4_999)), Some(at(5_000)));
    assert_eq!(gate.shut_until(at(5_000)), None);
    let mut released: Vec<Timestamp> = (0..50).map(|_| gate.release_at()).collect();
    assert!(released.iter().all(|t| (at(5_000)..=at(5_500)).contains(t)));
    released.sort();
    released.dedup();
    assert!(released.len() > 45, "50 callers, {} moments", released.len());
}

#[test]
fn a_shorter_wait_does_not_open_it_early() {
    let mut gate = Gate::new(1);
    gate.shut(at(0), Duration::from_secs(30));
    gate.shut(at(0), Duration::from_secs(1));
    assert_eq!(gate.shut_until(at(0)), Some(at(30_000)));
}

#[test]
fn rt_09_it_is_never_shut_for_more_than_an_hour() {
    let mut gate = Gate::new(1);
    gate.shut(at(0), Duration::MAX);
    assert_eq!(gate.shut_until(at(0)), Some(at(3_600_000)));
}
