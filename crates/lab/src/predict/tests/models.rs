//! Every model is listed with its error and coverage, or with the reason why they are not known.

use plimsoll_machine::facts::CoreSlice;
use serde_json::Value;

use super::{EXPERIMENT, alone_only, request, run};
use crate::predict::{Model, ModelAccuracy, Predictions, hold_out, predict};
use crate::results::Results;

/// A run whose machine says how its kernel cuts the time of a core.
fn with_slice(mut results: Results) -> Results {
    results.machine.core_slice = Some(CoreSlice { slice_us: 2_800.0, tick_us: 4_000.0 });
    results
}

fn of<'a>(predicted: &'a Predictions, model: &str) -> &'a ModelAccuracy {
    predicted.models.iter().find(|one| one.model == model).expect(model)
}

#[test]
fn all_are_compared_with_what_was_held_out() {
    let whole = with_slice(run(EXPERIMENT, 1.2, 0.005, |_, _| {}));
    let (taught, judges) = hold_out(&whole, &"long.clients=30".parse().expect("a key")).expect("swept");
    let predicted = predict(&taught, Some(&judges), &request(None, Model::Idd)).expect("all is there");
    let names: Vec<&str> = predicted.models.iter().map(|one| one.model).collect();
    assert_eq!(names, ["idd-thesis", "mva", "isolation-only", "taught"]);
    let [learned, isolated, mva] = ["taught", "isolation-only", "mva"].map(|name| of(&predicted, name));
    for one in [learned, isolated, mva] {
        assert_eq!((one.count, one.coverage, &one.why_not), (2, Some(1.0), &None), "{one:?}");
    }
    assert!(learned.mean_error < isolated.mean_error && learned.mean_error.expect("compared") < 0.05, "{learned:?}");
    let thesis = of(&predicted, "idd-thesis");
    assert_eq!((thesis.count, thesis.mean_error, thesis.coverage), (0, None, None));
    assert!(thesis.why_not.as_deref().is_some_and(|why| why.contains("instructions were not counted")), "{thesis:?}");
    let json = serde_json::to_value(&predicted).expect("plain data");
    assert_eq!((&json["models"][0]["mean_error"], &json["models"][0]["coverage"]), (&Value::Null, &Value::Null));
    let text = crate::table::prediction::render(&predicted);
    let page = crate::report::render(crate::report::ReportInput::new(&whole, &[]));
    assert!(
        text.contains("Models, over all workloads") && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(names.iter().all(|name| text.contains(name) && page.contains(name)), "{text}");
}

#[test]
fn what_is_not_known_has_its_reason() {
    let why = |predicted: &Predictions, model: &str| of(predicted, model).why_not.clone().unwrap_or_default();
    let (alone, together) = (run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {}), run(EXPERIMENT, 1.0, 0.0, |_, _| {}));
    let predicted = predict(&alone, Some(&together), &request(None, Model::Idd)).expect("all is there");
    assert!(why(&predicted, "isolation-only").contains("the run does not say how long the kernel's slices are"));
    assert!(why(&predicted, "taught").contains("no measured mix"), "{:?}", predicted.models);
    let own = predict(&with_slice(together), None, &request(None, Model::Idd)).expect("all is there");
    assert!(why(&own, "taught").contains("hold some out"), "{:?}", own.models);
    assert!(of(&own, "isolation-only").mean_error.is_some(), "no mix has taught it: {:?}", own.models);
    let nothing = predict(&alone, None, &request(Some("long.clients=30"), Model::Idd)).expect("known key");
    assert!(nothing.models.iter().all(|one| one.mean_error.is_none() && one.why_not.is_some()), "{nothing:?}");
    assert!(!crate::table::prediction::render(&nothing).contains("Models, over"), "there is nothing to compare with");
}

/// Short requests beside long ones wait for turns of which the network knows nothing.
#[test]
fn isolation_only_is_a_model_of_its_own_and_what_is_left_without_mixes() {
    let text = EXPERIMENT.replace("clients = 40", "clients = 4").replace("[10, 30, 60]", "[40]");
    let alone = with_slice(run(&alone_only(&text), 1.0, 0.0, |_, _| {}));
    let response = |model: Model| {
        let predicted = predict(&alone, None, &request(Some("long.clients=40"), model)).expect("known key");
        predicted.mixes[0].workloads[0].response_ms.expect("has clients")
    };
    let [isolated, idd, mva] = [Model::Isolated, Model::Idd, Model::Mva].map(response);
    assert_eq!(isolated, idd);
    assert!(isolated.value > 1.1 * mva.value, "{isolated:?} and {mva:?}");
    let factor = mva.high.expect("an interval") / mva.value;
    assert!((2.9..3.2).contains(&factor), "of mixes that nothing has taught little is known: {factor}");
    assert_eq!("isolation-only".parse(), Ok(Model::Isolated));
}
