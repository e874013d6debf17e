//! `huge_pages`: whether the kernel backs memory with huge pages of its own accord. For the whole machine.

use std::time::Duration;

use super::{Amount, Control, ControlError, Observation, Place, Subject, Undo, Verdict};
use crate::availability::Availability;
use crate::host::Host;

/// See the module.
#[derive(Debug)]
pub(super) struct HugePages;

const KEY: &str = "huge_pages";
const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const WORDS: [&str; 3] = ["always", "madvise", "never"];

impl Control for HugePages {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "always, madvise or never"
    }

    fn meaning(&self) -> &'static str {
        "transparent huge pages, of the whole machine; memory that is there already keeps its pages"
    }

    fn probe(&self, host: &Host) -> Availability {
        match current(host) {
            None => Availability::no("the kernel has no transparent huge pages", None),
            Some(_) if !host.writable(FILE) => {
                Availability::no(format!("{FILE} is not ours to write"), Some("run as root"))
            }
            Some(word) => Availability::yes(format!("{FILE}, now {word}")),
        }
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        match amount {
            Amount::Text(text) if WORDS.contains(&text.as_str()) => Ok(()),
            _ => Err(ControlError::amount(KEY, amount, "it is `always`, `madvise` or `never`")),
        }
    }

    fn apply(&self, place: &mut Place<'_>, amount: &Amount) -> Result<(), ControlError> {
        self.check(place.host, amount)?;
        let Some(word) = current(place.host) else {
            return Err(ControlError::unavailable(KEY, "the kernel has no transparent huge pages", None));
        };
        let text = amount.to_string();
        place.undo.note(Undo::WriteFile { path: FILE.to_owned(), text: word })?;
        place.host.write(FILE, &text).map_err(|error| ControlError::refused(format!("write {text:?} to"), FILE, error))
    }

    fn observe(&self, _host: &Host, _subject: &Subject) -> Observation {
        Observation::new()
    }

    fn verify(
        &self,
        host: &Host,
        _subject: &Subject,
        amount: &Amount,
        _earlier: &Observation,
        _window: Duration,
    ) -> Verdict {
        match current(host) {
            Some(word) if word == amount.to_string() => Verdict::held(Amount::Text(word)),
            Some(word) => Verdict::escaped(Amount::Text(word), format!("{FILE} was changed by another")),
            None => Verdict::unknown(format!("{FILE} cannot be read")),
        }
    }
}

/// The word in force: the kernel lists all and puts it in brackets.
fn current(host: &Host) -> Option<String> {
    let text = host.text(FILE)?;
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Some(word.unwrap_or(text.as_str()).to_owned())
}
