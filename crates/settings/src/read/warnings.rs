//! Settings that are allowed but probably not intended.

use std::net::IpAddr;

use plimsoll_pg::scram::server::Verifier;
use plimsoll_pg::url::SslMode;
use plimsoll_policy::{ClassIndex, GuardMode};

use crate::settings::{ClassSettings, Settings};

/// The password of the console's users in docs/examples/plimsoll.toml.
const SAMPLE_PASSWORD: &str = "change-me";

/// The consequence of TLS on both sides for clients that bind their login to a certificate.
pub const BINDING: &str = "there is TLS on both sides: clients that bind their login to the certificate, as libpq does by \
     default (channel_binding=prefer), cannot log in by SCRAM unless [listen.tls] has the server's own certificate; give it \
     that, or have clients write channel_binding=disable";

/// The bytes of a name that a server keeps; it truncates longer ones.
const NAME_BYTES_MAX: usize = 63;

/// What an operator should know before clients connect, one sentence each.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    about_classes(settings, &mut warnings);
    about_rules(settings, &mut warnings);
    about_levers(settings, &mut warnings);
    about_guards(settings, &mut warnings);
    about_networks(settings, &mut warnings);
    warnings
}

fn about_classes(settings: &Settings, warnings: &mut Vec<String>) {
    let priorities = || settings.classes.iter().map(|class| class.limits.priority);
    if priorities().min() == priorities().max() {
        let message = "no class is above another, so none is preferred: give one of them priority = \"high\"";
        warnings.push(message.to_owned());
    }
    let is_given = |index: ClassIndex| {
        settings.rules.default_class() == index || settings.rules.rules().iter().any(|rule| rule.class == index)
    };
    // Every client may choose a class that is not above its own.
    let reached = settings.indexed().filter(|(index, _)| is_given(*index));
    let highest = reached.map(|(_, class)| class.limits.priority).max();
    for (index, class) in settings.indexed() {
        if !is_given(index) && class.settable_by.is_empty() && Some(class.limits.priority) > highest {
            warnings
                .push(format!("no session can be in class `{0}`: write a [[rule]] with class = \"{0}\"", class.name));
        }
    }
    for class in settings.classes.iter().filter(|class| class.limits.mpl == Some(0)) {
        warnings
            .push(format!("class `{}` has mpl = 0, so nothing of it ever runs: leave it out for no limit", class.name));
    }
    for (index, class) in settings.indexed().filter(|(_, class)| class.mpl_min.is_some()) {
        if !settings.is_below_target(index) && !settings.is_searched(index) {
            warnings.push(format!("class `{}` has `mpl_min`, and no class above it has a `target`", class.name));
        }
    }
}

/// Guards that cannot do what the settings ask for.
fn about_guards(settings: &Settings, warnings: &mut Vec<String>) {
    let guards = &settings.guards;
    for class in settings.classes.iter().filter(|class| class.burst.is_some() && class.rate.is_none()) {
        warnings.push(format!("class `{}` has `burst` and no `rate`, so nothing is limited: add `rate`", class.name));
    }
    let place = |class: &ClassSettings| if class.guards.is_some() { "`guards` of it" } else { "`budgets` in [guards]" };
    let is_off = |index| settings.budgets_of(index) == GuardMode::Off;
    for (_, class) in settings.indexed().filter(|(index, class)| class.rate.is_some() && is_off(*index)) {
        warnings.push(format!("class `{}` has a `rate`, and {} is \"off\"", class.name, place(class)));
    }
    let place =
        |class: &ClassSettings| if class.guards.is_some() { "`guards` of it" } else { "`runaways` in [guards]" };
    let is_off = |index| settings.runaways_of(index) == GuardMode::Off;
    let runaway = || settings.indexed().filter(|(_, class)| class.runaway.is_any());
    for (_, class) in runaway().filter(|(index, _)| is_off(*index)) {
        warnings.push(format!("class `{}` limits its statements, and {} is \"off\"", class.name, place(class)));
    }
    for (_, class) in runaway().filter(|_| settings.control.is_none()) {
        warnings.push(format!(
            "class `{}` limits its statements, and without `control` none is cancelled: add it",
            class.name
        ));
    }
    let enforces = guards.migrations == GuardMode::Enforce;
    if enforces && settings.control.is_none() && !settings.is_beside {
        let message = "`migrations` in [guards] is \"enforce\", and without `control` no transaction is known to be safe to run \
                       again: each statement has one try; add `control`";
        warnings.push(message.to_owned());
    }
    if enforces && settings.is_beside && !settings.classes.iter().any(|class| class.preemptible && class.retries) {
        let message = "`migrations` in [guards] is \"enforce\", and no class has preemptible = \"retry-by-application\", so that \
                       beside the server nothing is cancelled";
        warnings.push(message.to_owned());
    }
}

fn about_rules(settings: &Settings, warnings: &mut Vec<String>) {
    let rules = settings.rules.rules();
    for (place, rule) in rules.iter().enumerate() {
        if let Some(earlier) = settings.rules.shadowed_by(place) {
            warnings.push(format!(
                "rule {} ({rule}) never applies, because rule {} ({}) matches all of it and comes first",
                place + 1,
                earlier + 1,
                rules[earlier]
            ));
        }
        let class = settings.class(rule.class);
        let default = settings.class(settings.rules.default_class());
        if rule.tag.is_some() && class.limits.priority > default.limits.priority && class.settable_by.is_empty() {
            warnings.push(format!(
                "rule {} ({rule}) raises no user: any client can write a tag, so class `{}` must say in `settable_by` whose it \
                 obeys",
                place + 1,
                class.name
            ));
        }
        if settings.rules.is_chosen_by_clients(place) && !is_settable_by(class, rule.user.as_ref()) {
            warnings.push(format!(
                "rule {} ({rule}) raises only users in `settable_by` of class `{}`: any client can choose its \
                 `application_name`; name users there, or one `user` in the rule",
                place + 1,
                class.name
            ));
        }
        if rule.fingerprint.is_some() && rule.user.is_none() && class.limits.priority > default.limits.priority {
            warnings.push(format!(
                "rule {} ({rule}) raises any client that sends that text; also name a `user`",
                place + 1
            ));
        }
    }
}

/// Whether some user of a rule, or any user for a rule without users, may choose a class.
fn is_settable_by(class: &ClassSettings, users: Option<&glob::Pattern>) -> bool {
    let Some(users) = users else { return !class.settable_by.is_empty() };
    class.settable_by.iter().any(|those| those == users || those.as_str() == "*")
}

fn about_levers(settings: &Settings, warnings: &mut Vec<String>) {
    let watches = settings.preemption.policy.watches();
    for class in settings.classes.iter().filter(|class| class.preemptible && !class.replay && !class.retries) {
        warnings.push(format!(
            "class `{}` has neither `replay` nor `retries`, so its transactions are never rolled back: set one of them",
            class.name
        ));
    }
    let has_no_control = |class: &&ClassSettings| !class.control_groups.is_empty() && settings.control.is_none();
    for class in settings.classes.iter().filter(has_no_control) {
        warnings.push(format!("class `{}`: `control_groups` need `control`", class.name));
    }
    if settings.control.is_none() && watches {
        let message = "there is no `control`, so nothing is preempted and no share of the cores is changed; \
                       docs/governor-levers.md says which rights its role needs";
        warnings.push(message.to_owned());
    }
    if settings.control.is_some() && watches && !settings.preemption.policy.acts() {
        let message = "preemption only tracks what it would do: write policy = \"pow\" in [preemption] to have it done";
        warnings.push(message.to_owned());
    }
    let is_cancelled = |class: &ClassSettings| class.preemptible && class.retries;
    if settings.is_beside && settings.preemption.policy.acts() && !settings.classes.iter().any(is_cancelled) {
        let message = "no class has preemptible = \"retry-by-application\", so that beside the server nothing is cancelled: \
                       preemptions are counted only";
        warnings.push(message.to_owned());
    }
    for class in settings.classes.iter().filter(|class| settings.governs_direct && class.target.is_some()) {
        warnings.push(format!(
            "class `{}`: only transactions that come through the governor count for its `target`, not those of sessions \
             at the server (`direct_sessions`)",
            class.name
        ));
    }
    if watches && !settings.classes.iter().any(|class| class.preemptible) {
        warnings.push("no class is `preemptible`, so nothing is ever rolled back".to_owned());
    }
    let lowest = settings.classes.iter().map(|class| class.limits.priority).min();
    for class in settings.classes.iter().filter(|class| class.preemptible && Some(class.limits.priority) > lowest) {
        warnings.push(format!("class `{}` is above others and may yet be rolled back for those above it", class.name));
    }
}

fn about_networks(settings: &Settings, warnings: &mut Vec<String>) {
    let is_open = |address: &IpAddr| !address.is_loopback();
    for address in settings.listen.addresses.iter().filter(|address| is_open(&address.ip())) {
        if settings.is_beside {
            warnings.push(format!("{address}: the console can be reached over a network, unencrypted"));
        } else if settings.listen.tls.is_none() {
            warnings.push(format!("{address} can be reached over a network, unencrypted: give [listen.tls]"));
        } else if !settings.listen.tls_required {
            warnings.push(format!("{address} can be reached over a network, also unencrypted: write required = true"));
        }
    }
    if settings.server.socket().is_some() && !settings.is_beside {
        let message = "`server` is a Unix socket, so the server takes every client for the user that the governor runs as: \
                       its pg_hba.conf needs scram-sha-256, not `peer` or `trust`, for `local`";
        warnings.push(message.to_owned());
    }
    if settings.server.socket().is_none()
        && settings.server.ssl_mode >= SslMode::Require
        && settings.listen.tls.is_some()
    {
        warnings.push(BINDING.to_owned());
    }
    if let Some(http) = settings.http.as_ref().filter(|http| is_open(&http.address.ip())) {
        let message = "every client that reaches it sees names of users and databases, without a password";
        warnings.push(format!("the live page at {} can be reached over a network; {message}", http.address));
    }
    for user in &settings.admin.users {
        if Verifier::parse(&user.verifier).is_ok_and(|verifier| verifier.fits(SAMPLE_PASSWORD)) {
            let message = "every user can read it there: `govern --hash-password` makes your own verifier";
            warnings.push(format!(
                "the password of the console's user `{}` is that of the sample, \"{SAMPLE_PASSWORD}\"; {message}",
                user.name
            ));
        }
    }
    for user in settings.break_glass.iter().filter(|user| user.len() > NAME_BYTES_MAX) {
        warnings.push(format!(
            "`break_glass`: no user is called `{user}`, because servers cut names after {NAME_BYTES_MAX} bytes: cut it, too"
        ));
    }
    if settings.admin.users.is_empty() {
        let message = "the console has no users: a [[admin.user]] with what `govern --hash-password` prints";
        warnings.push(message.to_owned());
    }
}
