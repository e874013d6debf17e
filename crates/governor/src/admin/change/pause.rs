//! `PAUSE` and `RESUME`.

use plimsoll_notation::{did_you_mean, listed};
use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;

/// Lets no more transactions of the class begin; running ones continue. New ones wait, within the limits of their
/// class.
pub fn pause(call: &Call<'_>) -> Result<Answer, Refusal> {
    if call.governor.settings().is_beside {
        return Err(super::not_beside("PAUSE"));
    }
    let classes = classes(call)?;
    tracing::warn!(user = call.user, classes = names(call, &classes), "console: PAUSE");
    call.governor.pause(&classes, true);
    let inside: u32 = classes.iter().map(|class| call.governor.inside(*class)).sum();
    let notice = format!("{} paused; {inside} of its transactions run and may end", names(call, &classes));
    Ok(Answer { rows: Vec::new(), notices: vec![notice] })
}

/// Transactions of the class may begin again.
pub fn resume(call: &Call<'_>) -> Result<Answer, Refusal> {
    let classes = classes(call)?;
    let settings = call.governor.settings();
    if !classes.iter().any(|class| settings.class(*class).is_paused) {
        return Err(Refusal::new("55000", format!("{} is not paused", names(call, &classes))));
    }
    tracing::warn!(user = call.user, classes = names(call, &classes), "console: RESUME");
    call.governor.pause(&classes, false);
    Ok(Answer::default())
}

/// The named class, or all of them.
fn classes(call: &Call<'_>) -> Result<Vec<ClassIndex>, Refusal> {
    let settings = call.governor.settings();
    match call.arguments {
        [] => Ok((0..).map(ClassIndex).take(settings.classes.len()).collect()),
        [name] => settings.class_named(name).map(|class| vec![class]).ok_or_else(|| {
            let known = || settings.classes.iter().map(|class| class.name.as_str());
            let message = format!("there is no class \"{name}\"{}", did_you_mean(name, known()));
            Refusal::new("42704", message).hint(format!("There are {}.", listed(known())))
        }),
        _ => Err(Refusal::new("42601", "name one class, or none for all of them")),
    }
}

fn names(call: &Call<'_>, classes: &[ClassIndex]) -> String {
    let settings = call.governor.settings();
    let names = classes.iter().map(|class| settings.class(*class).name.as_str());
    format!("class {}", names.collect::<Vec<_>>().join(", "))
}
