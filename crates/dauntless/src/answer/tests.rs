use dauntless_models::{Scripted, Turn};
use serde::Deserialize;

use super::*;
use crate::StopReason;

/// Half of the types that people use demand more than their schema says.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "u64")]
struct Even(u64);

impl TryFrom<u64> for Even {
    type Error = String;

    fn try_from(n: u64) -> Result<Self, String> {
        if n.is_multiple_of(2) { Ok(Self(n)) } else { Err(format!("{n} is odd")) }
    }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Pair {
    left: Even,
    right: Even,
}

async fn run<T: DeserializeOwned + JsonSchema>(model: Scripted) -> Result<Typed<T>, NoValue> {
    let agent = Agent::new("a").answers::<T>();
    let runtime = Runtime::builder().model(model).agent(&agent).build().await.unwrap();
    runtime.run_typed(&agent, "go").await
}

#[tokio::test(start_paused = true)]
async fn any_type_can_be_an_answer() {
    let list = run::<Vec<u8>>(Scripted::replies(["[1, \"2\"]"])).await.unwrap();
    assert_eq!((list.value, list.outcome.answer()), (vec![1, 2], Some("[1,2]")));
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Verdict {
        Good,
        /// With the reason.
        Bad(String),
    }
    let verdict = run::<Verdict>(Scripted::replies([r#"{"bad":"late"}"#])).await.unwrap();
    assert_eq!(verdict.value, Verdict::Bad("late".to_owned()));
    assert_eq!(run::<Verdict>(Scripted::replies(["\"good\""])).await.unwrap().value, Verdict::Good);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_stops_gives_its_outcome_in_the_error() {
    let refused = run::<Pair>(Scripted::new([Turn::new().refusal("I cannot.")])).await.unwrap_err();
    assert_eq!(refused.outcome().reason, StopReason::ModelRefusal);
    assert_eq!(refused.to_string(), "the run gave no answer: model_refusal: I cannot.");
}

#[tokio::test(start_paused = true)]
async fn a_type_that_demands_more_than_its_schema_says_keeps_the_outcome() {
    let error = run::<Pair>(Scripted::replies([r#"{"left":2,"right":3}"#])).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer cannot be read at `right`: 3 is odd at line 1 column 20");
    assert_eq!(error.outcome().answer(), Some(r#"{"left":2,"right":3}"#));
}

#[test]
fn a_schema_is_named_as_providers_want_it() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(rename = "Ein Wörtchen <T>")]
    struct Odd;
    assert_eq!(name_of::<Odd>(), "Ein_W_rtchen__T_");
    assert_eq!(name_of::<Pair>(), "Pair");
}
