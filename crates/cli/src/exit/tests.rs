use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{FailureCode, LimitKind, RunId};

use super::*;

#[test]
fn every_stop_reason_has_a_code_of_its_own() {
    let code = FailureCode::Unauthenticated;
    let (tool, call_id): (Arc<str>, Arc<str>) = ("t".into(), "c".into());
    let reasons = [
        StopReason::Completed,
        StopReason::ToolTerminal { tool: tool.clone(), call_id: call_id.clone(), code, attempts: 1 },
        StopReason::ToolExhausted { tool: tool.clone(), call_id, code, attempts: 1, waited: Duration::ZERO },
        StopReason::ModelFailed { code, attempts: 1 },
        StopReason::ModelRefusal,
        StopReason::ContentFiltered,
        StopReason::Truncated,
        StopReason::EmptyResponse,
        StopReason::MalformedOutput,
        StopReason::Stuck { tool, fingerprint: "f".into(), times: 3 },
        StopReason::LimitReached(LimitKind::Turns),
        StopReason::Cancelled { by: "x".into() },
        StopReason::ChildFailed {
            agent: "a".into(),
            run: RunId::from_u128(1),
            reason: Box::new(StopReason::Truncated),
        },
        StopReason::Internal { code: "x".into() },
    ];
    for reason in &reasons {
        assert_eq!(Exit::of(reason).name, reason.name());
    }
    let codes: BTreeSet<u8> = reasons.iter().map(|reason| Exit::of(reason).code).collect();
    assert_eq!(codes.len(), reasons.len());
}

#[test]
fn no_code_and_no_name_is_used_twice() {
    let codes: BTreeSet<u8> = Exit::ALL.iter().map(|exit| exit.code).collect();
    let names: BTreeSet<&str> = Exit::ALL.iter().map(|exit| exit.name).collect();
    assert_eq!((codes.len(), names.len()), (Exit::ALL.len(), Exit::ALL.len()));
}
