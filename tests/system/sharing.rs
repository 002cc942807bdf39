//! What the runs of a tree share outlives the worker that drives them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{Claim, ClaimFilter, Journal, RunEvent, RunId, SharedJournal, When, WorkerInfo};
use dauntless_journal::Sqlite;
use dauntless_testkit::{Behaviour, FaultyTool};
use serde_json::json;

const A_MOMENT: Duration = Duration::from_millis(2);

/// A file of its own that goes away with the test.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn worker(file: &File, name: &str) -> (Arc<Sqlite>, Runtime) {
    let handle = Arc::new(Sqlite::open(file.0.join("journal.db")).unwrap());
    let info = WorkerInfo { name: name.into(), host: "here".into(), ttl: Duration::from_secs(60) };
    handle.register(info).await.unwrap();
    let journal: Arc<dyn SharedJournal> = Arc::clone(&handle) as _;
    (handle, Runtime::builder().shared_journal(journal).build().await.unwrap())
}

async fn claim(handle: &Sqlite, run: RunId) -> Claim {
    loop {
        let filter = ClaimFilter { only: Some(run), ..ClaimFilter::default() };
        if let Some(claim) = handle.claim(1, filter).await.unwrap().pop() {
            return claim;
        }
        tokio::time::sleep(A_MOMENT).await;
    }
}

async fn messages(handle: &Sqlite, run: RunId) -> usize {
    let events = handle.read(run, 0, 1000).await.unwrap();
    events.iter().filter(|recorded| matches!(recorded.event, RunEvent::MessageReceived { .. })).count()
}

fn sharing(name: &str, turns: impl IntoIterator<Item = Turn>) -> Agent {
    Agent::new(name).model(Scripted::new(turns)).notes(true).messages(true)
}

#[tokio::test]
async fn notes_and_messages_go_on_with_the_tree_when_another_worker_drives_it() {
    let folder = std::env::temp_dir().join(format!("dauntless-sharing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = File(folder);
    let (first_handle, first) = worker(&file, "first").await;
    let (second_handle, second) = worker(&file, "second").await;

    let rest = FaultyTool::builder("rest")
        .effect(Effect::ReadOnly)
        .attempts([Behaviour::Hang, Behaviour::ok("rested").after(Duration::from_millis(20))]);
    let writer = sharing("writer", [Turn::new().call("rest", json!({})), Turn::new().text("written")]);
    let writer = writer.tool(rest.clone());
    let reader = sharing(
        "reader",
        [
            Turn::new()
                .call("notes_write", json!({ "name": "plan", "version": 0, "text": "Three sources." }))
                .call("send_message", json!({ "to": "writer", "text": "Look at the plan." })),
            Turn::new().text("read"),
        ],
    );
    let boss = sharing(
        "boss",
        [
            Turn::new()
                .call("writer", json!({ "goal": "Write." }))
                .call("reader", json!({ "goal": "Read." })),
            Turn::new().call("notes_read", json!({ "name": "plan" })),
            Turn::new().when(When::observed().contains("Three sources.")).text("all is there"),
            Turn::new().text("the note is gone"),
        ],
    );
    let boss = boss.delegate(&writer).delegate(&reader);

    let handle = first.submit(&boss, "Report.").await.unwrap();
    let root = handle.id();
    let writing = loop {
        let children = first_handle.children(root).await.unwrap();
        if let Some(child) = children.iter().find(|child| &*child.agent == "writer")
            && messages(&first_handle, child.run).await == 1
        {
            break child.run;
        }
        tokio::time::sleep(A_MOMENT).await;
    };
    handle.reins().hand_over(true);
    assert_eq!(format!("{:?}", handle.parting().await), "HandedOver");
    drop((first, first_handle));

    let claimed = claim(&second_handle, root).await;
    let outcome = second.drive(&boss, &claimed).await.unwrap().outcome().await;
    assert_eq!((outcome.answer(), outcome.totals.children), (Some("all is there"), 2), "{outcome:?}");
    assert_eq!((messages(&second_handle, writing).await, rest.invocations()), (1, 2));
    assert_eq!(second_handle.letters(writing).await.unwrap(), [], "it was taken in");
    assert_eq!(second_handle.pad(root).await.unwrap().unwrap().version, 1, "it was written once");
}
