//! The load of each workload: its clients, or the rate at which its requests arrive.

use std::collections::BTreeMap;

use plimsoll_workload::driver::Delay;
use serde_json::Value;

use super::inputs::{Inputs, Setting};
use super::points::{RequestedMix, RequestedWorkload};
use crate::analysis::cells::Cell;

impl<'a> Inputs<'a> {
    /// The number of clients of a workload in these runs.
    pub(super) fn clients(&self, cell: &Cell<'_>) -> Option<u32> {
        cell.runs.first().map(|run| self.cells.result(cell, *run).clients as u32)
    }

    /// A workload with the load that the experiment gives it: of what is swept, one client, and the first think time
    /// and rate.
    pub(super) fn usual(&self, workload: &str) -> RequestedWorkload {
        let fixed = self.results.experiment.settings.get(&format!("{workload}.clients"));
        let clients = fixed.and_then(Value::as_u64).map_or(1, |clients| clients as u32);
        match self.results.points.first() {
            Some(point) => self.asked(&point.setting, workload, clients),
            None => self.asked(&Setting::new(), workload, clients),
        }
    }

    /// The key of a workload's load: its rate if its requests arrive at one, else its clients.
    pub(super) fn load_key(&self, workload: &str) -> String {
        format!("{workload}.{}", if self.usual(workload).rate.is_some() { "rate" } else { "clients" })
    }

    /// The load of a workload in these runs, in the unit of the wanted one.
    pub(super) fn load(&self, cell: &Cell<'_>, wanted: &RequestedWorkload) -> Option<f64> {
        match wanted.rate {
            Some(_) => self.rate(cell.setting, cell.workload),
            None => self.clients(cell).map(f64::from),
        }
    }

    /// How often the load of a workload, its clients or its rate, must be halved or doubled to come within the measured
    /// range of the workload alone and, if there are any, of mixes; 0 within.
    fn doublings(&self, base: &Setting, member: &RequestedWorkload) -> f64 {
        let load = load_of(member);
        if load <= 0.0 {
            return 0.0;
        }
        let cells = self.cells.of_workload(&member.name).filter(|cell| base_of(cell.setting) == *base);
        let (alone, mixes): (Vec<_>, Vec<_>) = cells.partition(|cell| cell.arm.starts_with("alone:"));
        let beyond = |cells: &[&Cell<'a>]| {
            let measured = cells.iter().filter_map(|cell| self.load(cell, member)).filter(|load| *load > 0.0);
            let (least, most) = measured.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), one| (a.min(one), b.max(one)));
            (most > 0.0).then(|| (least / load).max(load / most).log2().max(0.0))
        };
        beyond(&alone).unwrap_or(0.0).max(beyond(&mixes).unwrap_or(0.0))
    }

    /// Whether an arm of this run had exactly these workloads with these loads, on as many cores.
    pub(super) fn has_measured(&self, asked: &RequestedMix) -> bool {
        if asked.cores.is_some_and(|cores| cores != self.cores_at(&asked.base)) {
            return false;
        }
        let load =
            |member: &RequestedWorkload| (member.clients, member.think_s.to_bits(), member.rate.map(f64::to_bits));
        let there = asked.members.iter().filter(|member| member.clients > 0);
        let wanted: BTreeMap<&str, _> = there.map(|member| (member.name.as_str(), load(member))).collect();
        let mut mixes: Vec<(&Cell<'a>, BTreeMap<&str, _>)> = Vec::new();
        for name in self.cells.workloads() {
            for cell in self.cells.of_workload(name).filter(|cell| base_of(cell.setting) == asked.base) {
                let Some(clients) = self.clients(cell) else { continue };
                let member = (cell.workload, load(&self.asked(cell.setting, cell.workload, clients)));
                match mixes.iter_mut().find(|(mix, _)| mix.arm == cell.arm && mix.setting == cell.setting) {
                    Some((_, members)) => drop(members.insert(member.0, member.1)),
                    None => mixes.push((cell, BTreeMap::from([member]))),
                }
            }
        }
        mixes.iter().any(|(_, members)| *members == wanted)
    }

    /// How far a mix lies beyond the measured range, in doublings of loads or cores; 0 for one that was measured itself.
    pub(super) fn doublings_beyond(&self, asked: &RequestedMix) -> f64 {
        if self.has_measured(asked) {
            return 0.0;
        }
        let of_members = asked.members.iter().map(|member| self.doublings(&asked.base, member));
        let ran_on = f64::from(self.cores_at(&asked.base).max(1));
        let of_cores = asked.cores.map(|cores| (f64::from(cores.max(1)) / ran_on).log2().abs());
        of_members.chain(of_cores).fold(0.0, f64::max)
    }

    /// Mean seconds that clients of a workload think between requests.
    pub(super) fn think_s(&self, swept: &Setting, workload: &str) -> f64 {
        self.delay_s(swept, workload, "think")
    }

    /// Mean seconds of a delay of a workload's clients: `think`, or `round_trip`.
    pub(super) fn delay_s(&self, swept: &Setting, workload: &str, key: &str) -> f64 {
        let text = self.setting(swept, workload, key).and_then(Value::as_str);
        text.and_then(|text| text.parse::<Delay>().ok()).map_or(0.0, |delay| delay.mean().as_secs_f64())
    }

    /// Requests of a workload per second that arrive however fast answers come; `None` if each client waits for its own
    /// answer.
    pub(super) fn rate(&self, swept: &Setting, workload: &str) -> Option<f64> {
        self.setting(swept, workload, "rate").and_then(Value::as_f64)
    }

    /// A workload in a mix, with the load that these settings give it and this number of clients.
    pub(super) fn asked(&self, swept: &Setting, workload: &str, clients: u32) -> RequestedWorkload {
        RequestedWorkload {
            name: workload.to_owned(),
            clients,
            think_s: self.think_s(swept, workload),
            rate: self.rate(swept, workload),
            measured: None,
        }
    }
}

/// Requests per second of an open workload, clients of another.
pub(super) fn load_of(member: &RequestedWorkload) -> f64 {
    member.rate.unwrap_or(f64::from(member.clients))
}

/// Swept settings without those that determine the load.
pub(super) fn base_of(setting: &Setting) -> Setting {
    let is_load = |key: &str| {
        key.split('+').all(|part| matches!(part.rsplit('.').next().unwrap_or(part), "clients" | "think" | "rate"))
    };
    setting.iter().filter(|(key, _)| !is_load(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
