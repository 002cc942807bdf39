use super::*;

#[test]
fn a_seed_gives_one_sequence_and_any_place_in_it() {
    let mut first = Rng::new(7);
    let draws: Vec<u64> = (0..5).map(|_| first.draw()).collect();
    assert_eq!(Rng::at(7, 3).draw(), draws[3]);
    // The published first value of the generator for seed 0.
    assert_eq!(Rng::new(0).draw(), 0xE220_A839_7B1D_CDAF);
}

#[test]
fn a_drawn_length_stays_in_its_range_and_fills_it() {
    let mut rng = Rng::new(1);
    let longest = Duration::from_micros(3);
    let mut seen = [0_u32; 4];
    for _ in 0..4_000 {
        let us = rng.up_to(longest).as_micros();
        seen[usize::try_from(us).unwrap()] += 1;
    }
    assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "not even: {seen:?}");
    assert_eq!(rng.up_to(Duration::ZERO), Duration::ZERO);
    assert!(rng.up_to(Duration::MAX) <= Duration::from_micros(u64::MAX));
}
