//! The part of an observation's `results.json` that a sketch is made of.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::kind::{SketchKind, name};
use super::places::{Deed, Parsed, parse};

/// More statements than this are not told apart in tables and reports; those that took less time are left out.
const STATEMENTS_MAX: usize = 40;

/// The file.
#[derive(Debug, Deserialize)]
struct Document {
    kind: String,
    server: Server,
    #[serde(default)]
    calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Server {
    url: String,
}

/// A statement of a class, as the server counted it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Call {
    pub class: String,
    pub database: String,
    pub text: String,
    pub calls_per_s: f64,
    pub mean_s: f64,
    pub rows_per_call: Option<f64>,
}

impl Call {
    fn time(&self) -> f64 {
        self.calls_per_s * self.mean_s
    }
}

/// A statement that may run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SketchStatement {
    /// Its name: the class, then what it does.
    pub name: String,
    pub call: Call,
    pub parsed: Parsed,
    /// Its part of the time of all statements.
    pub share: f64,
}

/// A statement that is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeftOut {
    pub text: String,
    pub class: String,
    /// Its part of the time of all statements.
    pub share: f64,
    pub why: String,
}

/// What was seen of the wanted classes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// The server's URL, without a password.
    pub url: String,
    /// The ones that took most time come first.
    pub statements: Vec<SketchStatement>,
    pub left_out: Vec<LeftOut>,
}

impl Seen {
    /// Reads the folder of an observation. The error names the fault and the remedy.
    pub fn read(kind: &SketchKind) -> Result<Seen, String> {
        let Document { server, calls, .. } = document(&kind.folder)?;
        let calls = calls.ok_or(
            "the observation has no calls of statements: it needs pg_stat_statements on the server (docs/observe.md), and this \
             version of `plimsoll observe`",
        )?;
        let calls = wanted(kind, calls)?;
        Ok(Seen::of(server.url, calls))
    }

    fn of(url: String, mut calls: Vec<Call>) -> Seen {
        calls.sort_by(|one, other| other.time().total_cmp(&one.time()));
        let whole: f64 = calls.iter().map(Call::time).sum();
        let mut seen = Seen { url, statements: Vec::new(), left_out: Vec::new() };
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for call in calls {
            let (parsed, share) = (parse(&call.text), call.time() / whole);
            let is_full = seen.statements.len() >= STATEMENTS_MAX;
            if let Some(why) = obstacle(&call, parsed.deed, is_full) {
                let (text, class) = (call.text, call.class);
                seen.left_out.push(LeftOut { text, class, share, why: why.to_owned() });
                continue;
            }
            let plain = statement_name(&call, &parsed);
            let number = taken.entry(plain.clone()).and_modify(|number| *number += 1).or_insert(1);
            let name = if *number > 1 { format!("{plain}_{number}") } else { plain };
            seen.statements.push(SketchStatement { name, call, parsed, share });
        }
        seen
    }
}

fn document(folder: &Path) -> Result<Document, String> {
    let file = folder.join("results.json");
    let remedy = "name the folder of an observation: plimsoll observe URL --out DIR";
    let text = fs::read(&file).map_err(|error| format!("{}: {error}; {remedy}", file.display()))?;
    let document: Result<Document, _> = serde_json::from_slice(&text);
    let document =
        document.map_err(|error| format!("{} is not of an observation ({error}); {remedy}", file.display()))?;
    match document.kind.as_str() {
        "observation" => Ok(document),
        other => Err(format!("{} is of kind `{other}`, not an observation; {remedy}", file.display())),
    }
}

/// The calls of the wanted class in the wanted database.
fn wanted(kind: &SketchKind, calls: Vec<Call>) -> Result<Vec<Call>, String> {
    let names = |of: fn(&Call) -> &str| {
        let names: std::collections::BTreeSet<&str> = calls.iter().map(of).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let class = |call: &&Call| kind.class.as_ref().is_none_or(|class| *class == call.class);
    if !calls.iter().any(|call| class(&call)) {
        let named = kind.class.as_deref().unwrap_or_default();
        let classes = names(|call| &call.class);
        return Err(match calls.is_empty() {
            true => "no calls of statements were counted; observe while the application works".to_owned(),
            false => format!("no class `{named}` was seen to call statements; these were: {classes}"),
        });
    }
    let mut times: BTreeMap<&str, f64> = BTreeMap::new();
    for call in calls.iter().filter(class) {
        *times.entry(&call.database).or_default() += call.time();
    }
    let most = times.iter().max_by(|one, other| one.1.total_cmp(other.1)).map(|(name, _)| (*name).to_owned());
    let database = kind.database.clone().or(most).unwrap_or_default();
    let found: Vec<Call> = calls.iter().filter(class).filter(|call| call.database == database).cloned().collect();
    match found.is_empty() {
        true => Err(format!(
            "no calls in the database `{database}` were counted; these had some: {}",
            names(|call| &call.database)
        )),
        false => Ok(found),
    }
}

/// Why a statement cannot be part of a sketch, whatever the target.
fn obstacle(call: &Call, deed: Deed, is_full: bool) -> Option<&'static str> {
    Some(match deed {
        _ if call.text.is_empty() => "its text was not visible",
        _ if ["pg_catalog.", "pg_stat_", "information_schema."].iter().any(|name| call.text.contains(name)) => {
            "it reads the server's own catalogs"
        }
        Deed::Adds => "it adds rows, whose keys are not known",
        Deed::Removes => "it removes rows, which would run out",
        Deed::Other => "it is no query",
        Deed::Reads | Deed::Changes if is_full => "others took more time",
        Deed::Reads | Deed::Changes => return None,
    })
}

/// A name: the class, the first word and the first table.
fn statement_name(call: &Call, parsed: &Parsed) -> String {
    let verb = call.text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let table = parsed.tables.first().map(|(table, _)| table.rsplit('.').next().unwrap_or(table));
    let parts = [Some(call.class.as_str()), Some(&verb), table];
    let joined = parts.into_iter().flatten().map(|part| part.trim_matches('"')).collect::<Vec<_>>().join("_");
    let name = name(&joined);
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("c_{name}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn call(class: &str, text: &str, calls_per_s: f64) -> Call {
        let (class, text) = (class.to_owned(), text.to_owned());
        Call { class, database: "shop".to_owned(), text, calls_per_s, mean_s: 0.01, rows_per_call: Some(1.0) }
    }

    #[test]
    fn statements_have_names_of_their_own_and_what_is_left_out_has_a_reason() {
        let seen = Seen::of(
            "postgres://db/shop".to_owned(),
            vec![
                call("shop", "SELECT a FROM public.item WHERE id = $1", 50.0),
                call("shop", "SELECT b FROM item WHERE id = $1", 30.0),
                call("shop", "INSERT INTO item VALUES ($1)", 10.0),
                call("web", "", 5.0),
                call("web", "DELETE FROM item WHERE id = $1", 5.0),
            ],
        );
        let names: Vec<&str> = seen.statements.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["shop_select_item", "shop_select_item_2"]);
        assert_eq!((seen.statements[0].share * 100.0).round(), 50.0);
        let why: Vec<&str> = seen.left_out.iter().map(|one| one.why.as_str()).collect();
        assert_eq!(
            why,
            [
                "it adds rows, whose keys are not known",
                "its text was not visible",
                "it removes rows, which would run out"
            ]
        );
    }

    #[test]
    fn a_class_and_a_database_are_chosen_and_others_are_refused_by_name() {
        let mut calls = vec![call("shop", "SELECT 1", 50.0), call("web", "SELECT 2", 1.0)];
        calls[1].database = "site".to_owned();
        let kind = |text: &str| SketchKind::parse(text).unwrap().unwrap();
        let found = |text: &str| wanted(&kind(text), calls.clone()).map(|calls| calls[0].class.clone());
        assert_eq!(found("sketch:seen").as_deref(), Ok("shop"));
        assert_eq!(found("sketch:seen?class=web").as_deref(), Ok("web"));
        assert_eq!(found("sketch:seen?database=site").as_deref(), Ok("web"));
        let why = found("sketch:seen?class=nightly").unwrap_err();
        assert_eq!(why, "no class `nightly` was seen to call statements; these were: shop, web");
        assert!(found("sketch:seen?class=web&database=shop").unwrap_err().contains("these had some: shop, site"));
    }

    #[test]
    fn other_folders_are_refused_with_the_remedy() {
        let folder = std::env::temp_dir().join(format!("plimsoll-sketch-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let read = || Seen::read(&SketchKind { folder: folder.clone(), ..SketchKind::default() }).unwrap_err();
        let check = |text: Option<&str>, expect: &str| {
            if let Some(text) = text {
                fs::write(folder.join("results.json"), text).unwrap();
            }
            let why = read();
            assert!(why.contains(expect), "{why}");
        };
        check(None, "No such file or directory");
        check(Some("{}"), "is not of an observation");
        check(Some(r#"{"kind": "experiment", "server": {"url": "x"}}"#), "is of kind `experiment`");
        check(Some(r#"{"kind": "observation", "server": {"url": "x"}}"#), "it needs pg_stat_statements");
        fs::remove_dir_all(&folder).unwrap();
    }
}
