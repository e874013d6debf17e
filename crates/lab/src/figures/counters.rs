//! Hardware counters of a workload's threads: events, and the use of the processor's slots.

use plimsoll_machine::cache_miss::CacheMissBreakdown;
use plimsoll_machine::top_down::TopDown;

use super::{ClaimName, Figure, FigureSource, FigureSubject, FigureValue, Merge, Reading, Unit, by, by_word, known};
use crate::results::Counters;

pub(super) const FIGURES: &[Figure] = &[
    event("counters.cycles", "cycles", "core cycles, user mode", |of| per_request(of, |one| one.cycles)),
    event("counters.instructions", "instructions", "instructions retired, user mode", |of| {
        per_request(of, |one| one.instructions)
    }),
    event("counters.kernel_instructions", "kernel_instructions", "instructions retired, kernel mode", |of| {
        per_request(of, |one| one.kernel_instructions)
    }),
    event("counters.spin_instructions", "spin_instructions", "instructions spent waiting for spin locks", |of| {
        per_request(of, |one| one.spin_instructions)
    }),
    event("counters.l1d_misses", "l1d_misses", "first-level data cache load misses", |of| {
        per_request(of, |one| one.l1d_misses)
    }),
    event("counters.l2_misses", "l2_misses", "second-level cache misses", |of| per_request(of, |one| one.l2_misses)),
    event("counters.llc_misses", "llc_misses", "last-level cache misses", |of| per_request(of, |one| one.llc_misses)),
    event("counters.branches", "branches", "branches", |of| per_request(of, |one| one.branches)),
    event("counters.branch_misses", "branch_misses", "mispredicted branches", |of| {
        per_request(of, |one| one.branch_misses)
    }),
    event("counters.dtlb_misses", "dtlb_misses", "loads whose page had to be looked up in the page table", |of| {
        per_request(of, |one| one.dtlb_misses)
    }),
    event("counters.dram_read_bytes", "dram_read_bytes", "bytes read from memory", |of| {
        per_request(of, |one| one.dram_read_bytes)
    }),
    rate("counters.ipc", Unit::Ratio, "instructions per core cycle", |of| {
        over(of, |one| one.instructions, |one| one.cycles)
    }),
    rate("counters.l1d_mpki", Unit::PerThousandInstructions, "first-level data cache load misses", |of| {
        over(of, |one| one.l1d_misses, |one| one.instructions).map(|ratio| ratio * 1000.0)
    }),
    rate("counters.llc_mpki", Unit::PerThousandInstructions, "last-level cache misses", |of| {
        over(of, |one| one.llc_misses, |one| one.instructions).map(|ratio| ratio * 1000.0)
    }),
    rate("counters.branch_mpki", Unit::PerThousandInstructions, "mispredicted branches", |of| {
        over(of, |one| one.branch_misses, |one| one.instructions).map(|ratio| ratio * 1000.0)
    }),
    slots("top_down.retiring", "retiring", "slots whose work was kept", |of| top_down(of, |one| one.retiring)),
    slots("top_down.bad_speculation", "bad_speculation", "slots whose work was thrown away", |of| {
        top_down(of, |one| one.bad_speculation)
    }),
    slots("top_down.frontend", "frontend", "slots lost because no instructions were ready", |of| {
        top_down(of, |one| one.frontend)
    }),
    slots("top_down.backend", "backend", "slots lost because the core could not accept instructions", |of| {
        top_down(of, |one| one.backend)
    }),
    slots("top_down.memory", "memory", "the part of backend that waited for memory", |of| {
        top_down(of, |one| one.memory)
    }),
    slots("top_down.core", "core", "the rest of backend", |of| top_down(of, |one| one.core)),
    slots("top_down.l1", "l1", "the part of memory that waited for the first-level cache", |of| {
        deeper(of, |one| Some(one.memory_levels?.l1))
    }),
    slots("top_down.l2", "l2", "the part of memory that waited for the second level", |of| {
        deeper(of, |one| Some(one.memory_levels?.l2))
    }),
    slots("top_down.l3", "l3", "the part of memory that waited for the third level", |of| {
        deeper(of, |one| Some(one.memory_levels?.l3))
    }),
    slots("top_down.dram", "dram", "the part of memory that waited for memory itself", |of| {
        deeper(of, |one| Some(one.memory_levels?.dram))
    }),
    slots("top_down.store", "store", "the part of memory that waited for room for stores", |of| {
        deeper(of, |one| Some(one.memory_levels?.store))
    }),
    slots("top_down.latency", "latency", "the part of frontend in which nothing was delivered", |of| {
        deeper(of, |one| one.front_end.latency)
    }),
    slots("top_down.bandwidth", "bandwidth", "the part of frontend in which too little was delivered", |of| {
        deeper(of, |one| one.front_end.bandwidth)
    }),
    slots("top_down.icache", "icache", "the part of latency that waited for code or its address", |of| {
        deeper(of, |one| one.front_end.icache)
    }),
    slots(
        "top_down.branch_resteers",
        "branch_resteers",
        "the part of latency after wrong predictions of branches",
        |of| deeper(of, |one| one.front_end.branch_resteers),
    ),
    slots("top_down.decoding", "decoding", "the rest of latency, and bandwidth", |of| {
        deeper(of, |one| one.front_end.decoding)
    }),
    slots("top_down.branch_misprediction", "branch_misprediction", "bad_speculation and branch_resteers", |of| {
        deeper(of, TopDown::branch_misprediction)
    }),
    misses("cache_misses.l2", "l2", "time that misses served by the second level would cost one after another", |of| {
        cache_misses(of, |one| Some(one.l2))
    }),
    misses("cache_misses.llc", "llc", "the same of misses served by the last level", |of| {
        cache_misses(of, |one| Some(one.llc))
    }),
    misses("cache_misses.dram", "dram", "the same of misses served by memory", |of| {
        cache_misses(of, |one| Some(one.dram))
    }),
    misses("cache_misses.memory", "memory", "the three together", |of| cache_misses(of, |one| Some(one.memory))),
    misses("cache_misses.disagreement", "disagreement", "memory less what top-down says was lost to memory", |of| {
        cache_misses(of, |one| one.disagreement)
    }),
    misses("cache_misses.icache", "icache", "share by misses of code", |of| cache_misses(of, |one| one.icache)),
    Figure {
        key: "simulated.shared_hit_ratio",
        unit: Unit::Share,
        meaning: "hits of the shared cache over the references that reached it; of simulations only",
        merge: Merge::Together,
        of: FigureSubject::Workload,
        claim: by("llc_hit_ratio"),
        read: FigureSource::Plain(|of| {
            let simulated = of.workload.simulated.as_ref();
            let simulated = simulated.ok_or("it is known of simulations only (plimsoll simulate)")?;
            known(simulated.shared_hit_ratio(), "no reference reached the shared cache")
        }),
    },
];

const NOT_COUNTED: &str = "it was not counted";

const fn event(
    key: &'static str,
    subject: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    counted(key, Unit::PerRequest, by_word("per_request", subject), meaning, read)
}

const fn rate(key: &'static str, unit: Unit, meaning: &'static str, read: fn(&Reading<'_>) -> FigureValue) -> Figure {
    counted(key, unit, None, meaning, read)
}

const fn counted(
    key: &'static str,
    unit: Unit,
    claim: Option<ClaimName>,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    Figure {
        key,
        unit,
        meaning,
        merge: Merge::Together,
        of: FigureSubject::Workload,
        claim,
        read: FigureSource::Plain(read),
    }
}

const fn slots(
    key: &'static str,
    part: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Share, Merge::Runs, FigureSubject::Workload);
    Figure { key, unit, meaning, merge, of, claim: by_word("top_down", part), read: FigureSource::Plain(read) }
}

const fn misses(
    key: &'static str,
    part: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Ratio, Merge::Runs, FigureSubject::Workload);
    Figure { key, unit, meaning, merge, of, claim: by_word("cache_misses", part), read: FigureSource::Plain(read) }
}

fn per_request(of: &Reading<'_>, event: fn(&Counters) -> Option<u64>) -> FigureValue {
    let count = of.workload.counters.as_ref().and_then(event).ok_or(NOT_COUNTED)? as f64;
    if of.part.completed == 0 { Err("no request completed".to_owned()) } else { Ok(count / of.part.completed as f64) }
}

fn over(of: &Reading<'_>, part: fn(&Counters) -> Option<u64>, whole: fn(&Counters) -> Option<u64>) -> FigureValue {
    let ratio = of.workload.counters.as_ref().and_then(|one| {
        let whole = whole(one).filter(|whole| *whole > 0)?;
        Some(part(one)? as f64 / whole as f64)
    });
    ratio.ok_or_else(|| NOT_COUNTED.to_owned())
}

fn top_down(of: &Reading<'_>, part: fn(&TopDown) -> Option<f64>) -> FigureValue {
    known(of.workload.top_down.as_ref().and_then(part), NOT_COUNTED)
}

/// A part of level 2 of the frontend, or of level 3.
fn deeper(of: &Reading<'_>, part: fn(&TopDown) -> Option<f64>) -> FigureValue {
    let told = of.workload.top_down.as_ref().ok_or(NOT_COUNTED)?;
    known(part(told), "this processor's events do not go as deep (docs/machine.md, top-down)")
}

fn cache_misses(of: &Reading<'_>, part: fn(&CacheMissBreakdown) -> Option<f64>) -> FigureValue {
    known(of.workload.cache_misses.as_ref().and_then(part), NOT_COUNTED)
}
