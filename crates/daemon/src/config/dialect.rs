//! How a model's provider is spoken to: by which API, and by whose profile.

use dauntless_models::{Api, Profile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API of a model.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ApiFile {
    #[default]
    Chat,
    Responses,
}

impl ApiFile {
    pub(super) fn with(self, keep_reasoning: bool) -> Api {
        match self {
            Self::Chat => Api::Chat,
            Self::Responses => Api::Responses { keep_reasoning },
        }
    }
}

/// The provider whose ways a request follows.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProfileFile {
    Compatible,
    OpenAi,
    Mistral,
    Groq,
    DeepSeek,
    Gemini,
    Cloudflare,
}

impl From<ProfileFile> for Profile {
    fn from(file: ProfileFile) -> Self {
        match file {
            ProfileFile::Compatible => Self::compatible(),
            ProfileFile::OpenAi => Self::openai(),
            ProfileFile::Mistral => Self::mistral(),
            ProfileFile::Groq => Self::groq(),
            ProfileFile::DeepSeek => Self::deepseek(),
            ProfileFile::Gemini => Self::gemini(),
            ProfileFile::Cloudflare => Self::cloudflare(),
        }
    }
}
