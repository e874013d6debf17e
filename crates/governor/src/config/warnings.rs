//! What can be set and is probably not meant so.

use std::net::IpAddr;

use crate::settings::Settings;

/// What an operator should know before clients come, a sentence each.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    about_classes(settings, &mut warnings);
    about_rules(settings, &mut warnings);
    about_levers(settings, &mut warnings);
    about_networks(settings, &mut warnings);
    warnings
}

fn about_classes(settings: &Settings, warnings: &mut Vec<String>) {
    let priorities = || settings.classes.iter().map(|class| class.limits.priority);
    if priorities().min() == priorities().max() {
        let message = "no class is above another, so nobody is preferred: give one of them priority = \"high\"";
        warnings.push(message.to_owned());
    }
    let is_given = |place: usize| {
        let rules = settings.rules.rules().iter().map(|rule| rule.class);
        rules.chain([settings.rules.default_class()]).any(|class| usize::from(class.0) == place)
    };
    // Everybody may choose a class that is not above their own.
    let reached = settings.classes.iter().enumerate().filter(|(place, _)| is_given(*place));
    let highest = reached.map(|(_, class)| class.limits.priority).max();
    for (place, class) in settings.classes.iter().enumerate() {
        if !is_given(place) && class.settable_by.is_empty() && Some(class.limits.priority) > highest {
            let message = format!("nobody can be in class `{0}`: write a [[rule]] with class = \"{0}\"", class.name);
            warnings.push(message);
        }
    }
    for class in settings.classes.iter().filter(|class| class.limits.mpl == Some(0)) {
        warnings.push(format!("class `{}` has mpl = 0, so nothing of it ever runs", class.name));
    }
}

fn about_rules(settings: &Settings, warnings: &mut Vec<String>) {
    let rules = settings.rules.rules();
    for (place, rule) in rules.iter().enumerate() {
        if let Some(earlier) = settings.rules.shadowed_by(place) {
            warnings.push(format!(
                "rule {} ({rule}) never holds, for rule {} ({}) matches all of it and comes first",
                place + 1,
                earlier + 1,
                rules[earlier]
            ));
        }
        let class = settings.class(rule.class);
        let default = settings.class(settings.rules.default_class());
        if rule.tag.is_some() && class.limits.priority > default.limits.priority && class.settable_by.is_empty() {
            warnings.push(format!(
                "rule {} ({rule}) raises nobody: anybody can write a tag, so class `{}` must say in `settable_by` whose it \
                 obeys",
                place + 1,
                class.name
            ));
        }
        if rule.fingerprint.is_some() && rule.user.is_none() && class.limits.priority > default.limits.priority {
            warnings.push(format!("rule {} ({rule}) raises whoever sends that text; name a `user`, too", place + 1));
        }
    }
}

fn about_levers(settings: &Settings, warnings: &mut Vec<String>) {
    let watches = settings.preemption.policy.watches();
    if settings.control.is_none() && watches {
        let message = "there is no `control`, so nothing is preempted and no share of the cores is changed; \
                       docs/governor.md says which rights its role needs";
        warnings.push(message.to_owned());
    }
    if settings.control.is_some() && watches && !settings.preemption.policy.acts() {
        let message = "preemption only tracks what it would do: write policy = \"pow\" in [preemption] to have it done";
        warnings.push(message.to_owned());
    }
    if watches && !settings.classes.iter().any(|class| class.preemptible) {
        warnings.push("no class is `preemptible`, so nothing is ever rolled back".to_owned());
    }
    let lowest = settings.classes.iter().map(|class| class.limits.priority).min();
    for class in settings.classes.iter().filter(|class| class.preemptible && Some(class.limits.priority) > lowest) {
        let message = format!("class `{}` is above others and may yet be rolled back for those above it", class.name);
        warnings.push(message);
    }
}

fn about_networks(settings: &Settings, warnings: &mut Vec<String>) {
    let is_open = |address: &IpAddr| !address.is_loopback();
    for address in settings.listen.addresses.iter().filter(|address| is_open(&address.ip())) {
        if settings.listen.tls.is_none() {
            warnings.push(format!("{address} can be reached over a network, unencrypted: give [listen.tls]"));
        } else if !settings.listen.tls_required {
            let message = format!("{address} can be reached over a network, also unencrypted: write required = true");
            warnings.push(message);
        }
    }
    if let Some(http) = settings.http.as_ref().filter(|http| is_open(&http.address.ip())) {
        let message = "whoever reaches it sees names of users and databases, and is asked for no password";
        warnings.push(format!("the live page at {} can be reached over a network; {message}", http.address));
    }
    if settings.admin.users.is_empty() {
        let message = "the console has no users: a [[admin.user]] with what `plimsoll govern --hash-password` prints";
        warnings.push(message.to_owned());
    }
}
