//! Every exhibit of the documents, `experiments/exhibits.toml`, and the table of them on each study's page.
//!
//! An exhibit has experiments, or a reason why it has none. Nothing is left out in silence.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::{KeptRuns, Tally};
use crate::results::{ClaimVerdict, Mode};

/// The exhibits of every study, by the study's name: `SR`, `SI`, `MW`, `GA`, `NO`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct ExhibitList(BTreeMap<String, StudyExhibits>);

/// The exhibits of a study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyExhibits {
    /// Figures and tables of the document that measure nothing.
    #[serde(default)]
    pub pictures: Vec<String>,
    /// Those that do, in the order of the document.
    pub exhibits: Vec<ListedExhibit>,
    /// Our own experiments that ask further.
    #[serde(default)]
    pub beyond: Vec<ListedExhibit>,
}

/// An exhibit of a document.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedExhibit {
    /// Its name. The names of its experiments begin with it.
    pub id: String,
    /// Where it stands in the document: `fig. 2a, d`.
    #[serde(default)]
    pub of: String,
    /// What it shows.
    pub subject: String,
    /// The hardware that it takes, if not every machine has it.
    #[serde(default)]
    pub needs: Option<String>,
    /// Experiments of it whose names begin otherwise.
    #[serde(default)]
    pub experiments: Vec<String>,
    /// Why no experiment attempts it.
    #[serde(default)]
    pub why: Option<String>,
}

/// An experiment of a study, as far as the table needs it.
#[derive(Debug, Clone, Copy)]
pub struct ListedExperiment<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its file, from the root of the repository.
    pub file: &'a str,
    /// Its study.
    pub study: Option<&'a str>,
    /// Whether it is simulated.
    pub is_simulated: bool,
}

impl ExhibitList {
    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The names of the studies.
    pub fn studies(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The exhibit of an experiment: the one that lists it, or else the one with the longest name that it begins with.
    pub fn of(&self, experiment: &str) -> Option<&ListedExhibit> {
        let all = || self.0.values().flat_map(|study| study.exhibits.iter().chain(&study.beyond));
        let begins = |exhibit: &&ListedExhibit| {
            experiment.strip_prefix(&exhibit.id).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let listing = all().find(|exhibit| exhibit.experiments.iter().any(|name| name == experiment));
        listing.or_else(|| all().filter(begins).max_by_key(|exhibit| exhibit.id.len()))
    }

    /// What is wrong with the list beside these experiments, each fault in a sentence.
    pub fn faults(&self, experiments: &[ListedExperiment<'_>]) -> Vec<String> {
        let mut faults = Vec::new();
        for experiment in experiments.iter().filter(|experiment| experiment.study.is_some()) {
            if self.of(experiment.name).is_none() {
                faults.push(format!(
                    "{} belongs to no exhibit; add one, or name it under `experiments`",
                    experiment.file
                ));
            }
        }
        for exhibit in self.0.values().flat_map(|study| study.exhibits.iter().chain(&study.beyond)) {
            let ListedExhibit { id, why, .. } = exhibit;
            let its = self.experiments_of(exhibit, experiments);
            match (its.is_empty(), why) {
                (true, None) => faults.push(format!("{id} has neither an experiment nor a reason under `why`")),
                (false, Some(_)) => faults.push(format!("{id} has a reason for no experiment, and {}", its[0].file)),
                _ => {}
            }
            let unknown =
                exhibit.experiments.iter().filter(|name| experiments.iter().all(|known| known.name != **name));
            faults.extend(unknown.map(|name| format!("{id} names the experiment {name}, which does not exist")));
        }
        faults
    }

    fn experiments_of<'a>(
        &self,
        exhibit: &ListedExhibit,
        experiments: &[ListedExperiment<'a>],
    ) -> Vec<ListedExperiment<'a>> {
        let is_its = |experiment: &&ListedExperiment<'_>| {
            self.of(experiment.name).is_some_and(|found| std::ptr::eq(found, exhibit))
        };
        experiments.iter().filter(is_its).copied().collect()
    }

    /// The table of a study's exhibits for its page: what came of each, or why it was not attempted. Links lead from
    /// `docs/studies/`. Empty for a study that is not in the list.
    pub fn table(&self, study: &str, experiments: &[ListedExperiment<'_>], runs: &KeptRuns) -> String {
        let mut out = "| exhibit | experiment | form | verdict |\n|---|---|---|---|\n".to_owned();
        let Some(study) = self.0.get(study) else { return String::new() };
        for exhibit in study.exhibits.iter().chain(&study.beyond) {
            let place = if exhibit.of.is_empty() { "ours" } else { &exhibit.of };
            let needs = exhibit.needs.as_ref().map(|needs| format!("needs {needs}"));
            let name = format!("{place}: {}", exhibit.subject);
            let its = self.experiments_of(exhibit, experiments);
            if its.is_empty() {
                let why = exhibit.why.as_deref().unwrap_or("no reason is given");
                let needs = needs.as_deref().unwrap_or("–");
                let _ = writeln!(out, "| {name} | – | {needs} | *not attempted*: {why} |");
            }
            for (at, experiment) in its.iter().enumerate() {
                let (form, verdict) = came_out(experiment, runs);
                let form = needs.iter().cloned().fold(form, |form, needs| format!("{form}; {needs}"));
                let link = format!("[`{}`](../../{})", experiment.name, experiment.file);
                let name = if at == 0 { &name[..] } else { "" };
                let _ = writeln!(out, "| {name} | {link} | {form} | {verdict} |");
            }
        }
        if !study.pictures.is_empty() {
            let _ = writeln!(out, "| {} | – | – | nothing is measured |", study.pictures.join(", "));
        }
        out
    }
}

/// The form of an experiment's last run, and the verdicts on its claims.
fn came_out(experiment: &ListedExperiment<'_>, runs: &KeptRuns) -> (String, String) {
    let run = runs.of(experiment.name);
    let Some((run, measured)) = run.and_then(|run| Some((run, run.measured.as_ref()?))) else {
        let form = if experiment.is_simulated { "simulated" } else { "–" };
        let why = run.and_then(|run| run.why_not_run.as_deref());
        let verdict = why.map_or_else(|| "not run yet".to_owned(), |why| format!("could not be run: {}", cell(why)));
        return (form.to_owned(), verdict);
    };
    let form = match (measured.mode, measured.quick) {
        (Mode::Simulated, true) => "simulated, short",
        (Mode::Simulated, false) => "simulated, full",
        (Mode::SimulatedProcessor, true) => "simulated processor, short",
        (Mode::SimulatedProcessor, false) => "simulated processor, full",
        (Mode::Measured, true) => "short",
        (Mode::Measured, false) => "full",
    };
    let tally = Tally::of(run.claims.iter());
    let counts = ClaimVerdict::ALL.iter().zip(&tally.verdicts).filter(|(_, (_, count))| *count > 0);
    let told = |(verdict, (several, count)): (&ClaimVerdict, &(&str, usize))| {
        if *count == 1 { format!("1 {}", verdict.words()) } else { format!("{count} {several}") }
    };
    let counts: Vec<String> = counts.map(told).collect();
    let left = if measured.runs_left > 0 { ", not finished" } else { "" };
    (form.to_owned() + left, if counts.is_empty() { "no claims".to_owned() } else { counts.join(", ") })
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::reproduction::{ExhibitRun, KeptRun};

    const LIST: &str = r#"
[SR]
pictures = ["fig. 1"]
exhibits = [
    { id = "SR-fig2", of = "fig. 2", subject = "cores", experiments = ["SR-scale"] },
    { id = "SR-fig2-llc", of = "fig. 2b", subject = "cache", needs = "a PMU" },
    { id = "SR-tab3", of = "tab. 3", subject = "waits", why = "no time" },
]
beyond = [{ id = "SR-own", subject = "more" }]
"#;

    fn experiment(name: &'static str) -> ListedExperiment<'static> {
        ListedExperiment { name, file: "experiments/SR/x.toml", study: Some("SR"), is_simulated: false }
    }

    fn list(text: &str) -> ExhibitList {
        ExhibitList::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn an_experiment_belongs_to_the_exhibit_that_it_is_named_after() {
        let list = list(LIST);
        let check = |name: &str, expect: Option<&str>| {
            assert_eq!(list.of(name).map(|exhibit| exhibit.id.as_str()), expect, "{name}");
        };
        check("SR-fig2-cores", Some("SR-fig2"));
        check("SR-fig2-llc-postgres", Some("SR-fig2-llc"));
        check("SR-scale", Some("SR-fig2"));
        check("SR-fig25", None);
    }

    #[test]
    fn nothing_is_left_out_in_silence() {
        let all =
            [experiment("SR-fig2-cores"), experiment("SR-fig2-llc"), experiment("SR-scale"), experiment("SR-own")];
        assert_eq!(list(LIST).faults(&all), [""; 0]);
        let check = |text: &str, more: &[ListedExperiment<'_>], expect: &str| {
            let faults = list(text).faults(&[&all[..], more].concat());
            assert!(faults.len() == 1 && faults[0].contains(expect), "{expect}: {faults:?}");
        };
        check(LIST, &[experiment("SR-fig9")], "belongs to no exhibit");
        check(LIST, &[experiment("SR-tab3-waits")], "SR-tab3 has a reason for no experiment, and ");
        check(&LIST.replace(", why = \"no time\"", ""), &[], "SR-tab3 has neither an experiment nor a reason");
        check(&LIST.replace("[\"SR-scale\"]", "[\"SR-scale\", \"SR-x\"]"), &[], "names the experiment SR-x");
    }

    #[test]
    fn the_table_tells_what_came_of_each() {
        let results = fixture::study();
        let measured = Some(ExhibitRun { quick: true, ..ExhibitRun::of(&results) });
        let mut runs = KeptRuns::default();
        let claims = fixture::poor_study().claims;
        let kept = |name: &str| KeptRun {
            name: name.to_owned(),
            measured: measured.clone(),
            why_not_run: None,
            claims: claims.clone(),
        };
        runs.add(KeptRun { claims: Vec::new(), ..kept("SR-fig2-cores") });
        runs.add(kept("SR-fig2-llc"));
        runs.add(KeptRun { measured: None, why_not_run: Some("no | server".to_owned()), ..kept("SR-own") });
        let all =
            [experiment("SR-fig2-cores"), experiment("SR-fig2-llc"), experiment("SR-scale"), experiment("SR-own")];
        let table = list(LIST).table("SR", &all, &runs);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[2], "| fig. 2: cores | [`SR-fig2-cores`](../../experiments/SR/x.toml) | short | no claims |");
        assert_eq!(rows[3], "|  | [`SR-scale`](../../experiments/SR/x.toml) | – | not run yet |");
        assert!(rows[4].starts_with("| fig. 2b: cache | ") && rows[4].contains(" | short; needs a PMU | "), "{table}");
        assert_eq!(rows[5], "| tab. 3: waits | – | – | *not attempted*: no time |");
        assert!(
            rows[6].starts_with("| ours: more | ") && rows[6].ends_with("could not be run: no \\| server |"),
            "{table}"
        );
        assert_eq!(rows[7], "| fig. 1 | – | – | nothing is measured |");
        assert_eq!(list(LIST).table("XY", &all, &runs), "");
    }
}
