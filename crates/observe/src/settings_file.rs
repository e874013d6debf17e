//! A settings file for a governor, from an observation, with a reason for every line that is not a default.
//!
//! Work that was observed to be long gets the class `low`. All other work is `high`, so that sessions do not wait if
//! they were not observed, or not clearly. The file rolls nothing back: the policy is `track`, until an operator has
//! seen what it would do.

use plimsoll_pg::url::{ServerHost, ServerUrl};
use plimsoll_settings::write::Writer;

use crate::results::{Login, Observation, ProposedClass};
use plimsoll_display::one_line;

/// The text of `plimsoll.toml`.
pub fn settings_file(observation: &Observation, url: &ServerUrl) -> String {
    let mut file = Writer::default();
    head(&mut file, observation, url);
    console(&mut file);
    classes(&mut file, observation);
    rules(&mut file, observation);
    file.gap()
        .table("preemption")
        .comment(
            "track: decide which transactions to roll back and count them, but roll back nothing. Once the counts look",
        )
        .comment("right (SHOW PREEMPTIONS), write \"pow\".")
        .set("policy", "track");
    levers(&mut file, observation);
    file.text().to_owned()
}

fn head(file: &mut Writer, observation: &Observation, url: &ServerUrl) {
    comment(
        file,
        &format!(
            "Proposed by plimsoll {} from {:.0} s of PostgreSQL {}, begun {}.",
            observation.plimsoll, observation.seconds, observation.server.version, observation.started
        ),
    );
    comment(
        file,
        "Read it, then run `govern --check --connect --config FILE`. docs/governor-settings.md explains every key.",
    );
    for missing in &observation.missing {
        comment(file, &format!("Not seen: {} ({}).", missing.what, missing.why));
    }
    file.gap().set("server", server_url(url, None));
    file.comment(
        "The role that reads which sessions wait for which, and cancels statements. Create it once, as a superuser:",
    )
    .comment("  CREATE ROLE plimsoll LOGIN PASSWORD '…'; GRANT pg_signal_backend TO plimsoll;")
    .set("control", server_url(url, Some("plimsoll")))
    .comment("Work that was not seen, or not clearly, does not wait for admission.")
    .set("default_class", "high");
}

/// The console has no user without a password, which only the operator can choose.
fn console(file: &mut Writer) {
    file.gap().comment("The console (SHOW, PAUSE) has no user yet. `govern --hash-password` prints a verifier:");
    let mut user = Writer::default();
    user.table("admin.user").set("name", "admin").set("verifier", "SCRAM-SHA-256$…").set("may_change", true);
    user.text().trim().lines().for_each(|line| comment(file, line));
}

fn classes(file: &mut Writer, observation: &Observation) {
    file.gap().table("class").set("name", "high").set("priority", "high");
    file.gap().table("class").set("name", "low").set("priority", "low");
    let low: Vec<&ProposedClass> = of(observation, "low").collect();
    let in_progress: f64 = low.iter().map(|class| class.in_progress).sum::<f64>() + 0.0;
    let most: usize = low.iter().filter_map(|class| class.most_in_progress).sum();
    let cores = observation.server.cores;
    // Half of the cores, so that important work finds one; if they are not known, half of the sessions observed.
    let mpl = cores.map_or((in_progress / 2.0).ceil() as usize, |cores| cores / 2).max(1);
    let sharing = low.iter().filter(|class| class.shares_snapshot).filter_map(|class| class.most_in_progress);
    let sharing: usize = sharing.sum();
    if sharing > mpl {
        comment(
            file,
            &format!(
                "{sharing} transactions shared a snapshot, as those of pg_dump --jobs do: one of them stays open until all others \
                 have begun, so they must fit in together."
            ),
        );
    }
    let mpl = mpl.max(sharing);
    let by = cores.map_or("half of that".to_owned(), |cores| format!("half of the server's {cores} cores"));
    comment(
        file,
        &format!(
            "How many of its transactions run at once. On average {in_progress:.1} were in progress, at most {most}."
        ),
    );
    if in_progress > mpl as f64 {
        comment(file, &format!("The limit is {by}; the others are queued."));
        file.set("mpl", mpl as i64);
    } else {
        comment(file, &format!("That is within {by} or one, so no limit is needed now:"));
        file.propose("mpl", mpl as i64);
    }
    let idle = observation.idle_in_transaction.iter();
    let thinker = idle.filter(|idle| low.iter().any(|class| class.login == idle.login));
    if let Some(idle) =
        thinker.max_by(|one, other| one.blocked_s.total_cmp(&other.blocked_s)).filter(|it| it.blocked_s > 0.0)
    {
        comment(
            file,
            &format!(
                "{} let others wait for {:.1} s in all while it was idle in transaction, {:.1} s at a stretch. This would end such",
                idle.login.user, idle.blocked_s, idle.longest_s
            ),
        );
        comment(file, "sessions; with retries = true instead, the policy pow rolls their transactions back:");
        // Half of the observed time, so that it would have ended that transaction.
        let timeout_ms = ((idle.longest_s * 5.0).round() * 100.0).max(100.0);
        file.propose("idle_in_transaction_timeout", format!("{timeout_ms}ms")).propose("retries", true);
    }
}

/// Rules for important and low work. The first that matches decides, and a rule without an application matches every
/// application, so those with one come first.
fn rules(file: &mut Writer, observation: &Observation) {
    let named = |class: &&ProposedClass| !class.login.application.is_empty();
    let (named, unnamed): (Vec<_>, Vec<_>) = observation.classes.iter().partition(named);
    for class in named.into_iter().chain(unnamed) {
        let all_s = observation.time.response_s;
        let Login { user, database, application } = &class.login;
        let of_all = if all_s > 0.0 { class.response_s / all_s } else { 0.0 };
        file.gap();
        if class.standing == "undecided" {
            let called = if application.is_empty() { "" } else { ", application " };
            let who = format!("{user}, database {database}{called}{application}");
            comment(file, &format!("User {who} is neither clearly important nor low: {}.", class.reason));
            if !needs_rule(observation, class) {
                continue;
            }
        } else {
            comment(
                file,
                &format!("{:.0} % of all response time. {}: {}.", of_all * 100.0, class.standing, class.reason),
            );
        }
        if let Some(statement) = &class.statement {
            comment(file, &format!("Transactions that begin with: {statement}"));
        }
        let name = if class.standing == "low" { "low" } else { "high" };
        file.table("rule").set("class", name);
        for (key, value) in [("user", user), ("database", database), ("application_name", application)] {
            if !value.is_empty() {
                file.set(key, glob::Pattern::escape(value));
            }
        }
        file.set_if("fingerprint", class.fingerprint.as_deref());
    }
}

/// Whether a rule for all applications of its user would make it low.
fn needs_rule(observation: &Observation, class: &ProposedClass) -> bool {
    let any_application = Login { application: String::new(), ..class.login.clone() };
    let covers = |low: &ProposedClass| low.login == any_application && low.statement.is_none();
    of(observation, "low").any(covers)
}

fn levers(file: &mut Writer, observation: &Observation) {
    file.gap();
    comment(
        file,
        "The time that important work spent behind less important work; an upper bound of the possible gain:",
    );
    for lever in &observation.governor.levers {
        let bound = match (lever.upper_bound_s, lever.of_important) {
            (Some(time_s), Some(share)) => format!("{time_s:.1} s, {:.0} % of its response time", share * 100.0),
            (Some(_), None) => "no important work was seen".to_owned(),
            (None, _) => "not visible".to_owned(),
        };
        comment(file, &format!("  {}: {bound} ({})", lever.what, lever.lever));
    }
}

fn of<'a>(observation: &'a Observation, standing: &'a str) -> impl Iterator<Item = &'a ProposedClass> {
    observation.classes.iter().filter(move |class| class.standing == standing)
}

/// One line of a comment, with control characters replaced.
fn comment(file: &mut Writer, words: &str) {
    /// A statement may be long; its fingerprint identifies it.
    const WIDTH: usize = 300;
    let words: String = one_line(words).chars().take(WIDTH).collect();
    file.comment(&words);
}

/// The server's URL, with or without a user; the password is left out.
fn server_url(url: &ServerUrl, user: Option<&str>) -> String {
    let login = user.map_or(String::new(), |user| format!("{user}@"));
    let database = if user.is_some() { "postgres" } else { "" };
    let mode = format!("sslmode={}", url.ssl_mode.name());
    match &url.host {
        ServerHost::Tcp(_) => format!("postgres://{login}{}/{database}?{mode}", url.address()),
        ServerHost::Socket(folder) => {
            // Characters with a meaning in URLs are percent-encoded.
            let folder: String = folder
                .to_string_lossy()
                .bytes()
                .map(|byte| match byte {
                    b'/' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
                    byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                    byte => format!("%{byte:02X}"),
                })
                .collect();
            format!("postgres://{login}/{database}?host={folder}&port={}&{mode}", url.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_pg::scram::server::hash_password;
    use plimsoll_settings::read::{Config, Surroundings, parse};

    use super::*;
    use crate::counted::CounterHistory;
    use crate::ledger::Ledger;
    use crate::testing::observation_of;

    fn class(user: &str, standing: &str, fingerprint: Option<&str>) -> ProposedClass {
        ProposedClass {
            name: user.to_owned(),
            login: Login {
                user: user.to_owned(),
                database: "sh*op\"\\".to_owned(),
                application: "night[ly]\n".to_owned(),
            },
            statement: fingerprint.map(|_| "select\nsum(?)".to_owned()),
            fingerprint: fingerprint.map(str::to_owned),
            standing: standing.to_owned(),
            reason: "it is".to_owned(),
            response_s: 2.0,
            in_progress: 3.0,
            most_in_progress: Some(7),
            shares_snapshot: false,
        }
    }

    fn proposed(classes: Vec<ProposedClass>, url: &str) -> (String, Config) {
        let url = ServerUrl::parse_in(url, &|name| (name == "USER").then(|| "ann".to_owned())).unwrap();
        let observation = Observation { classes, ..observation_of(&Ledger::default(), &CounterHistory::default()) };
        let text = settings_file(&observation, &url);
        let folder = Path::new("/");
        let environment = |name: &str| (name == "USER").then(|| "ann".to_owned());
        let surroundings = Surroundings { folder, environment: &environment, classes: &[] };
        let config = parse(&text, "p.toml", &surroundings).unwrap_or_else(|error| panic!("{error}\n{text}"));
        (text, config)
    }

    #[test]
    fn a_governor_understands_it_whatever_names_are_in_it() {
        let classes = vec![
            class("bat\"ch", "low", None),
            class("shop", "low", Some("0123456789abcdef")),
            class("web", "important", None),
            class("new\n[[class]]", "undecided", None),
        ];
        let (text, config) = proposed(classes, "postgres://db.example:5433/shop?sslmode=require");
        let settings = config.settings;
        assert_eq!(settings.server.address(), "db.example:5433");
        assert_eq!(settings.control.map(|url| (url.user, url.database)), Some(("plimsoll".into(), "postgres".into())));
        let rules: Vec<String> = settings.rules.rules().iter().map(ToString::to_string).collect();
        assert_eq!(rules.len(), 3, "{text}");
        assert!(rules[0].starts_with("user bat\"ch, database sh[*]op\"\\, application_name night"), "{rules:?}");
        assert!(rules[1].contains("fingerprint 0123456789abcdef") && rules[2].starts_with("user web"), "{rules:?}");
        // Half of the two cores of the server.
        let low = settings.classes.iter().find(|class| class.name == "low").unwrap();
        assert_eq!(low.limits.mpl, Some(1), "{text}");
        assert!(text.contains("# User new [[class]], database"), "{text}");
    }

    #[test]
    fn what_has_no_name_does_not_take_what_has_one_with_it() {
        let of = |application: &str, standing: &str| {
            let class = class("shop", standing, None);
            let (database, application) = ("shop".to_owned(), application.to_owned());
            ProposedClass { login: Login { database, application, ..class.login }, ..class }
        };
        let classes = vec![of("", "low"), of("web", "important"), of("new", "undecided")];
        let (text, config) = proposed(classes, "postgres://db.example/shop");
        let class = |application: &str| {
            let login = plimsoll_policy::Login {
                user: "shop".to_owned(),
                database: "shop".to_owned(),
                application_name: application.to_owned(),
            };
            let class = config.settings.rules.of_login(&login).class;
            config.settings.classes[usize::from(class.0)].name.clone()
        };
        assert_eq!([class(""), class("psql"), class("web"), class("new")], ["low", "low", "high", "high"], "{text}");
    }

    /// Four sessions of `pg_dump --jobs` were seen, and mpl = 1 was proposed. Its first session stays in a transaction
    /// while the others are queued behind it, and waits for them: the dump never ended.
    #[test]
    fn sessions_that_share_a_snapshot_fit_in_together() {
        let sharing = ProposedClass { shares_snapshot: true, ..class("dump", "low", None) };
        let (text, config) = proposed(vec![sharing], "postgres://db.example/shop");
        let low = config.settings.classes.iter().find(|class| class.name == "low").unwrap();
        assert!(low.limits.mpl.is_none_or(|mpl| mpl >= 7), "{text}");
        assert!(text.contains("shared a snapshot") && text.contains("# mpl = 7"), "{text}");
    }

    /// Nobody could log in to the console of a governor with the proposed file, and nothing in it said how.
    #[test]
    fn the_user_of_the_console_needs_only_a_verifier() {
        let (text, config) = proposed(Vec::new(), "postgres://db.example/shop");
        assert!(config.settings.admin.users.is_empty(), "nobody chose a password");
        let begin = text.find("# [[admin.user]]").expect(&text);
        let end = begin + text[begin..].find("may_change = true").expect(&text);
        let opened = text[begin..end + 17].replace("# ", "").replace("SCRAM-SHA-256$…", &hash_password("secret"));
        let text = format!("{}{opened}{}", &text[..begin], &text[end + 17..]);
        let surroundings = Surroundings {
            folder: Path::new("/"),
            environment: &|name| (name == "USER").then(|| "ann".to_owned()),
            classes: &[],
        };
        let config = parse(&text, "p.toml", &surroundings).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config.settings.admin.users.len(), 1);
    }

    #[test]
    fn a_socket_and_a_quiet_server_will_do() {
        let url = "postgres:///?host=/tmp/a b&port=5499";
        let (text, config) = proposed(Vec::new(), &url.replace(' ', "%20"));
        assert_eq!(config.settings.server.address(), "/tmp/a b/.s.PGSQL.5499");
        assert!(text.contains("# mpl = 1"), "{text}");
    }
}
