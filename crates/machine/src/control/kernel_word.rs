//! Settings of the whole machine that are a word in a file of the kernel.

use super::{Amount, Control, ControlContext, ControlError, Undo, Unknown, Verdict, Window};
use crate::availability::Availability;
use crate::host::Host;

#[derive(Debug)]
pub(super) struct KernelWord {
    pub key: &'static str,
    /// The valid words, as a list for people.
    pub unit: &'static str,
    pub meaning: &'static str,
    pub file: &'static str,
    /// Each word, and the content of the file that it means.
    pub words: &'static [(&'static str, &'static str)],
    /// Why the file may be missing.
    pub absent: &'static str,
    /// The word that describes a machine without the file, if any.
    pub absent_is: Option<&'static str>,
}

impl KernelWord {
    /// The present word. If the kernel lists all words that it knows, the one in brackets.
    fn held(&self, host: &Host) -> Option<String> {
        let Some(text) = host.text(self.file) else { return self.absent_is.map(str::to_owned) };
        let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Some(chosen.unwrap_or(text.trim()).to_owned())
    }

    /// The word for a file's content, or the content itself.
    fn word(&self, held: String) -> String {
        self.words.iter().find(|(_, text)| *text == held).map_or(held, |(word, _)| (*word).to_owned())
    }

    fn text(&self, amount: &Amount) -> Result<&'static str, ControlError> {
        let Amount::Text(text) = amount else { return Err(self.no_word(amount)) };
        let found = self.words.iter().find(|(word, _)| word == text);
        found.map(|(_, text)| *text).ok_or_else(|| self.no_word(amount))
    }

    fn no_word(&self, amount: &Amount) -> ControlError {
        let words: Vec<String> = self.words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let (last, others) = words.split_last().expect("a control has words");
        ControlError::amount(self.key, amount, format!("it is {} or {last}", others.join(", ")))
    }
}

impl Control for KernelWord {
    fn key(&self) -> &'static str {
        self.key
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn probe(&self, host: &Host) -> Availability {
        let file = self.file;
        match self.held(host) {
            None => Availability::no(self.absent, None),
            Some(held) if !host.exists(file) => {
                Availability::yes(format!("{}: as good as {}", self.absent, self.word(held)))
            }
            Some(_) if !host.writable(file) => {
                Availability::no(format!("{file} is not ours to write"), Some("run as root"))
            }
            Some(held) => Availability::yes(format!("{file}, now {}", self.word(held))),
        }
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        self.text(amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let (path, text) = (self.file, self.text(amount)?);
        let held = self.held(context.host).ok_or_else(|| ControlError::unavailable(self.key, self.absent, None))?;
        if held == text {
            return Ok(());
        }
        context.undo.note(Undo::WriteFile { path: path.to_owned(), text: held })?;
        context.host.write(path, text).map_err(|error| ControlError::refused(format!("write {text:?} to"), path, error))
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let held = self.held(window.host).ok_or_else(|| format!("{} cannot be read", self.file))?;
        let word = self.word(held);
        if word == window.amount.to_string() {
            return Ok(Verdict::held(Amount::Text(word)));
        }
        Ok(Verdict::escaped(Amount::Text(word), format!("{} was changed by another", self.file)))
    }
}
