//! Values that name environment variables, so that a secret is never written into a file.

use std::collections::BTreeSet;

/// Looks up environment variables and remembers what they held, because it may be a secret.
pub(crate) struct Environment<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    seen: BTreeSet<String>,
}

impl<'a> Environment<'a> {
    pub(crate) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, seen: BTreeSet::new() }
    }

    /// A variable that is passed on as it is and is no secret, like `PATH`.
    pub(crate) fn public(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
    }

    /// Puts the variables' values in the place of each `${NAME}`.
    pub(crate) fn expand(&mut self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) =
                after.split_once('}').ok_or_else(|| "`${` has no `}`: write `${NAME}`".to_owned())?;
            out.push_str(before);
            out.push_str(&self.secret(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Whether the text names a variable at all.
    pub(crate) fn is_named_in(text: &str) -> bool {
        text.contains("${")
    }

    /// Everything that was put in somewhere.
    pub(crate) fn into_secrets(self) -> Vec<String> {
        self.seen.into_iter().collect()
    }

    fn secret(&mut self, name: &str) -> Result<String, String> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`${{{name}}}` names no environment variable: use letters, digits and `_`"));
        }
        // An empty secret is never meant, and masking it would mask everything.
        match (self.lookup)(name) {
            Some(value) if !value.is_empty() => {
                self.seen.insert(value.clone());
                Ok(value)
            }
            Some(_) => Err(format!("the environment variable `{name}` is empty")),
            None => Err(format!("the environment variable `{name}` is not set")),
        }
    }
}
