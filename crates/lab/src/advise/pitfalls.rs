//! Pitfalls of performance studies that apply to a run, as far as its own figures show, and so to advice based on it
//! (Sen and Ramachandra, *Characterizing Resource Sensitivity of Database Workloads*, section 9).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::results::{Point, Results, WorkloadResult};
use plimsoll_display::{percent, significant};

/// A disk that is busy for this share of the time determines the gain from more of any other resource.
const DISK_BUSY: f64 = 0.5;
/// Writes below this rate are not limited by any disk, megabytes per second.
const WRITE_MB_S: f64 = 1.0;

/// Every pitfall that applies, in the study's order, in sentences.
pub(super) fn of(results: &Results, varied: &str) -> Vec<String> {
    let run = Run { results, varied };
    [run.one_scale(), run.row_store(), run.disk(), run.writes(), run.cores_and_memory(), run.plans(), run.black_box()]
        .into_iter()
        .flatten()
        .collect()
}

struct Run<'a> {
    results: &'a Results,
    varied: &'a str,
}

impl Run<'_> {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.results.points.iter().filter(|point| point.valid)
    }

    fn workloads(&self) -> impl Iterator<Item = &WorkloadResult> {
        self.points().flat_map(|point| &point.workloads)
    }

    /// Whether a key was swept, for any workload, or is varied by the advice.
    fn changes(&self, key: &str) -> bool {
        let is_it = |name: &str| name.split('+').any(|part| part.rsplit('.').next() == Some(key));
        is_it(self.varied) || self.results.experiment.sweep.iter().any(|axis| is_it(&axis.key))
    }

    fn names(&self, is_analytical: bool) -> Vec<&str> {
        let names: BTreeSet<&str> =
            self.workloads().filter(|one| one.analytical == is_analytical).map(|one| one.name.as_str()).collect();
        names.into_iter().collect()
    }

    /// 1: a single class of workloads, or a single scale.
    fn one_scale(&self) -> Option<String> {
        let is_one_class = self.names(true).is_empty() || self.names(false).is_empty();
        let class = if is_one_class { ", and one class of workloads" } else { "" };
        (!self.changes("scale")).then(|| {
            format!(
                "one scale of the data{class} was measured: at others, contention and reading from disk can change performance in either direction"
            )
        })
    }

    /// 2: queries on rows, or transactions on columns.
    fn row_store(&self) -> Option<String> {
        let url = self.results.experiment.settings.get("target.url").and_then(Value::as_str)?;
        let queries = self.names(true);
        (url.starts_with("postgres:") && !queries.is_empty()).then(|| {
            format!(
                "{} read rows: a column store would need a fraction of their cores and bandwidth",
                queries.join(" and ")
            )
        })
    }

    /// 3: the disk's bandwidth, while there are more cores.
    fn disk(&self) -> Option<String> {
        let busiest = self
            .points()
            .filter_map(|point| point.device.io_busy)
            .fold(None, |most: Option<f64>, busy| Some(most.map_or(busy, |most| most.max(busy))));
        match busiest {
            None => Some(
                "how busy the disk was is unknown, so that it may limit what more cores or clients bring".to_owned(),
            ),
            Some(busy) if busy >= DISK_BUSY => Some(format!(
                "the disk was busy for up to {} of the time: more cores or memory bandwidth bring little where it is the limit",
                percent(busy)
            )),
            Some(_) => None,
        }
    }

    /// 4: bandwidth for writing, even of data that fit into memory.
    fn writes(&self) -> Option<String> {
        let transactions = self.names(false);
        let writes = self.points().filter_map(|point| point.device.write_mb_s).fold(0.0, f64::max);
        (!transactions.is_empty() && writes >= WRITE_MB_S && !self.changes("write_mb_s")).then(|| {
            format!(
                "{} wrote up to {} MB/s: on a disk that writes less they are slower even if all data fit into memory",
                transactions.join(" and "),
                significant(writes)
            )
        })
    }

    /// 5: cores and memory as if they were independent.
    fn cores_and_memory(&self) -> Option<String> {
        let memory = ["memory_mib", "memory_grant_mib", "column_memory_mib", "shared_buffers", "work_mem"];
        let has_memory = memory.iter().any(|key| self.changes(key));
        let has_cores = self.changes("cores") || self.changes("dop");
        (has_cores != has_memory).then(|| {
            let (one, other) = if has_cores { ("cores", "memory") } else { ("memory", "cores") };
            format!("{one} changed and {other} did not: what is sufficient of one depends on the other")
        })
    }

    /// 6: other query plans at other settings.
    fn plans(&self) -> Option<String> {
        let mut plans: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for plan in self.points().flat_map(|point| &point.plans) {
            plans.entry((plan.workload.as_str(), plan.query.as_str())).or_default().insert(&plan.hash);
        }
        if plans.is_empty() {
            return (!self.names(true).is_empty())
                .then(|| "query plans were not recorded: at other settings queries may run by other plans".to_owned());
        }
        let several: Vec<&str> =
            plans.iter().filter(|(_, hashes)| hashes.len() > 1).map(|((_, query), _)| *query).collect();
        (!several.is_empty()).then(|| {
            format!(
                "{} ran by different plans at different settings, which the model does not know",
                several.join(", ")
            )
        })
    }

    /// 7: external limits that the database does not know of.
    fn black_box(&self) -> Option<String> {
        (self.changes("cores") && !self.changes("dop") && !self.names(true).is_empty()).then(|| {
            "cores change and the degree of parallelism does not: a database that knows its cores runs queries on fewer threads".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::tests::{EXPERIMENT, alone_only, run};

    fn check(results: &Results, varied: &str, expect: &[&str]) {
        let found = of(results, varied);
        assert_eq!(found.len(), expect.len(), "{found:?}");
        assert!(found.iter().zip(expect).all(|(found, expect)| found.contains(expect)), "{found:?}");
    }

    #[test]
    fn pitfalls_are_those_of_the_run() {
        let plain = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
        let scale = "one scale of the data, and one class of workloads";
        check(&plain, "long.clients", &[scale]);
        check(&plain, "cores", &[scale, "cores changed and memory did not"]);
        let mut busy = plain.clone();
        for point in &mut busy.points {
            point.device.io_busy = Some(0.9);
            point.device.write_mb_s = Some(12.0);
        }
        check(&busy, "long.clients", &[scale, "busy for up to 90 %", "long and short wrote up to 12.0 MB/s"]);
        let mut queries = plain;
        queries.experiment.settings.insert("target.url".to_owned(), "postgres:".into());
        for one in queries.points.iter_mut().flat_map(|point| &mut point.workloads) {
            one.analytical = one.name == "long";
        }
        let expect =
            ["one scale of the data was", "long read rows", "cores changed", "plans were not recorded", "degree"];
        check(&queries, "cores", &expect);
    }
}
