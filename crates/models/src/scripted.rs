//! A model that follows a script: for examples, tests and rehearsals.
//!
//! What it answers is derived from the request alone, so that any number of runs can share one and
//! a repeated attempt gets the same answer. It judges nothing: whether a request is one that a
//! provider would take is for a strict provider to say.

use std::sync::Arc;

use dauntless_contract::{
    BoxFuture, Failure, Finish, Model, ModelCtx, ModelReply, ModelRequest, ModelSpec, Price, RawCall,
    RequestPurpose, ResiliencePolicy,
};

use observed::{Missing, Observed};
use turn::CallArguments;

mod file;
mod observed;
mod turn;

#[cfg(test)]
mod tests;

pub use file::ScriptError;
pub use turn::{Turn, When};

/// What it answers when it is asked for a summary.
const SUMMARY: &str = "The scripted model keeps no summary of what went before.";

/// A model that answers request after request as its script says.
///
/// The first request of a run gets the first turn, and so on. Turns with a condition are
/// alternatives to the turn after them and take no place of their own: the first whose condition
/// holds answers, and the turn without a condition is the answer in all other cases. A request for a
/// summary is no turn: it is answered with a fixed sentence.
///
/// # Failures
/// - `gone` when the script has no turn, or no alternative, for a request.
/// - `not_found` when a placeholder names an observation that is not there.
/// - Whatever a turn says with [`Turn::fail`].
#[derive(Clone, Debug)]
pub struct Scripted {
    spec: Arc<ModelSpec>,
    steps: Arc<[Vec<Turn>]>,
}

impl Scripted {
    /// A model that follows these turns.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let spec = ModelSpec {
            name: "scripted".into(),
            provider: "scripted".into(),
            price: Price::default(),
            output_tokens_max: None,
            context_window: None,
            counter: None,
            resilience: ResiliencePolicy::for_model(),
        };
        let mut steps = Vec::new();
        let mut alternatives = Vec::new();
        for turn in turns {
            let is_last = turn.when.is_none();
            alternatives.push(turn);
            if is_last {
                steps.push(std::mem::take(&mut alternatives));
            }
        }
        if !alternatives.is_empty() {
            steps.push(alternatives);
        }
        Self { spec: Arc::new(spec), steps: steps.into() }
    }

    /// A model that says these texts, one for each request.
    pub fn replies<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(texts.into_iter().map(|text| Turn::new().text(text)))
    }

    /// Declares another name, price, limit or policy.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(&mut ModelSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }

    /// The turn for a request and its number in the run, counted from 1.
    fn turn(&self, turn: u32, observed: &Observed<'_>) -> Result<(usize, &Turn), Failure> {
        // A reply that says nothing leaves no message behind, so the run's own count comes first;
        // a request made by hand may have no count worth the name.
        let number = observed.replies.saturating_add(1).max(usize::try_from(turn).unwrap_or(usize::MAX));
        let Some(step) = self.steps.get(number - 1) else {
            let have = self.steps.len();
            return Err(Failure::gone(format!(
                "The script of model `{}` has ended: this is request {number}, and it has {have}.",
                self.spec.name
            ))
            .hint("Add a turn to the script, or let an earlier one end the run."));
        };
        let holds = |turn: &&Turn| turn.when.as_ref().is_none_or(|when| when.holds(observed));
        step.iter().find(holds).map(|turn| (number, turn)).ok_or_else(|| {
            Failure::gone(format!(
                "The script of model `{}` has no answer to request {number}: no `when` holds.",
                self.spec.name
            ))
            .hint("Add a turn without `when` after them.")
        })
    }

    async fn answer(&self, ctx: ModelCtx, request: ModelRequest) -> Result<ModelReply, Failure> {
        if request.purpose == RequestPurpose::Summary {
            // It is no turn of the script, and whatever the harness asks for it must get.
            return Ok(ModelReply { model: Some(Arc::clone(&self.spec.name)), ..ModelReply::text(SUMMARY) });
        }
        let observed = Observed::of(&request.history);
        let (number, turn) = self.turn(ctx.turn, &observed)?;
        if !turn.delay.is_zero() {
            tokio::time::sleep(turn.delay).await;
        }
        if let Some(fault) = &turn.fault
            && ctx.attempt <= fault.times
        {
            return Err(fault.failure.clone());
        }
        let reply = self.reply(number, turn, &observed).map_err(|Missing(what)| {
            Failure::not_found(format!(
                "Turn {number} of the script of model `{}` asks for {what}, which is not there.",
                self.spec.name
            ))
        })?;
        if let (Some(sink), Some(text)) = (&ctx.on_text, &reply.text) {
            sink(text);
        }
        Ok(reply)
    }

    fn reply(&self, number: usize, turn: &Turn, observed: &Observed<'_>) -> Result<ModelReply, Missing> {
        let mut calls = Vec::with_capacity(turn.calls.len());
        for (place, call) in turn.calls.iter().enumerate() {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{number}_{}", place + 1).into());
            let arguments = match &call.arguments {
                CallArguments::Fixed(text) => Arc::clone(text),
                CallArguments::Template(value) => observed.fill_value(value)?.to_string().into(),
            };
            calls.push(RawCall { id, name: Arc::clone(&call.tool), arguments, garbled: None });
        }
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        Ok(ModelReply {
            text: turn.text.as_ref().map(|text| observed.fill_text(text)).transpose()?,
            calls,
            finish: turn.finish.clone().unwrap_or(finish),
            refusal: turn.refusal.clone(),
            usage: turn.usage,
            output_limit: self.spec.output_tokens_max,
            model: Some(Arc::clone(&self.spec.name)),
            extra: None,
        })
    }
}

impl Model for Scripted {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        Box::pin(self.answer(ctx, request))
    }
}
