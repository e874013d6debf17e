//! Statements that an operator governs while the governor runs, as the lines of a settings file that do the same.
//!
//! A governed statement has a rule for its fingerprint before all other rules. It joins a class of the file, or has a class of
//! its own with its limits. [`put_in`] puts these lines into the text of a file, so that they are read and checked as if
//! they stood there; [`Governed::lines`] are those that an operator adds to keep them.

use std::path::Path;

use plimsoll_notation::sql::fingerprint;
use plimsoll_notation::{did_you_mean, toml_string};
use toml::de::DeTable;

use crate::read::tables::tables;
use crate::read::{Surroundings, parse};
use crate::settings::Settings;
use crate::table::CLASS;

/// The digits of a fingerprint.
const DIGITS: usize = 16;

/// The classes that the governor has if the file names none. A file that gets a class must name these, too.
const USUAL_CLASSES: &str =
    "[[class]]\nname = \"high\"\npriority = \"high\"\n\n[[class]]\nname = \"low\"\npriority = \"low\"\n";

/// A statement that is governed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governed {
    /// Its fingerprint.
    pub fingerprint: u64,
    /// The name of its class.
    pub class: String,
    /// The keys of its own class, as they were given; empty if it joins a class of the file.
    pub keys: Vec<(String, String)>,
    /// Whether its rule is gone. Its own class remains, without limits: sessions may be in it.
    pub is_taken_back: bool,
}

impl Governed {
    /// A statement, or its 16 digits, with `class = NAME` for a class that exists, or keys of `[[class]]` for one of its own.
    /// The error says what is wrong.
    pub fn new(statement: &str, keys: Vec<(String, String)>, settings: &Settings) -> Result<Self, String> {
        let fingerprint = fingerprint_of(statement);
        if let [(key, class)] = &keys[..]
            && key == "class"
        {
            let known = || settings.classes.iter().map(|class| class.name.as_str());
            if known().all(|known| known != class) {
                return Err(format!("there is no class `{class}`{}", did_you_mean(class, known())));
            }
            return Ok(Governed { fingerprint, class: class.clone(), keys: Vec::new(), is_taken_back: false });
        }
        check_keys(&keys)?;
        let mut keys = keys;
        if keys.iter().all(|(key, _)| key != "priority") {
            let default = settings.class(settings.rules.default_class());
            keys.insert(0, ("priority".to_owned(), default.limits.priority.to_string()));
        }
        let class = format!("statement-{fingerprint:016x}");
        let statement = Governed { fingerprint, class, keys, is_taken_back: false };
        statement.check_values(settings.is_beside)?;
        Ok(statement)
    }

    /// Reports values that no class has, in whatever file.
    fn check_values(&self, is_beside: bool) -> Result<(), String> {
        let place = "postgres://nobody@localhost/none";
        let mode = if is_beside { "[mode]\nproxy = false\n" } else { "" };
        let text = format!("server = \"{place}\"\ncontrol = \"{place}\"\n{mode}{USUAL_CLASSES}{}", self.class_lines());
        let surroundings = Surroundings { folder: Path::new(""), environment: &|_| None, classes: &[] };
        let faults = parse(&text, "", &surroundings).err().map(|error| error.faults).unwrap_or_default();
        let messages: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
        if messages.is_empty() { Ok(()) } else { Err(messages.join("; ")) }
    }

    /// Whether it has a class of its own.
    pub fn has_own_class(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The limits of its own class in one line: `rate = 5/s, guards = warn`; empty if it joins a class of the file.
    pub fn limits(&self) -> String {
        let limits: Vec<String> = self.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        limits.join(", ")
    }

    /// Whether a file does by itself what this statement needs: it was added there.
    pub fn is_in(&self, file: &Settings) -> bool {
        let class = file.class_named(&self.class);
        let has_rule =
            |rule: &plimsoll_policy::ClassRule| rule.fingerprint == Some(self.fingerprint) && Some(rule.class) == class;
        class.is_some() && (self.has_own_class() || file.rules.rules().iter().any(has_rule))
    }

    /// The lines to add to a file of that text, with comments that say where. The error says why the text is not one of
    /// settings.
    pub fn lines(&self, text: &str) -> Result<String, String> {
        let lines = Lines::of(text, std::slice::from_ref(self))?;
        let mut all = String::new();
        if !lines.rules.is_empty() {
            all = format!("# before the first [[rule]], for the first one that matches decides:\n{}", lines.rules);
        }
        if !lines.classes.is_empty() {
            all += &format!("\n# after the last [[class]]:\n{}", lines.classes);
        }
        Ok(all)
    }

    fn class_lines(&self) -> String {
        // The limits of one that was taken back no longer apply.
        let holds = |(key, _): &&(String, String)| !self.is_taken_back || key == "priority";
        let keys = self.keys.iter().filter(holds).map(|(key, value)| format!("{key} = {}\n", toml_value(key, value)));
        match self.has_own_class() {
            true => format!("[[class]]\nname = {}\n{}", toml_string(&self.class), keys.collect::<String>()),
            false => String::new(),
        }
    }

    fn rule_lines(&self) -> String {
        match self.is_taken_back {
            true => String::new(),
            false => {
                format!("[[rule]]\nclass = {}\nfingerprint = \"{:016x}\"\n", toml_string(&self.class), self.fingerprint)
            }
        }
    }
}

/// The fingerprint of a statement; 16 hexadecimal digits are one themselves.
pub fn fingerprint_of(statement: &str) -> u64 {
    let digits = Some(statement).filter(|text| text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()));
    let given = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    given.unwrap_or_else(|| fingerprint(statement.as_bytes()))
}

/// Reports keys that a class does not have, and a missing one.
fn check_keys(keys: &[(String, String)]) -> Result<(), String> {
    if keys.is_empty() {
        return Err("write what is to hold for it: class = NAME, or limits such as rate = 5/s".to_owned());
    }
    for (place, (key, _)) in keys.iter().enumerate() {
        let known = || CLASS.iter().map(|row| row.key).filter(|key| *key != "name");
        if key == "class" {
            return Err("its class has limits of its own: write class = NAME alone, or leave it out".to_owned());
        }
        if known().all(|known| known != key) {
            return Err(format!("a class has no key `{key}`{}", did_you_mean(key, known())));
        }
        if keys[..place].iter().any(|(other, _)| other == key) {
            return Err(format!("`{key}` is given twice; leave one out"));
        }
    }
    Ok(())
}

/// A word of the console as the value of a class's key in a file.
fn toml_value(key: &str, word: &str) -> String {
    let schema = CLASS.iter().find(|row| row.key == key).map(|row| row.kind.schema().to_string()).unwrap_or_default();
    let takes = |kind: &str| schema.contains(&format!("\"{kind}\""));
    let is_truth = matches!(word, "true" | "false") && takes("boolean");
    if is_truth || word.parse::<i64>().is_ok() && takes("integer") { word.to_owned() } else { toml_string(word) }
}

/// Lines for a file, and where they belong.
struct Lines {
    rules: String,
    /// The place of the first rule; `None` without one.
    rules_at: Option<usize>,
    classes: String,
}

impl Lines {
    fn of(text: &str, governed: &[Governed]) -> Result<Self, String> {
        let root = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
        let root = root.get_ref();
        let mut parts: Vec<String> =
            governed.iter().map(Governed::class_lines).filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() && tables(root, "class").is_empty() {
            parts.insert(0, USUAL_CLASSES.to_owned());
        }
        let rules: Vec<String> = governed.iter().map(Governed::rule_lines).filter(|part| !part.is_empty()).collect();
        let rules_at = tables(root, "rule").first().map(|(_, place)| place.start);
        Ok(Lines { rules: rules.join("\n"), rules_at, classes: parts.join("\n") })
    }
}

/// The text of a settings file with the lines of these statements. The error says why the text is not one of settings.
pub fn put_in(text: &str, governed: &[Governed]) -> Result<String, String> {
    let Lines { rules, rules_at, classes } = Lines::of(text, governed)?;
    let (before, after) = text.split_at(rules_at.unwrap_or(text.len()));
    Ok(format!("{before}\n{rules}\n{after}\n{classes}"))
}

#[cfg(test)]
mod tests;
