//! Why claims do not hold, as far as the causes are known: `experiments/causes.toml`, by experiment and by the claim's text.
//!
//! The program writes the results. People find the causes and keep them in that file, so that the page can be written
//! again at any time.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Every known cause.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Causes(BTreeMap<String, BTreeMap<String, Cause>>);

/// Why a claim does not hold, or why our figure differs from the published one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// In words, without figures: these come from the measurements.
    pub cause: String,
    /// Whether it is a guess that no measurement has confirmed.
    #[serde(default)]
    pub guess: bool,
}

impl Causes {
    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The cause of this claim's result.
    pub fn of(&self, experiment: &str, claim: &str) -> Option<&Cause> {
        self.0.get(experiment)?.get(claim)
    }

    /// Every experiment and claim with a known cause.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(experiment, claims)| claims.keys().map(|claim| (experiment.as_str(), claim.as_str())))
    }
}
