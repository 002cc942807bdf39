//! The one place of a library where the environment is read, and only when asked to by name.

use dauntless_models::{OpenAi, OpenAiBuildError, Secret};

/// Builds a model client from the variables that other OpenAI clients read too.
pub trait FromEnv: Sized {
    /// The client for the named model: key from `OPENAI_API_KEY`, address from `OPENAI_BASE_URL`
    /// where that is set.
    ///
    /// # Errors
    /// [`FromEnvError`], naming the variable.
    fn from_env(model: &str) -> Result<Self, FromEnvError>;
}

/// The environment does not give what the client needs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FromEnvError {
    /// There is no key.
    #[error("the environment variable OPENAI_API_KEY is not set: set it to the key of your provider")]
    NoKey,
    /// The client refused what was given.
    #[error(transparent)]
    Build(#[from] OpenAiBuildError),
}

impl FromEnv for OpenAi {
    fn from_env(model: &str) -> Result<Self, FromEnvError> {
        let filled = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let key = filled("OPENAI_API_KEY").ok_or(FromEnvError::NoKey)?;
        let mut builder = Self::builder(model).api_key(Secret::new(key));
        if let Some(url) = filled("OPENAI_BASE_URL") {
            builder = builder.base_url(url);
        }
        Ok(builder.build()?)
    }
}
