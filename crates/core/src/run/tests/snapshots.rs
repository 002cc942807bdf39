//! A run that goes on from a snapshot is the run that goes on from its first event.

use super::*;

pub(super) fn snapshot(machine: &RunMachine, seq: Seq) -> Snapshot {
    Snapshot { seq, fold_version: FOLD_VERSION, body: machine.snapshot().into() }
}

/// The machine that a snapshot makes for the run and the agent of this one.
pub(super) fn restored(machine: &RunMachine, snapshot: &Snapshot) -> Result<RunMachine, RestoreError> {
    RunMachine::restore(machine.run(), Arc::clone(&machine.spec), snapshot)
}

/// A run with something in every part of its state.
fn rich() -> Scene {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |spec| {
        Arc::make_mut(&mut spec.model).context_window = Some(Tokens(3000));
    });
    let usage = Usage::new(Tokens(900), Tokens(40));
    scene.reply(ModelReply {
        usage: Some(usage),
        ..asking(&[("find", "{}"), ("pay", "{}"), ("find", "{\"q\":7}")])
    });
    scene.ends(0, Ok(&"a long text ".repeat(3000))).ends(1, Err(Failure::outcome_unknown("Perhaps.")));
    scene.reply(ModelReply { finish: Finish::Length, ..ModelReply::text("Half") });
    scene.on(RunEvent::ModelFailed {
        turn: scene.turn,
        model: 0,
        failure: Failure::invalid_arguments("No.").rejects_tool("poll"),
        attempts: 1,
    });
    scene.on(RunEvent::ModelFailed {
        turn: scene.turn,
        model: 0,
        failure: Failure::too_large("Too long."),
        attempts: 1,
    });
    scene.out_for = Some(Duration::from_secs(20));
    scene.asks(&[
        ("news", "{}"),
        ("stock", "{}"),
        ("price", "{\"q\":\"tea\"}"),
        ("transfer", "{}"),
        ("nope", "{}"),
    ]);
    scene.ends(0, Err(Failure::unavailable("Down."))).ends(1, Err(Failure::unavailable("Down.")));
    scene.ends(2, Err(Failure::tool_down("Out."))).on(RunEvent::Interrupted {});
    let calls = vec![CallKey { turn: scene.turn, index: 3 }];
    scene.on(RunEvent::Suspended { calls, model: false });
    scene
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
