//! Runs both contenders in turn and prints medians of their ratios.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::contender::{Plan, SCENARIOS, contenders};
use crate::measure::Figures;

/// Runs every scenario, or the one named, so many times.
pub(crate) fn run_all(rounds: usize, only: Option<&str>) -> Result<(), String> {
    if let Some(only) = only.filter(|only| !SCENARIOS.contains(only)) {
        return Err(format!("no scenario `{only}`; there are {}", SCENARIOS.join(", ")));
    }
    let (provider, url) = start_provider()?;
    let _provider = Stopped(provider);
    println!("medians of {rounds} rounds, contenders in turn; each in a process of its own");
    println!("{:<11} {:<34} {:>12} {:>12} {:>8}", "scenario", "figure", "by hand", "dauntless", "ratio");
    for scenario in SCENARIOS.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        let plan = Plan::of(scenario)?;
        let mut pairs = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let [floor, ours] = contenders(scenario);
            pairs.push((measured(scenario, floor, &url, "")?, measured(scenario, ours, &url, "")?));
        }
        report(scenario, plan, &pairs);
    }
    Ok(())
}

/// Two contenders of ours, and how much more processor time the second may take.
pub(crate) struct Pair<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) without: &'a str,
    pub(crate) with: &'a str,
    /// Where the second has its journal.
    pub(crate) place: &'a str,
    pub(crate) ratio_max: f64,
}

/// Runs two contenders in turn and prints the median of their ratios.
///
/// # Errors
/// The second takes more than it may.
pub(crate) fn compare(rounds: usize, pair: &Pair<'_>) -> Result<(), String> {
    let &Pair { scenario, without, with, place, ratio_max } = pair;
    let (provider, url) = start_provider()?;
    let _provider = Stopped(provider);
    let mut pairs = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        pairs.push((measured(scenario, without, &url, "")?, measured(scenario, with, &url, place)?));
    }
    let seconds = |figures: &Figures| figures.cpu.as_secs_f64();
    let before = median(pairs.iter().map(|(before, _)| seconds(before)));
    let after = median(pairs.iter().map(|(_, after)| seconds(after)));
    let ratio = median(pairs.iter().map(|(before, after)| seconds(after) / seconds(before)));
    println!(
        "{scenario:<8} {with:<9} processor time {before:>7.3} s without, {after:>7.3} s with: {ratio:.2} times \
         (at most {ratio_max}), median of {rounds} rounds"
    );
    match ratio <= ratio_max {
        true => Ok(()),
        false => Err(format!("`{scenario}` with {with} takes {ratio:.2} times the processor time")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn report(scenario: &str, plan: Plan, pairs: &[(Figures, Figures)]) {
    let line = |figure: &str, of: &dyn Fn(&Figures) -> f64, unit: &str| {
        let floor = median(pairs.iter().map(|(floor, _)| of(floor)));
        let ours = median(pairs.iter().map(|(_, ours)| of(ours)));
        let ratio = median(pairs.iter().map(|(floor, ours)| of(ours) / of(floor).max(f64::MIN_POSITIVE)));
        println!("{scenario:<11} {figure:<34} {floor:>9.3} {unit:<2} {ours:>9.3} {unit:<2} {ratio:>7.2}");
    };
    let ms = |figures: &Figures| figures.wall.as_secs_f64() * 1e3;
    match scenario {
        "turns" => line("time per turn", &|figures| ms(figures) / (plan.turns + 1) as f64, "ms"),
        "fanout64" | "fanout1000" => {
            line("makespan over the sleep", &|figures| ms(figures) / plan.call_ms as f64, "×");
        }
        "concurrent" => {
            line("processor time, 1000 runs", &|figures| figures.cpu.as_secs_f64(), "s");
            line("runs per second", &|figures| plan.runs as f64 / figures.wall.as_secs_f64(), "/s");
        }
        // In place of the loop by hand: the same work in runs apart.
        "tree" => line("processor time, 1 + 100 runs", &|figures| figures.cpu.as_secs_f64() * 1e3, "ms"),
        _ => {
            line("memory per waiting run", &|figures| figures.bytes_per_run / 1024.0, "Ki");
            let over =
                median(pairs.iter().map(|(floor, ours)| (ours.bytes_per_run - floor.bytes_per_run) / 1024.0));
            println!("{scenario:<11} {:<34} {:>12} {over:>9.3} Ki", "over the loop by hand", "");
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn this_program() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|error| error.to_string())
}

fn measured(scenario: &str, contender: &str, url: &str, place: &str) -> Result<Figures, String> {
    let output = this_program()?
        .args(["one", scenario, contender, url, place])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{contender} failed in `{scenario}` with {}", output.status))
}

fn start_provider() -> Result<(Child, String), String> {
    let mut child = this_program()?
        .arg("provider")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut url = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut url).map_err(|error| error.to_string())?;
    }
    Ok((child, url.trim().to_owned()))
}

/// Ends the provider with the benchmark.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
