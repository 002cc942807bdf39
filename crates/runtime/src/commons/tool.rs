//! The tools by which the runs of a tree share things. Each call says which run makes it.

use std::sync::Arc;

use dauntless_contract::{BoxFuture, Failure, Json, Tool, ToolCtx, ToolOutput, ToolSpec};
use dauntless_core::tree::{Asked, TreeTool};

use super::Commons;

pub(super) struct CommonTool {
    kind: TreeTool,
    spec: Arc<ToolSpec>,
    commons: Arc<Commons>,
}

impl CommonTool {
    pub(super) fn new(kind: TreeTool, commons: Arc<Commons>) -> Self {
        Self { kind, spec: Arc::new(kind.spec()), commons }
    }
}

impl Tool for CommonTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            match self.kind.asked(&arguments)? {
                Asked::Read { name } => self.commons.read_notes(&ctx, name.as_deref()).await,
                Asked::Write { name, version, text } => {
                    self.commons.write_notes(&ctx, (name, version, text)).await
                }
                Asked::Send { to, text } => self.commons.send_message(&ctx, &to, &text).await,
            }
        })
    }
}
