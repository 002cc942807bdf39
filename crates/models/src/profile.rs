//! What differs between providers of one API, as data. A request is written by its profile and by
//! nothing else, so that no name of a provider stands anywhere but here.

#[cfg(test)]
mod tests;

/// What one provider wants otherwise than the others.
///
/// Instructions need no entry: a history has them once and first, which every provider takes, also
/// those that refuse a system message later on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The ids of calls that it takes back.
    pub call_ids: CallIds,
    /// What stands for the text of a message that holds only calls.
    pub no_text: NoText,
    /// The fields of its own replies that go back to it. Some providers demand them, some refuse
    /// a request that holds one, so nothing else is ever sent back.
    pub send_back: Vec<String>,
    /// Whether a stream is asked for its token counts. Where not, they come unasked.
    pub stream_options: bool,
    /// Whether the output limit is called `max_completion_tokens`, and not `max_tokens`. Chat
    /// completions only: in the Responses API it has one name.
    pub completion_tokens: bool,
}

/// The ids of calls that a provider takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIds {
    /// Any; they go back as they came.
    Any,
    /// Exactly nine letters and digits. Others are rewritten, the same one always to the same.
    Nine,
}

/// What stands for the text of a message that holds only calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// `null`, as OpenAI documents it. Some providers refuse the empty text.
    Null,
    /// The empty text. Some providers refuse `null`.
    Empty,
}

/// The thoughts of DeepSeek and of those who follow it.
const THOUGHTS: &str = "reasoning_content";
/// The thoughts that OpenRouter relays.
const DETAILS: &str = "reasoning_details";
/// The signatures of Google's thoughts.
const SIGNATURES: &str = "extra_content";

impl Profile {
    /// For a provider that is not known better: what most of them take.
    pub fn compatible() -> Self {
        Self {
            call_ids: CallIds::Any,
            no_text: NoText::Null,
            send_back: [THOUGHTS, DETAILS, SIGNATURES].map(str::to_owned).to_vec(),
            stream_options: true,
            completion_tokens: false,
        }
    }

    /// OpenAI and Azure. Their newer models refuse `max_tokens`; none of their replies has a field
    /// to send back in chat completions.
    pub fn openai() -> Self {
        Self { send_back: Vec::new(), completion_tokens: true, ..Self::compatible() }
    }

    /// Mistral refuses ids that are not nine letters and digits, and every field that it does not
    /// know: `stream_options` (its streams count unasked) and the thoughts of others.
    pub fn mistral() -> Self {
        Self { call_ids: CallIds::Nine, send_back: Vec::new(), stream_options: false, ..Self::compatible() }
    }

    /// Groq refuses a message with thoughts in it, its own included.
    pub fn groq() -> Self {
        Self { send_back: Vec::new(), ..Self::compatible() }
    }

    /// DeepSeek refuses a conversation from which the thoughts beside a call are gone.
    pub fn deepseek() -> Self {
        Self { send_back: vec![THOUGHTS.to_owned()], ..Self::compatible() }
    }

    /// Gemini refuses a call that comes back without its signature, and fields that it does not know.
    pub fn gemini() -> Self {
        Self { send_back: vec![SIGNATURES.to_owned()], ..Self::compatible() }
    }

    /// Cloudflare's Workers AI refuses a message whose text is `null`.
    pub fn cloudflare() -> Self {
        Self { no_text: NoText::Empty, ..Self::compatible() }
    }

    /// The profile for whoever answers at this host; [`compatible`](Self::compatible) unless it is
    /// a provider's own.
    pub fn of_host(host: &str) -> Self {
        let is_of = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        match host {
            _ if is_of("openai.com") || is_of("openai.azure.com") => Self::openai(),
            _ if is_of("mistral.ai") => Self::mistral(),
            _ if is_of("groq.com") => Self::groq(),
            _ if is_of("deepseek.com") => Self::deepseek(),
            _ if is_of("generativelanguage.googleapis.com") => Self::gemini(),
            _ if is_of("cloudflare.com") => Self::cloudflare(),
            _ => Self::compatible(),
        }
    }
}
