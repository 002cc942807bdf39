use super::*;

#[test]
fn clones_move_together_and_never_back() {
    let clock = ManualClock::at(Timestamp::from_micros(5_000_000));
    let other = clock.clone();
    other.advance(Duration::from_secs(1));
    assert_eq!(clock.now(), Timestamp::from_micros(6_000_000));
    clock.set(Timestamp::from_micros(2));
    assert_eq!(other.now(), Timestamp::from_micros(6_000_000));
    clock.set(Timestamp::from_micros(9_000_000));
    assert_eq!(other.now(), Timestamp::from_micros(9_000_000));
}

#[test]
fn the_end_of_time_holds() {
    let clock = ManualClock::at(Timestamp::MAX);
    clock.advance(Duration::from_secs(1));
    assert_eq!(clock.now(), Timestamp::MAX);
}
