use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn at(s: u64) -> Timestamp {
    Timestamp::ZERO + secs(s)
}

fn restarts(intensity: u32, period: u64) -> Restarts {
    let policy = RestartPolicy { intensity, period: secs(period), ..RestartPolicy::default() };
    Restarts::new(policy, 1).unwrap()
}

fn is_restart(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Restart { .. })
}

#[test]
fn sup_01_one_failure_more_than_the_intensity_is_too_many() {
    let mut restarts = restarts(2, 60);
    assert!(is_restart(&restarts.on_failure(at(0), "first")));
    assert!(is_restart(&restarts.on_failure(at(1), "second")));
    let verdict = restarts.on_failure(at(2), "third");
    expect![[r#"
        GiveUp {
            count: 3,
            history: [
                Incident {
                    at: 0ns,
                    cause: "first",
                },
                Incident {
                    at: 1s,
                    cause: "second",
                },
                Incident {
                    at: 2s,
                    cause: "third",
                },
            ],
        }
    "#]]
    .assert_debug_eq(&verdict);
}

#[test]
fn sup_01_a_failure_exactly_one_period_old_still_counts() {
    let mut inside = restarts(1, 60);
    assert!(is_restart(&inside.on_failure(at(0), "")));
    assert!(!is_restart(&inside.on_failure(at(60), "")));

    let mut outside = restarts(1, 60);
    assert!(is_restart(&outside.on_failure(at(0), "")));
    assert!(is_restart(&outside.on_failure(at(60) + Duration::from_micros(1), "")));
}

#[test]
fn an_intensity_of_zero_grants_nothing() {
    assert!(!is_restart(&restarts(0, 60).on_failure(at(0), "")));
}

#[test]
fn sup_03_a_policy_whose_waits_fill_the_period_is_refused() {
    let build = |intensity, period| {
        Restarts::new(RestartPolicy { intensity, period, ..RestartPolicy::default() }, 1).map(drop)
    };
    // 0 + 100 + 200 + 400 + 800 ms
    assert!(build(5, Duration::from_millis(1501)).is_ok());
    assert!(build(5, Duration::from_millis(1500)).is_err());
    assert!(build(10, secs(60)).is_ok(), "the tools supervisor's own policy");
    let refused = build(u32::MAX, secs(60)).unwrap_err();
    expect!["4294967295 restarts can wait 81.1s or more in all, which is not less than the period of 60s, so a crash loop would never be noticed: use a longer period, fewer restarts or a lower backoff cap"]
        .assert_eq(&refused.to_string());
    assert!(build(1, Duration::ZERO).is_err());
}

#[test]
fn sup_16_the_first_restart_is_immediate_and_the_next_wait_longer_and_longer() {
    let mut restarts = restarts(10, 60);
    let bounds_ms = [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600];
    for bound_ms in bounds_ms {
        let Verdict::Restart { after } = restarts.on_failure(at(0), "") else { panic!("gave up") };
        assert!(after <= Duration::from_millis(bound_ms), "{after:?} > {bound_ms} ms");
    }
}

#[test]
fn sup_16_only_a_lasting_health_makes_the_next_restart_immediate() {
    let wait_after = |healthy_at: Option<u64>, fails_at: u64| {
        let mut restarts = restarts(5, 60);
        for s in 0..4 {
            let _ = restarts.on_failure(at(s), "");
        }
        if let Some(s) = healthy_at {
            restarts.on_healthy(at(s));
        }
        let Verdict::Restart { after } = restarts.on_failure(at(fails_at), "") else { panic!("gave up") };
        after
    };
    assert_eq!(wait_after(Some(10), 70), Duration::ZERO);
    assert_ne!(wait_after(Some(10), 69), Duration::ZERO);
    assert_ne!(wait_after(None, 10_000), Duration::ZERO, "not crashed yet is not healthy");
}

#[test]
fn sup_16_health_lasts_from_its_first_sign_after_the_last_failure() {
    let policy = RestartPolicy { intensity: 5, period: secs(10), ..RestartPolicy::default() };
    let mut restarts = Restarts::new(policy, 1).unwrap();
    let fail = |restarts: &mut Restarts, s| match restarts.on_failure(at(s), "") {
        Verdict::Restart { after } => after,
        Verdict::GiveUp { .. } => panic!("gave up"),
    };
    assert_eq!(fail(&mut restarts, 0), Duration::ZERO);
    restarts.on_healthy(at(10));
    assert_ne!(fail(&mut restarts, 40), Duration::ZERO, "a minute at least, however short the period");
    assert_ne!(fail(&mut restarts, 80), Duration::ZERO, "health before a failure does not count");
    restarts.on_healthy(at(100));
    restarts.on_healthy(at(150));
    assert_eq!(fail(&mut restarts, 160), Duration::ZERO);
}

#[test]
fn sup_21_the_history_names_the_last_twenty() {
    let policy =
        RestartPolicy { intensity: 50, period: secs(600), backoff_cap: secs(1), ..Default::default() };
    let mut restarts = Restarts::new(policy, 1).unwrap();
    for n in 0..50 {
        assert!(is_restart(&restarts.on_failure(at(n), n.to_string())));
    }
    let Verdict::GiveUp { count, history } = restarts.on_failure(at(50), "50") else { panic!("granted") };
    assert_eq!((count, history.len()), (51, 20));
    assert_eq!((&*history[0].cause, &*history[19].cause), ("31", "50"));
}

proptest! {
    #[test]
    fn it_gives_up_exactly_when_a_list_of_failures_says_so(
        intensity in 0_u32..6,
        pauses in proptest::collection::vec(0_u64..40, 1..60),
    ) {
        let mut restarts = restarts(intensity, 60);
        let (mut list, mut now): (Vec<u64>, u64) = (Vec::new(), 0);
        for pause in pauses {
            now += pause;
            list.push(now);
            let within = list.iter().filter(|&&s| now - s <= 60).count();
            let verdict = restarts.on_failure(at(now), "");
            prop_assert_eq!(is_restart(&verdict), within <= intensity as usize);
            if !is_restart(&verdict) { list.clear(); }
        }
    }
}
