//! The two APIs of OpenAI behind one client: where a request goes, how it is written, and how what
//! comes back is read.

use async_openai::error::OpenAIError;
use async_openai::traits::RequestOptionsBuilder;
use async_openai::{Chat, Client};
use dauntless_contract::ModelRequest;
use serde::Serialize;
use serde_json::value::RawValue;

use super::OpenAi;
use super::endpoint::Endpoint;
use crate::wire::{ChatRequest, Items, Packet, ResponsesRequest, SendBack};

/// Which API of OpenAI a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// Chat completions, which every compatible provider speaks.
    #[default]
    Chat,
    /// Responses, without anything being stored at the provider.
    Responses {
        /// Whether the model's reasoning is asked for, sealed, and sent back with the next request.
        /// Models that do not reason refuse the question.
        keep_reasoning: bool,
    },
}

impl Api {
    /// The group of requests that goes to this API. The path alone tells the two groups apart, as
    /// bodies are our own.
    pub(super) fn of(self, client: &Client<Endpoint>) -> Result<Chat<'_, Endpoint>, OpenAIError> {
        match self {
            Self::Chat => Ok(client.chat()),
            Self::Responses { .. } => client.chat().path("/responses"),
        }
    }

    pub(super) fn body<'a>(self, model: &'a OpenAi, request: &'a ModelRequest) -> Body<'a> {
        let OpenAi { spec, stream, settings, profile, calling, answer_schemas: shape, .. } = model;
        let (model, stream, calling, shape) = (&*spec.name, *stream, *calling, *shape);
        match self {
            Self::Chat => {
                Body::Chat(ChatRequest { model, request, stream, settings, profile, calling, shape })
            }
            Self::Responses { keep_reasoning } => Body::Responses(ResponsesRequest {
                model,
                request,
                stream,
                keep_reasoning,
                settings,
                profile,
                calling,
                shape,
            }),
        }
    }

    /// A reader for one answer.
    pub(super) fn reader(self, send_back: &SendBack) -> Reader<'_> {
        match self {
            Self::Chat => Reader::Chat(send_back),
            Self::Responses { .. } => Reader::Responses(Items::default()),
        }
    }
}

/// The body of one request.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    Chat(ChatRequest<'a>),
    Responses(ResponsesRequest<'a>),
}

/// Reads one answer.
pub(super) enum Reader<'a> {
    Chat(&'a SendBack),
    Responses(Items),
}

impl Reader<'_> {
    /// Reads the next chunk of a stream.
    pub(super) fn chunk(&mut self, raw: &RawValue) -> Packet {
        match self {
            Self::Chat(send_back) => Packet::read(raw, send_back),
            Self::Responses(items) => items.event(raw),
        }
    }

    /// Reads a body that came in one piece.
    pub(super) fn whole(mut self, raw: &RawValue) -> Packet {
        match &mut self {
            Self::Chat(send_back) => Packet::read(raw, send_back),
            Self::Responses(items) => items.whole(raw),
        }
    }

    /// Whether nothing of the answer can follow. In chat completions something always can: the
    /// counts come after the end.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Chat(_) => false,
            Self::Responses(items) => items.is_over(),
        }
    }
}
