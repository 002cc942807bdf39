//! Listens for runs that became claimable. What it hears is a hint: a lost connection loses hints,
//! and polling finds the runs all the same.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use super::link::Connector;

const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Starts listening. Whoever holds the handle ends it.
pub(super) fn listen(connector: Connector, woken: Arc<Notify>) -> AbortHandle {
    let task = tokio::spawn(async move {
        loop {
            hear(&connector, &woken).await;
            // What was said meanwhile is not known.
            woken.notify_one();
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    });
    task.abort_handle()
}

/// Listens until the connection ends.
async fn hear(connector: &Connector, woken: &Notify) {
    let Ok((client, mut connection)) = connector.connect().await else { return };
    let mut asked = std::pin::pin!(client.batch_execute("LISTEN dauntless_run"));
    let mut listens = false;
    loop {
        let message = std::future::poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            answer = &mut asked, if !listens => match answer {
                Ok(()) => listens = true,
                Err(_) => return,
            },
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(_))) => woken.notify_one(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}
