use super::*;

#[test]
fn three_hundred_trees_keep_every_rule() {
    let totals = grow_all(0..300, 2).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(totals.seeds, 300);
    assert!(totals.runs > 1000 && totals.events > 5000, "{totals:?}");
}

#[test]
fn survey() {
    let mut counts = std::collections::BTreeMap::new();
    let mut totals = TreeTotals::default();
    let from: u64 = std::env::var("FROM").ok().and_then(|x| x.parse().ok()).unwrap_or(0);
    let n: u64 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(1000);
    let start = std::time::Instant::now();
    for seed in from..from + n {
        match grow(seed) {
            Ok(t) => {
                totals.seeds += 1;
                totals.runs += t.runs;
                totals.events += t.events;
            }
            Err(found) => {
                for v in &found.violations {
                    let e = counts.entry(v.rule).or_insert((0, Vec::new()));
                    e.0 += 1;
                    if e.1.len() < 3 {
                        e.1.push((seed, v.to_string()));
                    }
                }
            }
        }
    }
    println!("{totals:?} {:?}", start.elapsed());
    for (rule, (n, list)) in counts {
        println!("{rule}: {n}");
        for l in list {
            println!("    {l:?}");
        }
    }
}
