//! The text form of a hog: `cpu:1`, `llc:8`, `none`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{HOGS, HogError, HogKind};

const NONE: &str = "none";

/// A kind of hog and its strength, or none.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct HogSpec {
    wanted: Option<(&'static dyn HogKind, f64)>,
}

impl HogSpec {
    /// No hog: the baseline of comparisons.
    pub const NONE: HogSpec = HogSpec { wanted: None };

    /// The kind; `None` for no hog.
    pub fn kind(&self) -> Option<&'static dyn HogKind> {
        self.wanted.map(|wanted| wanted.0)
    }

    /// How strong, in the unit of its kind; 0 for no hog.
    pub fn strength(&self) -> f64 {
        self.wanted.map_or(0.0, |wanted| wanted.1)
    }

    /// Every form that can be typed, one per line with its meaning.
    pub fn help() -> String {
        let line = |form: String, meaning: &str| format!("{form:<18} {meaning}\n");
        let kinds = HOGS.iter().map(|kind| line(format!("{}:{}", kind.key(), kind.unit()), kind.meaning()));
        kinds.chain([line(NONE.to_owned(), "no hog")]).collect()
    }
}

impl FromStr for HogSpec {
    type Err = HogError;

    fn from_str(text: &str) -> Result<HogSpec, HogError> {
        let wrong = |why: String| HogError::Spec { text: text.to_owned(), why };
        let text = text.trim();
        if text == NONE {
            return Ok(HogSpec::NONE);
        }
        let (key, strength) = text.split_once(':').unwrap_or((text, ""));
        let kind = *HOGS.iter().find(|kind| kind.key() == key.trim()).ok_or_else(|| {
            let forms: Vec<String> = HOGS.iter().map(|kind| format!("{}:{}", kind.key(), kind.unit())).collect();
            wrong(format!("there are {} and {NONE}", forms.join(", ")))
        })?;
        let fits = |number: &f64| number.is_finite() && (*number > 0.0 || (*number == 0.0 && kind.may_be_idle()));
        let number = strength.trim().parse::<f64>().ok().filter(fits);
        let least = if kind.may_be_idle() { "from 0 on" } else { "above 0" };
        let strength =
            number.ok_or_else(|| wrong(format!("after `{key}:` comes a number {least}, in {}", kind.unit())))?;
        match kind.refuse(strength) {
            Some(why) => Err(wrong(why)),
            None => Ok(HogSpec { wanted: Some((kind, strength)) }),
        }
    }
}

impl TryFrom<String> for HogSpec {
    type Error = HogError;

    fn try_from(text: String) -> Result<HogSpec, HogError> {
        text.parse()
    }
}

impl From<HogSpec> for String {
    fn from(spec: HogSpec) -> String {
        spec.to_string()
    }
}

impl fmt::Display for HogSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wanted {
            Some((kind, strength)) => write!(out, "{}:{strength}", kind.key()),
            None => out.write_str(NONE),
        }
    }
}

impl fmt::Debug for HogSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HogSpec({self})")
    }
}

impl PartialEq for HogSpec {
    fn eq(&self, other: &HogSpec) -> bool {
        let key = |spec: &HogSpec| spec.wanted.map(|wanted| wanted.0.key());
        key(self) == key(other) && self.strength() == other.strength()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_typed() {
        let check = |text: &str, expect: &str| {
            let spec: HogSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), expect);
            assert_eq!(expect.parse::<HogSpec>().unwrap(), spec);
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<HogSpec>(&json).unwrap(), spec);
        };
        check("none", "none");
        check("cpu:1", "cpu:1");
        check(" llc : 2.5 ", "llc:2.5");
        check("llc:0", "llc:0");
        check("bandwidth:4000", "bandwidth:4000");
        check("disk:50", "disk:50");
        check("disk-read:0.5", "disk-read:0.5");
        assert_ne!("cpu:1".parse::<HogSpec>().unwrap(), "cpu:2".parse().unwrap());
    }

    #[test]
    fn what_cannot_says_what_can() {
        let check = |text: &str, expect: &str| {
            let error = text.parse::<HogSpec>().unwrap_err().to_string();
            assert!(error.contains(expect) && error.contains(text), "{error}");
        };
        check("", "cpu:threads, llc:MiB, bandwidth:MB/s, disk:MB/s, disk-read:MB/s and none");
        check("gpu:1", "there are cpu");
        check("none:1", "there are cpu");
        check("cpu", "after `cpu:` comes a number above 0, in threads");
        check("cpu:", "a number above 0");
        check("cpu:-1", "a number above 0");
        check("cpu:0", "a number above 0");
        check("llc:-1", "a number from 0 on");
        check("llc:inf", "a number from 0 on");
        check("llc:NaN", "a number from 0 on");
        check("cpu:1.5", "whole");
        check("cpu:100000", "threads");
        check("llc:1e9", "MiB");
        check("bandwidth:1e-9", "MB/s");
    }

    #[test]
    fn every_kind_has_its_line_of_help() {
        let help = HogSpec::help();
        assert_eq!(help.lines().count(), HOGS.len() + 1);
        for kind in HOGS {
            assert!(help.contains(kind.meaning()) && help.contains(&format!("{}:{}", kind.key(), kind.unit())));
        }
        let keys: std::collections::BTreeSet<&str> = HOGS.iter().map(|kind| kind.key()).collect();
        assert_eq!(keys.len(), HOGS.len(), "a word for each");
    }
}
