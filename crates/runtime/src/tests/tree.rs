//! The upper part of the tree, when something in it breaks that never should.

use super::*;
use crate::supervisor::{Branch, Branches};

async fn lose(runtime: &Runtime, branch: fn(&Branches) -> &Branch) {
    let branch = branch(runtime.branches());
    let lost = branch.cell().unwrap();
    lost.kill();
    while branch.cell() == Some(lost.clone()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The branches after it follow.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_outlives_the_loss_of_a_branch_and_starts_what_was_on_it_anew() {
    let runtime = runtime(calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(FaultyTool::builder("find").attempts([]));
    let lost: [fn(&Branches) -> &Branch; 3] =
        [|branches| &branches.runs, |branches| &branches.models, |branches| &branches.tools];
    for branch in lost {
        let (outcome, events) = run_accounted(&runtime, &agent).await;
        assert_eq!((outcome.reason, ended_code(&events, "find")), (StopReason::Completed, None));
        lose(&runtime, branch).await;
    }
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert_eq!((outcome.reason, ended_code(&events, "find")), (StopReason::Completed, None));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_escalation_callback_harms_no_run() {
    let tool = reads("find", [Behaviour::Fail(Failure::unauthenticated("The key was refused."))]);
    let builder = Runtime::builder().model(calls_then_done(&["find"])).on_escalation(|_| panic!("boom"));
    let (runtime, agent) = (builder.build().await.unwrap(), Agent::new("a").tool(tool));
    let runs = runtime.branches().runs.cell();
    for _ in 0..10 {
        assert_eq!(runtime.run(&agent, "go").await.reason.name(), "tool_terminal");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(runtime.branches().runs.cell(), runs, "and takes no other run along");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_was_shut_down_leaves_no_task() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let runtime = runtime(calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(FaultyTool::builder("find").attempts([]));
    runtime.run(&agent, "go").await;
    runtime.shutdown(Duration::from_secs(1)).await;
    drop(runtime);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(tasks(), before);
}
