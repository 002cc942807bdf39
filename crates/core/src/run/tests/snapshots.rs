//! A run that goes on from a snapshot is the run that goes on from its first event.

use super::*;

pub(super) fn snapshot(machine: &RunMachine, seq: Seq) -> Snapshot {
    Snapshot { seq, fold_version: FOLD_VERSION, body: machine.snapshot().into() }
}

/// The machine that a snapshot makes for the run and the agent of this one.
pub(super) fn restored(machine: &RunMachine, snapshot: &Snapshot) -> Result<RunMachine, RestoreError> {
    RunMachine::restore(machine.run(), Arc::clone(&machine.spec), snapshot)
}

/// The tools of the runs in the file: no further one, for that would change what is in it.
const TOOLS: [&str; 8] = ["archive", "find", "memory", "news", "pay", "price", "stock", "transfer"];

static FEW: LazyLock<Toolbox> = LazyLock::new(|| {
    let find = spec("find", |find| find.output_bytes_max = 500);
    let others = tools().into_iter().filter(|tool| TOOLS.contains(&&*tool.name) && tool.name != find.name);
    toolbox(&AGENT, others.chain([Arc::clone(&find)]).collect()).0
});

fn scene(limits: RunLimits, context_window: Option<Tokens>) -> Scene {
    Scene::changed(limits, PanicPolicy::Observe, |spec| {
        spec.toolbox = FEW.clone();
        Arc::make_mut(&mut spec.model).context_window = context_window;
    })
}

/// A run with something in every part of its state, and calls in every state.
fn rich() -> Scene {
    let mut scene = scene(RunLimits::default(), Some(Tokens(3000)));
    let usage = Some(Usage::new(Tokens(900), Tokens(40)));
    let calls = asking(&[("find", "{}"), ("pay", "{}"), ("find", r#"{"q":7}"#)]);
    scene.reply(ModelReply { usage, ..calls });
    scene.ends(0, Ok(&"a long text ".repeat(60))).ends(1, Err(Failure::outcome_unknown("Perhaps.")));
    scene.reply(ModelReply { finish: Finish::Length, ..ModelReply::text("Half") });
    for failure in [Failure::invalid_arguments("No.").rejects_tool("memory"), Failure::too_large("Too long.")]
    {
        scene.on(RunEvent::ModelFailed { turn: scene.turn, model: 0, failure, attempts: 1 });
    }
    scene.out_for = Some(Duration::from_secs(20));
    let tea = r#"{"q":"tea"}"#;
    scene.asks(&[("news", "{}"), ("stock", "{}"), ("price", tea), ("transfer", "{}"), ("nope", "{}")]);
    scene.ends(0, Err(Failure::unavailable("Down."))).ends(1, Err(Failure::unavailable("Down.")));
    scene.ends(2, Err(Failure::tool_down("Out."))).on(RunEvent::Interrupted {});
    let calls = vec![CallKey { turn: scene.turn, index: 3 }];
    scene.on(RunEvent::Suspended { calls, model: false });
    scene
}

fn summarising() -> Scene {
    let mut scene = scene(RunLimits::default(), Some(Tokens(1500)));
    let long = "so it is ".repeat(60);
    for n in 0.. {
        if scene.summary.is_some() {
            break;
        }
        let arguments = json!({ "q": format!("{n} {long}") }).to_string();
        scene.asks(&[("find", &arguments)]).ends(0, Ok(&n.to_string()));
    }
    scene
}

/// A run for each phase.
fn phases() -> Vec<(&'static str, Scene)> {
    let mut last_words = scene(RunLimits { turns: 1, ..RunLimits::default() }, None);
    last_words.asks(&[("find", "{}")]).ends(0, Ok("half"));
    let mut settling = scene(RunLimits::default(), None);
    settling.asks(&[("pay", "{}"), ("news", "{}"), ("find", "{}")]).ends(1, Err(Failure::gone("Closed.")));
    let mut ended = scene(RunLimits::default(), None);
    ended.says("Done.");
    let summarising = summarising();
    vec![
        ("calling", rich()),
        ("summarising", summarising),
        ("asking", last_words),
        ("settling", settling),
        ("ended", ended),
    ]
}

/// One line of the file of snapshots, apart from the digest of the agent, which changes with every
/// field that a declaration gets.
fn line(name: &str, scene: &Scene) -> String {
    let state = String::from_utf8(scene.machine.snapshot()).unwrap();
    let state = state.replace(&agent(scene), r#""agent":0"#);
    format!(r#"{{"fold_version":{FOLD_VERSION},"name":"{name}","state":{state}}}"#)
}

fn agent(scene: &Scene) -> String {
    let digest = serde_json::to_string(&snapshot::declared(&scene.machine.spec)).unwrap();
    format!(r#""agent":{digest}"#)
}

/// The file stands for the snapshots of programs that were built before this one.
#[test]
fn a_change_of_the_fold_or_of_its_state_counts_the_version_up() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/run/tests/snapshots.jsonl");
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    let is_of_this_version = stored.starts_with(&format!(r#"{{"fold_version":{FOLD_VERSION},"#));
    if !is_of_this_version && std::env::var_os("UPDATE_EXPECT").is_some() {
        let lines: Vec<String> = phases().iter().map(|(name, scene)| line(name, scene) + "\n").collect();
        return std::fs::write(path, lines.concat()).unwrap();
    }
    assert!(is_of_this_version, "write the snapshots of the new version with UPDATE_EXPECT=1");
    assert_eq!(stored.lines().count(), phases().len());
    for (line, (name, scene)) in stored.lines().zip(phases()) {
        let start = format!(r#"{{"fold_version":{FOLD_VERSION},"name":"{name}","state":"#);
        let state = line.strip_prefix(&start).and_then(|rest| rest.strip_suffix('}')).unwrap();
        let body = state.replacen(r#""agent":0"#, &agent(&scene), 1).into_bytes().into();
        let old = Snapshot { seq: 1, fold_version: FOLD_VERSION, body };
        let same = restored(&scene.machine, &old).map(|machine| machine == scene.machine);
        assert_eq!(
            same,
            Ok(true),
            "`{name}` is folded or written otherwise than by version {FOLD_VERSION}: count FOLD_VERSION up"
        );
    }
}

#[test]
fn no_text_of_the_conversation_is_in_a_snapshot_twice() {
    for (name, scene) in phases() {
        let state = String::from_utf8(scene.machine.snapshot()).unwrap();
        assert_eq!(state.matches("Do it.").count(), 1, "{name}");
    }
}

#[test]
fn a_snapshot_of_another_fold_agent_or_run_is_left_aside_and_the_run_is_the_same() {
    let scene = rich();
    let machine = &scene.machine;
    let good = snapshot(machine, u64::try_from(scene.events.len()).unwrap());
    assert_eq!(restored(machine, &good).as_ref(), Ok(machine));
    let newer = Snapshot { fold_version: FOLD_VERSION + 1, ..good.clone() };
    assert_eq!(restored(machine, &newer), Err(RestoreError::OtherVersion(FOLD_VERSION + 1)));
    let cut = Snapshot { body: good.body[..good.body.len() / 2].into(), ..good.clone() };
    assert!(matches!(restored(machine, &cut), Err(RestoreError::Malformed(_))));
    let spec = Arc::clone(&machine.spec);
    let other_run = RunMachine::restore(RunId::from_u128(2), Arc::clone(&spec), &good);
    assert_eq!(other_run, Err(RestoreError::OtherAgent));
    let agent = AgentSpec { instructions: "Be better.".into(), ..spec.agent.clone() };
    let changed = Arc::new(RunSpec { agent, ..(*spec).clone() });
    assert_eq!(
        RunMachine::restore(machine.run(), Arc::clone(&changed), &good),
        Err(RestoreError::OtherAgent)
    );
    for (spec, snapshot) in [(&spec, &newer), (&spec, &cut), (&changed, &good)] {
        let mut recovery = Recovery::begin(machine.run(), Arc::clone(spec), Some(snapshot));
        assert_eq!(recovery.seq(), 0);
        for (at, event) in &scene.events {
            recovery.fold(Recorded { at: *at, event: event.clone() }).unwrap();
        }
        assert_eq!(recovery.finish().unwrap().totals(), machine.totals());
    }
}

#[test]
fn an_empty_snapshot_is_none() {
    let scene = Scene::new();
    let empty = Snapshot { seq: 1, fold_version: FOLD_VERSION, body: Arc::from([]) };
    assert!(matches!(restored(&scene.machine, &empty), Err(RestoreError::Malformed(_))));
}
