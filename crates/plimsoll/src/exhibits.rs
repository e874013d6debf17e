//! The experiments that this program carries: one file in `experiments/`, one line here.

use plimsoll_lab::reproduction::{CarriedFile, Collection};

macro_rules! source {
    ($file:literal) => {
        CarriedFile {
            file: concat!("experiments/", $file),
            text: include_str!(concat!("../../../experiments/", $file)),
        }
    };
}

/// These experiments, with the history of their claims.
pub static COLLECTION: Collection = Collection {
    files: EXHIBITS,
    workload_files: WORKLOAD_FILES,
    claims_lock: include_str!("../../../experiments/claims.lock"),
    causes: include_str!("../../../experiments/causes.toml"),
    runs: include_str!("../../../experiments/runs.jsonl"),
};

/// Every exhibit of the documents.
#[cfg(test)]
static EXHIBIT_LIST: &str = include_str!("../../../experiments/exhibits.toml");

/// Every experiment, in the order in which they are reproduced.
pub static EXHIBITS: &[CarriedFile] = &[
    source!("interference.toml"),
    source!("interference-triples.toml"),
    source!("scalability.toml"),
    source!("scale/workers.toml"),
    source!("scale/frontier-of-four.toml"),
    source!("scale/export-beside.toml"),
    source!("SR/fig2-cores.toml"),
    source!("SR/fig2-cores-postgres.toml"),
    source!("SR/fig2-cores-asdb.toml"),
    source!("SR/fig2-cores-asdb-postgres.toml"),
    source!("SR/fig2-llc.toml"),
    source!("SR/tab4-sufficient-llc.toml"),
    source!("SR/tab4-sufficient-llc-asdb.toml"),
    source!("SR/tab4-sufficient-llc-asdb-postgres.toml"),
    source!("SR/fig3-4-bandwidth.toml"),
    source!("SR/fig3-4-bandwidth-asdb.toml"),
    source!("SR/fig3-4-bandwidth-asdb-postgres.toml"),
    source!("SR/fig5-read-limit.toml"),
    source!("SR/fig5-read-limit-postgres.toml"),
    source!("SR/write-limit.toml"),
    source!("SR/write-limit-asdb.toml"),
    source!("SR/write-limit-postgres.toml"),
    source!("SR/fig6-dop.toml"),
    source!("SR/fig6-dop-postgres.toml"),
    source!("SR/fig8-grant.toml"),
    source!("SR/fig8-work-mem-postgres.toml"),
    source!("SR/fig8-memory.toml"),
    source!("SR/memory-axis.toml"),
    source!("SR/fig2-htap.toml"),
    source!("SR/fig2-htap-postgres.toml"),
    source!("SR/tab4-sufficient-llc-htap.toml"),
    source!("SR/htap-memory-postgres.toml"),
    source!("SR/htap-write-limit.toml"),
    source!("SR/scale.toml"),
    source!("SR/tab3-waits.toml"),
    source!("SR/tab3-waits-postgres.toml"),
    source!("SR/tab3-brokerage.toml"),
    source!("SI/fig3.1-misses-and-top-down.toml"),
    source!("SI/fig3.1-simulated.toml"),
    source!("SI/fig4.1-data-size.toml"),
    source!("SI/fig4.1-simulated.toml"),
    source!("SI/tab4.2-throughput-over-size.toml"),
    source!("SI/tab4.3-rows.toml"),
    source!("SI/tab4.5-index.toml"),
    source!("SI/tab4.5-tpcc.toml"),
    source!("SI/tab4.6-text.toml"),
    source!("SI/tab5.2-models.toml"),
    source!("SI/5.3-projection.toml"),
    source!("SI/5.4-selection.toml"),
    source!("SI/5.4-simulated.toml"),
    source!("SI/5.5-join.toml"),
    source!("SI/5.5-simulated.toml"),
    source!("SI/5.6-tpch-classes.toml"),
    source!("SI/5.6-simulated.toml"),
    source!("SI/tab5.12-mixed.toml"),
    source!("SI/tab6.2-hardware.toml"),
    source!("SI/tab6.4-blocking.toml"),
    source!("SI/6.3.2-inserts.toml"),
    source!("SI/tab6.10-background.toml"),
    source!("SI/tab6.14-query-time.toml"),
    source!("SI/tab6.15-stability.toml"),
    source!("SI/tab6.17-propagation-beside-queries.toml"),
    source!("SI/tab6.18-transactions-beside-queries.toml"),
    source!("SI/tab6.20-siblings.toml"),
    source!("SI/frontier.toml"),
    source!("SI/frontier-postgres.toml"),
    source!("SI/htap-ch-postgres.toml"),
    source!("SI/standby-lag.toml"),
    source!("SI/standby-delay.toml"),
    source!("SI/standby-interference.toml"),
    source!("MW/tab2.1-bottleneck.toml"),
    source!("MW/tab2.1-beyond-memory.toml"),
    source!("MW/fig2.4-waits.toml"),
    source!("MW/fig2.5-nplq.toml"),
    source!("MW/fig2.5-cpu.toml"),
    source!("MW/fig2.6-cpu-bound.toml"),
    source!("MW/fig2.6-cpu-priority-postgres.toml"),
    source!("MW/fig2.7-inherit.toml"),
    source!("MW/fig2.8-cpu-inherit-postgres.toml"),
    source!("MW/fig2.9-inherit-tpcw-postgres.toml"),
    source!("MW/fig2.10-preemption.toml"),
    source!("MW/fig3.3c-3.9c-overhead.toml"),
    source!("MW/fig3.4-wait-counts.toml"),
    source!("MW/fig3.8-preempted.toml"),
    source!("MW/fig3.9-high-share.toml"),
    source!("MW/3.7-lock-statistics.toml"),
    source!("MW/tab3.3-lock-policies.toml"),
    source!("MW/tab3.3-dear-rollback.toml"),
    source!("MW/fig3.10-cr-wdl.toml"),
    source!("MW/fig3.11-queue-time.toml"),
    source!("MW/uncontended-cost.toml"),
    source!("MW/early-lock-release.toml"),
    source!("MW/lock-anchors.toml"),
    source!("MW/lock-anchors-loads.toml"),
    source!("MW/fig4.3-hump.toml"),
    source!("MW/4.6-idd-asdb.toml"),
    source!("MW/4.6-idd-calibrate.toml"),
    source!("MW/4.6-idd-held-out.toml"),
    source!("MW/4.6-idd-tpcc.toml"),
    source!("MW/4.6-idd.toml"),
    source!("GA/fig2-convergence.toml"),
    source!("GA/fig4-static-degrees.toml"),
    source!("GA/fig4c-cost.toml"),
    source!("GA/fig6-adaptive.toml"),
    source!("GA/fig8-contention.toml"),
    source!("GA/robustness.toml"),
    source!("GA/tab5-query-19.toml"),
    source!("GA/sixteen-cores.toml"),
    source!("GA/fig10-robustness-postgres.toml"),
    source!("NO/fig4.toml"),
    source!("NO/fig5.toml"),
    source!("NO/fig6.toml"),
    source!("NO/fig9.toml"),
    source!("NO/fig9-scan-beside-group.toml"),
    source!("NO/fig10.toml"),
    source!("NO/fig11.toml"),
    source!("NO/fig12.toml"),
    source!("NO/pairs-without-cat.toml"),
    source!("NO/fig4-simulated.toml"),
    source!("NO/fig5-simulated.toml"),
    source!("NO/fig6-simulated.toml"),
    source!("NO/one-way-simulated.toml"),
    source!("NO/scheme-simulated.toml"),
    source!("NO/fig9-simulated.toml"),
    source!("NO/fig10-simulated.toml"),
    source!("NO/fig11-simulated.toml"),
    source!("NO/fig12-simulated.toml"),
    source!("governor/lock-bound.toml"),
    source!("governor/deadlocks.toml"),
    source!("governor/cpu-bound.toml"),
    source!("governor/mixed-io.toml"),
    source!("governor/idle-cost.toml"),
    source!("governor/saturated.toml"),
    source!("governor/beside.toml"),
    source!("governor/managed.toml"),
    source!("governor/target-step.toml"),
    source!("governor/slow-disk.toml"),
    source!("governor/overload.toml"),
    source!("governor/saturated-pool.toml"),
    source!("governor/migrations.toml"),
];

/// The files of workloads that experiments have beside them.
static WORKLOAD_FILES: &[CarriedFile] = &[
    source!("governor/overload/tenant.toml"),
    source!("governor/overload/important.toml"),
    source!("governor/migrations/readers.toml"),
    source!("governor/migrations/dump.toml"),
    source!("governor/migrations/alter.toml"),
    source!("governor/migrations/by-hand.toml"),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_lab::claim::first_result::FirstResults;
    use plimsoll_lab::experiment::{Experiment, Terms, parse, resolve};
    use plimsoll_lab::plan::Plan;
    use plimsoll_lab::reproduction::budget::Wanted;
    use plimsoll_lab::reproduction::causes::Causes;
    use plimsoll_lab::reproduction::exercised;
    use plimsoll_lab::reproduction::exhibit_list::{ExhibitList, ListedExperiment};
    use plimsoll_lab::reproduction::{KeptRuns, Reproduction, ReproductionRequest, SittingRequest};

    use super::*;
    use crate::program::BUILD;
    use crate::targets::TARGETS;

    /// An experiment, read as from its place in the source tree, where the files of its workloads are.
    fn experiment(source: &CarriedFile) -> Experiment {
        let file = Path::new("../..").join(source.file).display().to_string();
        parse(source.text, &file).unwrap_or_else(|error| panic!("{error}"))
    }

    fn files(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the source tree") {
            let path = entry.expect("readable").path();
            match path.extension() {
                _ if path.is_dir() => files(&path, found),
                Some(extension) if extension == "toml" => found.push(path.display().to_string()),
                _ => {}
            }
        }
    }

    #[test]
    fn every_experiment_is_listed_and_can_be_run_in_both_forms() {
        let root = Path::new("../..");
        let mut found = Vec::new();
        files(&root.join("experiments"), &mut found);
        found.retain(|file| !["/causes.toml", "/exhibits.toml"].iter().any(|list| file.ends_with(list)));
        let all = || EXHIBITS.iter().chain(WORKLOAD_FILES);
        let listed = |file: &str| all().any(|source| root.join(source.file) == Path::new(file));
        let missing: Vec<&String> = found.iter().filter(|file| !listed(file)).collect();
        assert!(missing.is_empty() && found.len() == all().count(), "not listed in exhibits.rs: {missing:?}");
        for source in EXHIBITS {
            let experiment = experiment(source);
            for quick in [false, true] {
                let plan =
                    resolve(&experiment, &Terms::here(&TARGETS, quick)).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(plan.name, source.name());
            }
        }
    }

    #[test]
    fn the_quick_form_judges_every_claim_or_the_file_says_why_not() {
        let mut wrong = Vec::new();
        for source in EXHIBITS {
            let experiment = experiment(source);
            let plan = resolve(&experiment, &Terms::here(&TARGETS, true)).unwrap_or_else(|error| panic!("{error}"));
            for claim in &plan.claims {
                let remark = format!("# Not judged with --quick: \"{}\", for ", claim.text);
                let why = claim.left_out();
                if why.is_some() != source.text.contains(&remark) {
                    wrong.push(format!("{}: {remark}…: {why:?}", source.file));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "add the points to [quick.sweep], or these lines, and no others:\n{}",
            wrong.join("\n")
        );
    }

    /// A bound at a tenth of the published effect is met by almost anything.
    #[test]
    fn a_claim_demands_half_of_the_published_effect_or_the_file_says_why_not() {
        let mut wrong = Vec::new();
        for source in EXHIBITS {
            let experiment = experiment(source);
            let plan = resolve(&experiment, &Terms::here(&TARGETS, false)).unwrap_or_else(|error| panic!("{error}"));
            for claim in &plan.claims {
                let remark = format!("# Demands less than half of the published effect: \"{}\", for ", claim.text);
                let is_easy = claim.demanded().is_some_and(|part| part < 0.499);
                if is_easy != source.text.contains(&remark) {
                    wrong.push(format!("{}: {remark}…: {:?}", source.file, claim.demanded()));
                }
            }
        }
        assert!(wrong.is_empty(), "raise the bounds, or add these lines, and no others:\n{}", wrong.join("\n"));
    }

    /// The claims of every experiment, by its name.
    fn claims() -> Vec<(String, Vec<String>)> {
        let of = |source: &CarriedFile| {
            let experiment = experiment(source);
            let plan = resolve(&experiment, &Terms::here(&TARGETS, false)).unwrap_or_else(|error| panic!("{error}"));
            (plan.name, plan.claims.into_iter().map(|claim| claim.text).collect())
        };
        EXHIBITS.iter().map(of).collect()
    }

    #[test]
    fn a_claim_is_known_by_its_text_and_causes_are_of_claims() {
        let all = claims();
        for (name, texts) in &all {
            let twice = texts.iter().enumerate().find(|(at, text)| texts[..*at].contains(text));
            assert_eq!(twice, None, "{name} has two claims of one text");
        }
        let causes = Causes::parse(COLLECTION.causes).expect("it can be read");
        for (name, text) in causes.claims() {
            let claims = all.iter().find(|(known, _)| known == name).map(|(_, claims)| claims);
            let is_known = claims.is_some_and(|claims| claims.iter().any(|claim| claim == text));
            assert!(is_known, "experiments/causes.toml: {name} has no claim `{text}`");
        }
        FirstResults::parse(COLLECTION.claims_lock).expect("it can be read");
    }

    fn plan_of(source: &CarriedFile) -> Plan {
        let experiment = experiment(source);
        resolve(&experiment, &Terms::here(&TARGETS, false)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A renamed module would otherwise never make a run stale.
    #[test]
    fn the_code_that_experiments_exercise_exists() {
        let is_known = |part: &str| {
            BUILD
                .sources
                .iter()
                .any(|(unit, _)| *unit == part || unit.split_once('/').is_some_and(|(name, _)| name == part))
        };
        for source in EXHIBITS {
            let parts = exercised::parts(&plan_of(source));
            let unknown: Vec<_> = parts.into_iter().filter(|part| !is_known(part)).collect();
            assert!(unknown.is_empty(), "{}: there is no {unknown:?}; mend exercised.rs", source.file);
        }
    }

    /// The page of each study, by the study's name.
    const STUDIES: [(&str, &str); 5] = [
        ("SR", "resource-sensitivity"),
        ("SI", "micro-architecture"),
        ("MW", "prioritisation"),
        ("GA", "parallel-plans"),
        ("NO", "cache-partitioning"),
    ];

    #[test]
    fn every_exhibit_of_the_documents_is_on_its_page() {
        let list =
            ExhibitList::parse(EXHIBIT_LIST).unwrap_or_else(|error| panic!("experiments/exhibits.toml: {error}"));
        let plans: Vec<Plan> = EXHIBITS.iter().map(plan_of).collect();
        let mut experiments = Vec::new();
        for (source, plan) in EXHIBITS.iter().zip(&plans) {
            let (name, study) = (plan.name.as_str(), plan.study.as_deref());
            experiments.push(ListedExperiment { name, file: source.file, study, is_simulated: plan.is_simulated() });
        }
        let faults = list.faults(&experiments);
        assert!(faults.is_empty(), "experiments/exhibits.toml:\n{}", faults.join("\n"));
        assert!(list.studies().all(|study| STUDIES.iter().any(|(known, _)| *known == study)));
        let runs = KeptRuns::parse(COLLECTION.runs).unwrap_or_else(|error| panic!("experiments/runs.jsonl: {error}"));
        for (study, page) in STUDIES {
            let page = format!("../../docs/studies/{page}.md");
            let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
            let [start, end] = ["<!-- exhibits -->\n", "<!-- end -->"].map(|mark| text.find(mark).expect(mark));
            let start = start + "<!-- exhibits -->\n".len();
            let made = format!("{}{}{}", &text[..start], list.table(study, &experiments, &runs), &text[end..]);
            plimsoll_testing::check_made(&page, &made);
        }
    }

    /// The page without its marks of stale runs, which change with the code.
    fn without_stale(page: &str) -> String {
        let lines = page.lines().filter(|line| !line.contains(" runs are **stale**; "));
        let kept = |line: &str| line.split_once(", **stale**: ").map_or(line, |(before, _)| before).to_owned() + "\n";
        let page: String = lines.map(kept).collect();
        page.replace("\n\n\n", "\n\n")
    }

    #[test]
    fn the_page_is_what_the_runs_give() {
        const PAGE: &str = "../../docs/reproduction.md";
        let page_of_runs = SittingRequest { wanted: Wanted { stale: true, undecided: true }, budget: None };
        let request = ReproductionRequest { sitting: Some(page_of_runs), ..ReproductionRequest::default() };
        let folder = tempfile::tempdir().expect("a folder");
        let reproduction = Reproduction::open(&COLLECTION, request, folder.path(), &TARGETS, BUILD);
        let made = reproduction.unwrap_or_else(|error| panic!("{error}")).page().expect("there are runs");
        let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
        if without_stale(&kept) != without_stale(&made) || std::env::var_os(plimsoll_testing::BLESS).is_some() {
            plimsoll_testing::check_made(PAGE, &made);
        }
    }
}
