use proptest::prelude::*;

use super::*;

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    let mut window = Window::new(Duration::from_secs(60));
    let at = |s| Timestamp::ZERO + Duration::from_secs(s);
    window.add_failure(at(0));
    window.add_success(at(59));
    assert_eq!(window.totals(), (2, 1));
    window.add_success(at(60));
    assert_eq!(window.totals(), (2, 0));
    window.add_success(at(10_000));
    assert_eq!(window.totals(), (1, 0));
}

proptest! {
    #[test]
    fn it_counts_what_a_list_would_count(
        adds in proptest::collection::vec((0_u64..30_000, any::<bool>()), 1..200),
    ) {
        let mut window = Window::new(Duration::from_secs(60));
        let mut list: Vec<(u64, bool)> = Vec::new();
        let mut now_ms = 0;
        for (pause_ms, failed) in adds {
            now_ms += pause_ms / 10;
            let now = Timestamp::ZERO + Duration::from_millis(now_ms);
            if failed { window.add_failure(now) } else { window.add_success(now) }
            list.push((now_ms / 6_000, failed));
            list.retain(|(bucket, _)| bucket + 10 > now_ms / 6_000);
            let failures = list.iter().filter(|(_, failed)| *failed).count();
            let (calls, failed) = window.totals();
            prop_assert_eq!((calls as usize, failed as usize), (list.len(), failures));
        }
    }
}
