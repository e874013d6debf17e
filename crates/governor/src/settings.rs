//! The operator's settings, and what they mean for the levers.

mod address;
pub(crate) mod levers;

pub use address::Address;
pub use levers::Lever;
pub use plimsoll_settings::*;

/// Two classes for tests: `high` for users `high*`, unlimited, and `low` for all others, MPL 1, a queue of 1,
/// preemptible (`pow`, replayed, promoted after 5 rollbacks), ended after 60 s of thinking. Transactions that the
/// server aborts are not replayed.
#[cfg(test)]
pub(crate) fn for_tests() -> Settings {
    use std::time::Duration;

    use plimsoll_policy::{ClassLimits, PreemptionPolicy};

    use crate::config::{Surroundings, parse};

    const TEXT: &str =
        concat!("server = \"postgres://nobody@localhost:1/none\"\n", include_str!("../tests/two_classes.toml"));
    let surroundings = Surroundings { folder: std::path::Path::new("/"), environment: &|_| None, classes: &[] };
    let mut settings = parse(TEXT, "tests.toml", &surroundings).unwrap_or_else(|error| panic!("{error}")).settings;
    for (class, mpl) in settings.classes.iter_mut().zip([None, Some(1)]) {
        class.limits = ClassLimits { mpl, queue_max: mpl, timeout: None, ..class.limits };
    }
    settings.classes[1].idle_in_transaction_timeout = Some(Duration::from_secs(60));
    settings.preemption.policy = PreemptionPolicy::parse("pow").unwrap_or_else(|| panic!("there is such a policy"));
    settings
}
