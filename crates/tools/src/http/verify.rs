//! The request that tells whether an interrupted call happened.

use dauntless_contract::{Effect, Failure, FailureCode, Json, ToolCtx, Verified};
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;

use super::address::Host;
use super::answer::AnswerReader;
use super::body::Body;
use super::config::{HttpMethod, VerifyConfig};
use super::status::StatusMap;
use super::url::UrlTemplate;
use super::{RequestTemplate, client};
use crate::config::{Reader, check_pointer};

/// What every question is made from, and how its answers are read.
pub(super) struct Verifier {
    client: Client,
    request: RequestTemplate,
    answer: AnswerReader,
}

impl Verifier {
    pub(super) fn read(
        config: &VerifyConfig,
        call: Option<&RequestTemplate>,
        (hosts, effect): (&[Host], Effect),
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        if effect != Effect::Verifiable {
            let message = format!(
                "nobody asks, since the tool's effect is `{}`: set `effect = \"verifiable\"`, or take this table out",
                effect.as_str()
            );
            reader.mistake("url", message);
        }
        check_pointer(config.response.as_deref(), reader);
        let url = UrlTemplate::read(&config.url, &config.query, hosts, reader);
        let client = reader.take("url", client(HttpMethod::Get, hosts));
        let RequestTemplate { headers, idempotency_header, .. } = call?;
        let (mut headers, idempotency_header) = (headers.clone(), idempotency_header.clone());
        headers.remove(CONTENT_TYPE);
        let (method, url, body) = (HttpMethod::Get, url?, Body::None);
        let request = RequestTemplate { method, url, headers, body, idempotency_header };
        let status = StatusMap::default();
        let answer = AnswerReader { status, pointer: config.response.clone(), changes_nothing: true };
        Some(Self { client: client?, request, answer })
    }

    /// Asks once. What may be different in a moment is a failure, and is asked again.
    pub(super) async fn ask(
        &self,
        ctx: &ToolCtx,
        arguments: &Json,
        not_answered: impl FnOnce(reqwest::Error) -> Failure,
    ) -> Result<Verified, Failure> {
        let request = self.request.render(ctx, arguments)?;
        let response = self.client.execute(request).await.map_err(not_answered)?;
        match self.answer.read(response).await {
            Ok(output) => Ok(Verified::Happened(output)),
            Err(failure) if matches!(failure.code, FailureCode::NotFound | FailureCode::Gone) => {
                Ok(Verified::NotHappened)
            }
            Err(failure) => Err(failure),
        }
    }
}
