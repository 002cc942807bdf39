use super::*;
use crate::resilience::Rng;

/// Feeds so many answers, `failing` of each ten a failure, and gives what was told.
fn feed(watch: &mut SpikeWatch, tens: u32, failing: u32) -> Vec<ErrorSpike> {
    (0..tens).flat_map(|_| 0..10).filter_map(|n| watch.answered(n < failing)).collect()
}

#[test]
fn a_rise_is_told_once_and_shown_until_it_is_over() {
    let mut watch = SpikeWatch::default();
    assert_eq!(feed(&mut watch, 100, 0), []);
    assert_eq!(watch.current(), None);
    let told = feed(&mut watch, 10, 8);
    assert_eq!(told, [ErrorSpike { failures: 13, answers: 64, usual_milli: 0 }]);
    assert!(watch.current().is_some_and(|now| now.failures > 40));
    assert_eq!(feed(&mut watch, 10, 0), [], "its end is no news");
    assert_eq!(watch.current(), None);
    assert_eq!(feed(&mut watch, 10, 8).len(), 1, "the next rise is told again");
}

#[test]
fn a_rate_that_wavers_about_the_threshold_is_told_once() {
    let mut watch = SpikeWatch::default();
    feed(&mut watch, 100, 0);
    let told: usize = (0..20).map(|n| feed(&mut watch, 1, 2 + n % 2).len()).sum();
    assert_eq!(told, 1);
}

#[test]
fn a_constant_rate_is_no_rise_however_high() {
    for failing in 0..=10 {
        let mut watch = SpikeWatch::default();
        assert_eq!(feed(&mut watch, 200, failing), [], "{failing} of ten");
    }
}

#[test]
fn chance_is_no_rise() {
    for (seed, percent) in (0..40).map(|n| (n, 5 + n % 10 * 10)) {
        let (mut watch, mut rng) = (SpikeWatch::default(), Rng::new(seed));
        let told = (0..2000).filter_map(|_| watch.answered(rng.draw() % 100 < percent)).count();
        assert_eq!(told, 0, "seed {seed}, {percent} of a hundred");
    }
}

#[test]
fn few_answers_tell_nothing() {
    let mut watch = SpikeWatch::default();
    feed(&mut watch, 6, 0);
    let told = (0..67).filter_map(|_| watch.answered(true)).count();
    assert_eq!((told, watch.current()), (0, None), "127 answers in all");
}

#[test]
fn what_goes_on_long_enough_is_the_new_usual() {
    let mut watch = SpikeWatch::default();
    feed(&mut watch, 20, 0);
    assert_eq!(feed(&mut watch, 20, 5).len(), 1);
    assert_eq!(feed(&mut watch, 200, 5), []);
    assert_eq!(watch.current(), None);
}
