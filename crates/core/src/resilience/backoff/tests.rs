use super::*;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn default_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(250), 2.0, secs(20))
}

#[test]
fn rt_02_the_bound_doubles_up_to_its_cap_for_any_number() {
    let backoff = default_backoff();
    let ms: Vec<u128> = (1..=9).map(|n| backoff.bound(n).as_millis()).collect();
    assert_eq!(ms, [250, 500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
    assert_eq!(backoff.bound(u32::MAX), secs(20));
    assert_eq!(backoff.bound(0), backoff.bound(1));
}

#[test]
fn rt_02_a_wait_is_drawn_evenly_from_zero_to_the_bound() {
    let backoff = default_backoff();
    let mut rng = Rng::new(3);
    let mut quarters = [0_u32; 4];
    for _ in 0..4_000 {
        let wait = backoff.wait(2, &mut rng);
        assert!(wait <= Duration::from_millis(500));
        quarters[usize::try_from(wait.as_micros() / 125_001).unwrap()] += 1;
    }
    assert!(quarters.iter().all(|&n| (850..1150).contains(&n)), "not even: {quarters:?}");
}

#[test]
fn rt_08_the_servers_delay_is_a_floor_and_a_crowd_is_spread() {
    let backoff = default_backoff();
    let mut rng = Rng::new(5);
    let waits: Vec<Duration> = (0..1000).map(|_| backoff.wait_at_least(secs(30), 1, &mut rng)).collect();
    assert!(waits.iter().all(|w| (secs(30)..=secs(31)).contains(w)));
    let late = waits.iter().filter(|w| **w > secs(30) + Duration::from_millis(500)).count();
    assert!((400..600).contains(&late), "{late} of 1000 in the second half");
    assert!(backoff.wait_at_least(Duration::from_millis(100), 1, &mut rng) <= Duration::from_millis(260));
}

#[test]
fn odd_policies_are_bounded() {
    assert_eq!(Backoff::new(Duration::ZERO, 2.0, secs(1)).bound(9), Duration::ZERO);
    assert_eq!(Backoff::new(secs(9), 2.0, secs(1)).bound(1), secs(1));
    for factor in [0.1, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(Backoff::new(secs(1), factor, secs(9)).bound(7), secs(1));
    }
    assert_eq!(Backoff::new(secs(1), f64::INFINITY, secs(9)).bound(2), secs(9));
    let huge = Backoff::new(secs(1), 2.0, Duration::MAX);
    assert!(huge.bound(u32::MAX) >= secs(1 << 60));
    assert!(huge.wait(u32::MAX, &mut Rng::new(1)) <= Duration::from_micros(u64::MAX));
}
