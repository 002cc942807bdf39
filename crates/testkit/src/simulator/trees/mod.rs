//! Grows trees of runs in worlds of up to 50 agents, and holds each step against the rules.
//!
//! The machines of `core` decide; around them is a shell that ends processes between any two steps,
//! loses what they had begun, lets runs answer late or never, and starts them again from their
//! journals. Links, plans, limits and goals are drawn as well. No runtime is under test here and no
//! time passes, so a tree costs a millisecond.

mod books;
mod mind;
mod process;
mod rules;
mod shell;
mod signals;
mod world;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

use books::Books;
use shell::Tree;
use signals::Post;
use world::World;

use super::Violation;

#[cfg(test)]
mod tests;

/// Lines of a story that a report shows.
const SHOWN_MAX: usize = 300;

/// What many trees came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeTotals {
    /// Trees.
    pub seeds: u64,
    /// Runs in them.
    pub runs: u64,
    /// Events that those took.
    pub events: u64,
}

/// A seed whose tree breaks a rule.
#[derive(Clone, Debug)]
pub struct BrokenTree {
    /// The seed; growing it again gives this again.
    pub seed: u64,
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// What happened, line by line.
    pub story: Vec<String>,
}

/// Grows the tree of one seed to its end.
///
/// # Errors
/// [`BrokenTree`], when it breaks a rule.
pub fn grow(seed: u64) -> Result<TreeTotals, Box<BrokenTree>> {
    grow_with(seed, Post::HONEST)
}

/// The story of the tree of one seed, line by line, with the rules that it breaks.
pub fn story(seed: u64) -> Vec<String> {
    let mut tree = tree(seed, Post::HONEST, Some(Vec::new()));
    tree.live();
    tree.books.story.unwrap_or_default()
}

/// Grows many trees, spread over `threads`, and stops at the first that breaks a rule.
///
/// # Errors
/// [`BrokenTree`], of the smallest seed that was found before all threads stopped.
pub fn grow_all(seeds: Range<u64>, threads: usize) -> Result<TreeTotals, Box<BrokenTree>> {
    let work = Mutex::new((seeds, TreeTotals::default(), None::<Box<BrokenTree>>));
    let lock = || work.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let next = {
                        let mut work = lock();
                        if work.2.is_some() { None } else { work.0.next() }
                    };
                    let Some(seed) = next else { return };
                    let result = grow(seed);
                    let mut work = lock();
                    match result {
                        Ok(totals) => {
                            work.1.seeds += totals.seeds;
                            work.1.runs += totals.runs;
                            work.1.events += totals.events;
                        }
                        Err(found) if work.2.as_ref().is_none_or(|known| found.seed < known.seed) => {
                            work.2 = Some(found);
                        }
                        Err(_) => {}
                    }
                }
            });
        }
    });
    let (_, totals, found) = work.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.map_or(Ok(totals), Err)
}

fn tree(seed: u64, post: Post, story: Option<Vec<String>>) -> Tree {
    Tree::new(seed, World::draw(seed), post, Books::telling(story))
}

fn grow_with(seed: u64, post: Post) -> Result<TreeTotals, Box<BrokenTree>> {
    let mut grown = tree(seed, post, None);
    grown.live();
    if grown.books.found.is_empty() {
        return Ok(TreeTotals { seeds: 1, runs: grown.runs(), events: grown.events });
    }
    // Nobody reads the story of a tree that keeps the rules, so it is told the second time.
    let mut again = tree(seed, post, Some(Vec::new()));
    again.live();
    let Books { found, story, .. } = again.books;
    Err(Box::new(BrokenTree { seed, violations: found, story: story.unwrap_or_default() }))
}

impl fmt::Display for BrokenTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violations, story } = self;
        writeln!(f, "the tree of seed {seed} breaks a rule {} times", violations.len())?;
        violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))?;
        let skipped = story.len().saturating_sub(SHOWN_MAX);
        writeln!(f, "what happened, without the first {skipped} lines:")?;
        story.iter().skip(skipped).try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "replay it: cargo xtask simulate --only trees --from {seed} --seeds 1 --verbose")
    }
}
