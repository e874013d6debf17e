//! Controls of resources that resctrl divides between groups: a group of the subject's gets a share of one [`Resource`].

use std::marker::PhantomData;

use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Unknown, Verdict, Window};
use crate::availability::Availability;
use crate::groups::resctrl::{ByDomain, Capabilities, Group, Resctrl, absent, subject};
use crate::host::Host;

/// A resource that resctrl divides, as the mounted one offers it.
pub(crate) trait Resource: Sync + Sized + 'static {
    /// As [`Control::key`].
    const KEY: &'static str;
    /// As [`Control::unit`].
    const UNIT: &'static str;
    /// As [`Control::meaning`].
    const MEANING: &'static str;
    /// The flag of processors that divide it, the kernel's boot option for it, and why it may be missing nevertheless.
    const MISSING: [&'static str; 3];
    /// The name of the bytes that are counted for a group.
    const COUNTED: &'static str;

    /// The resource, if it can be divided.
    fn of(capabilities: &Capabilities) -> Option<&Self>;
    /// How it can be divided, in words.
    fn offer(&self) -> String;
    /// The lines of `schemata` that give a group this amount, or the error in the amount.
    fn shares(&self, amount: &Amount) -> Result<String, String>;
    /// The lines that give a group all of it.
    fn unlimited(&self) -> String;
    /// Why a subject with such a group for one class of its threads cannot be limited.
    fn obstacle(_class: &Group) -> Option<Availability> {
        None
    }
    /// How threads in a group for their class escape the limit.
    fn escape(&self, _class: &Group, _amount: &Amount) -> Option<String> {
        None
    }
    /// The bytes counted for the group of a subject and those of its classes, or why they are unknown.
    fn counted(group: &Group, classes: &[Group]) -> Result<ByDomain, String>;
    /// The figure reached in a window at whose end these bytes were counted.
    fn judge(&self, group: &Group, counted: &ByDomain, window: &Window<'_>) -> Result<Verdict, String>;
}

/// The control of a resource.
pub(crate) struct ShareOf<R>(PhantomData<R>);

impl<R> ShareOf<R> {
    pub(super) const CONTROL: ShareOf<R> = ShareOf(PhantomData);
}

impl<R: Resource> Control for ShareOf<R> {
    fn key(&self) -> &'static str {
        R::KEY
    }

    fn unit(&self) -> &'static str {
        R::UNIT
    }

    fn meaning(&self) -> &'static str {
        R::MEANING
    }

    fn probe(&self, host: &Host) -> Availability {
        let told = |resctrl: Resctrl| resource::<R>(&resctrl, host).map(R::offer);
        match Resctrl::open(host).and_then(told) {
            Ok(told) => Availability::yes(format!("resctrl: {told}")),
            Err(absent) => absent,
        }
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        share::<R>(&open::<R>(host)?, host, amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        limit::<R>(&open::<R>(context.host)?, context, amount)
    }

    fn observe(&self, host: &Host, subject: &Subject) -> Observation {
        Resctrl::open(host).map(|resctrl| observed::<R>(&resctrl, subject)).unwrap_or_default()
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        judge::<R>(&open::<R>(window.host)?, window)
    }
}

fn open<R: Resource>(host: &Host) -> Result<Resctrl, ControlError> {
    Resctrl::open(host).map_err(|absent| absent.error(R::KEY))
}

/// The resource, or why it cannot be divided although resctrl is mounted.
fn resource<'a, R: Resource>(resctrl: &'a Resctrl, host: &Host) -> Result<&'a R, Availability> {
    let [flag, option, otherwise] = R::MISSING;
    R::of(resctrl.capabilities()).ok_or_else(|| absent::missing(host, &[flag], option, otherwise))
}

/// The resource, and the lines of `schemata` that give a group this amount.
fn share<'a, R: Resource>(resctrl: &'a Resctrl, host: &Host, amount: &Amount) -> Result<(&'a R, String), ControlError> {
    let resource = resource::<R>(resctrl, host).map_err(|absent| absent.error(R::KEY))?;
    let shares = resource.shares(amount).map_err(|why| ControlError::amount(R::KEY, amount, why))?;
    Ok((resource, shares))
}

/// Gives the subject's group the share, and then moves the subject into the group.
pub(super) fn limit<R: Resource>(
    resctrl: &Resctrl,
    context: &mut ControlContext<'_>,
    amount: &Amount,
) -> Result<(), ControlError> {
    let (resource, shares) = share::<R>(resctrl, context.host, amount)?;
    if let Some(obstacle) = subject::class_groups(resctrl, context.subject).iter().find_map(R::obstacle) {
        return Err(obstacle.error(R::KEY));
    }
    let group = subject::enter(resctrl, context, R::KEY)?;
    context.undo.note(group.undo(resource.unlimited()))?;
    group.set(&shares)?;
    subject::move_threads(&group, context.host, context.subject)
}

/// The bytes counted for the subject, by domain. Empty if that cannot be read; the verdict of the window says why.
pub(super) fn observed<R: Resource>(resctrl: &Resctrl, subject: &Subject) -> Observation {
    let group = resctrl.find(&subject::group_name(subject));
    let counted = group.and_then(|group| R::counted(&group, &subject::class_groups(resctrl, subject)).ok());
    counted.into_iter().flatten().map(|(domain, bytes)| (observation::<R>(domain), bytes as f64)).collect()
}

/// The key of what was observed in a domain.
pub(super) fn observation<R: Resource>(domain: u32) -> String {
    format!("{}.{domain}", R::COUNTED)
}

pub(super) fn judge<R: Resource>(resctrl: &Resctrl, window: &Window<'_>) -> Result<Verdict, Unknown> {
    let Window { host, subject, amount, .. } = *window;
    let (resource, shares) = share::<R>(resctrl, host, amount)?;
    let name = subject::group_name(subject);
    let group = resctrl.find(&name).ok_or_else(|| format!("there is no group {name}"))?;
    let classes = subject::class_groups(resctrl, subject);
    let escaped = group
        .not_in_force(&shares)
        .or_else(|| subject::why_outside(&group, host, subject))
        .or_else(|| classes.iter().find_map(|class| resource.escape(class, amount)));
    match R::counted(&group, &classes).and_then(|counted| resource.judge(&group, &counted, window)) {
        Ok(Verdict { achieved, why_not }) => Ok(Verdict { achieved, why_not: escaped.or(why_not) }),
        Err(error) => {
            let unmeasured = || format!("the limit is in force; its effect cannot be measured: {error}");
            Err(escaped.unwrap_or_else(unmeasured).into())
        }
    }
}
