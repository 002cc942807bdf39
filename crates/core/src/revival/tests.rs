use super::*;

fn at(s: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(s)
}

#[test]
fn the_cool_down_doubles_to_its_cap_while_the_tool_does_not_last() {
    let mut revival = Revival::new(&RevivalPolicy::default(), at(0));
    let mut now = 0;
    let lengths: Vec<u64> = (0..6)
        .map(|_| {
            let length = revival.on_down(at(now)).as_secs();
            now += length;
            revival.on_up(at(now));
            now += 599;
            length
        })
        .collect();
    assert_eq!(lengths, [60, 120, 240, 480, 600, 600]);
}

#[test]
fn a_tool_that_lasted_starts_small_again() {
    let mut revival = Revival::new(&RevivalPolicy::default(), at(0));
    let _ = revival.on_down(at(1));
    revival.on_up(at(61));
    assert_eq!(revival.on_down(at(62)).as_secs(), 120);
    revival.on_up(at(182));
    assert_eq!(revival.on_down(at(782)).as_secs(), 60);
}
