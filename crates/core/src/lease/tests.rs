use std::time::Duration;

use dauntless_contract::Timestamp;

use super::LeaseClock;

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

#[test]
fn dur_15_nothing_begins_after_the_last_success_plus_ttl_minus_margin() {
    let mut lease = LeaseClock::new(Duration::from_secs(15), at(0));
    assert_eq!((lease.renew_at(), lease.stops_at()), (at(5), at(12)));
    lease.renewed(at(5));
    assert!(lease.may_begin(at(16)));
    // From here on every renewal fails, hangs or times out: none of them is a success.
    assert!(!lease.may_begin(at(17)), "5 s + 15 s - 3 s");
    assert!(!lease.may_begin(at(1000)));
}

#[test]
fn dur_15_a_late_answer_counts_from_its_sending() {
    let mut lease = LeaseClock::new(Duration::from_secs(15), at(0));
    lease.renewed(at(5));
    lease.renewed(at(2));
    assert_eq!(lease.stops_at(), at(17), "an older answer takes nothing away");
}
