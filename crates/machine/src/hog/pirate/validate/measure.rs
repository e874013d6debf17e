//! The measuring part of validation.

use std::time::Duration;

use super::{AlonePoint, Validation, ValidationPoint, capacity, is_clear, missed};
use crate::cpu_time::{current_thread_id, thread_times};
use crate::hog::{HogError, HogSpec, Place, pin};
use crate::host::Host;
use crate::memory_speed::buffer::{Buffer, LINE};
use crate::memory_speed::latency;
use crate::memory_speed::{Options, waiting};

const MIB: f64 = 1_048_576.0;

/// Steps in the size of the last level cache that the kernel tells.
const STEPS: usize = 8;

/// Working sets alone, in steps: up to half as much again as the cache.
const STEPS_ALONE: usize = 12;

/// Rounds that a latency is the median of.
const ROUNDS: usize = 5;

/// How often a chase goes through its working set before it is measured, alone: the first pass brings it in.
const PASSES_ALONE: usize = 3;

/// How long chase and pirate fight before it is measured who has what.
const SETTLE: Duration = Duration::from_millis(150);

/// How much one latency takes at least.
const ROUND: Duration = Duration::from_millis(25);

/// Runs the validation on the first two cores of `options` that share a last level cache. Takes some ten seconds.
/// `progress` is told the share that is done, 0 to 1, and what comes next.
///
/// The outer error is a machine that cannot do it, in words; the notes of the result say what disturbs it.
pub fn validate(options: &Options, progress: &mut dyn FnMut(f64, &str)) -> Result<Validation, String> {
    let llc = options.caches.llc.ok_or("the kernel tells of no last level cache here")?;
    let cores = two_cores(options)?;
    let step = llc as usize / STEPS / LINE * LINE;
    let (tell, told) = std::sync::mpsc::channel::<(f64, String)>();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut tell = |share: f64, what: String| {
                let _ = tell.send((share, what));
            };
            on_this_thread(options, cores, step, &mut tell).map_err(|error| error.to_string())
        });
        told.iter().for_each(|(share, what)| progress(share, &what));
        thread.join().expect("a thread that measures does not panic")
    })
}

/// Two cores that share the last level cache, one for the chase and one for the pirate.
fn two_cores(options: &Options) -> Result<[usize; 2], String> {
    let host = Host::real();
    let sharers = |core: usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cache");
        let level = |index: &String| host.value::<u8>(format!("{folder}/{index}/level")).unwrap_or(0);
        let last = host.names(&folder).into_iter().filter(|name| name.starts_with("index")).max_by_key(level)?;
        host.cores(format!("{folder}/{last}/shared_cpu_list"))
    };
    let siblings = |core: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        host.cores(path).unwrap_or_else(|| vec![core])
    };
    let (Some(&first), Some(shared)) = (options.cores.first(), options.cores.first().and_then(|core| sharers(*core)))
    else {
        return Err("the kernel does not tell which cores share a cache here".to_owned());
    };
    let beside = |core: &&usize| shared.contains(core) && !siblings(first).contains(core);
    match options.cores.iter().find(beside) {
        Some(second) => Ok([first, *second]),
        None => Err(format!("no other core that may be used shares the last level cache of core {first}")),
    }
}

fn on_this_thread(
    options: &Options,
    cores: [usize; 2],
    step: usize,
    tell: &mut dyn FnMut(f64, String),
) -> Result<Validation, HogError> {
    pin(cores[0])?;
    let beyond = options.caches.beyond_caches(1).max(step * STEPS_ALONE);
    let mut buffer = Buffer::new(beyond).map_err(|error| HogError::Memory { error })?;
    tell(0.0, "loads from memory".to_owned());
    let miss_ns = chase(&mut buffer, beyond, 0);
    let mut times = Vec::new();
    for place in 1..=STEPS_ALONE {
        tell(0.05 + 0.35 * place as f64 / STEPS_ALONE as f64, format!("alone within {} MiB", (place * step) >> 20));
        times.push((place * step, chase(&mut buffer, place * step, PASSES_ALONE)));
    }
    // The smallest is far below the cache and far above the second level: what it takes is a hit.
    let hit_and_miss_ns = [times[0].1, miss_ns];
    let alone: Vec<AlonePoint> = times
        .iter()
        .map(|(bytes, chase_ns)| AlonePoint {
            mib: *bytes as f64 / MIB,
            chase_ns: *chase_ns,
            missed: missed(*chase_ns, hit_and_miss_ns),
        })
        .collect();
    let mut validation = Validation {
        cores,
        step_mib: step as f64 / MIB,
        hit_and_miss_ns,
        capacity_mib: is_clear(hit_and_miss_ns).then(|| capacity(&alone)).flatten(),
        alone,
        working_set_mib: None,
        points: Vec::new(),
        knee_expected_mib: None,
        knee_found_mib: None,
        within_one_step: None,
        is_judged: options.guest_of.is_none(),
        notes: notes(options, &buffer),
    };
    match validation.capacity_mib {
        Some(capacity) => {
            // Half of what there is, in whole steps: as far from fitting alone as from filling the cache.
            let working_set = ((capacity[0] * MIB / 2.0) as usize / step).max(1) * step;
            validation.working_set_mib = Some(working_set as f64 / MIB);
            validation.points = beside_pirates(&mut buffer, cores[1], working_set, step, hit_and_miss_ns, tell)?;
        }
        None => validation.notes.push(
            "the chase alone has no clear knee: either it misses from the smallest working set on, because others have \
             the cache, or nowhere"
                .to_owned(),
        ),
    }
    if let Some(disturbed) = thread_times(current_thread_id()).and_then(waiting) {
        validation.is_judged = false;
        validation.notes.push(disturbed);
    }
    validation.conclude();
    Ok(validation)
}

/// The chase beside pirates from none to nearly the whole cache.
fn beside_pirates(
    buffer: &mut Buffer,
    core: usize,
    working_set: usize,
    step: usize,
    hit_and_miss_ns: [f64; 2],
    tell: &mut dyn FnMut(f64, String),
) -> Result<Vec<ValidationPoint>, HogError> {
    let mut points = Vec::with_capacity(STEPS);
    for place in 0..STEPS {
        let wanted_mib = (place * step) as f64 / MIB;
        tell(0.4 + 0.6 * place as f64 / STEPS as f64, format!("beside a pirate of {wanted_mib} MiB"));
        let spec: HogSpec = if place == 0 { HogSpec::NONE } else { format!("llc:{wanted_mib}").parse()? };
        let mut hog = spec.start(&Place { cores: vec![core], ..Place::default() })?;
        let mut at = latency::prepare(buffer, working_set, working_set / LINE);
        latency::round(buffer, &mut at, SETTLE);
        hog.report();
        let chase_ns = median((0..ROUNDS).map(|_| latency::round(buffer, &mut at, ROUND)));
        let report = hog.stop();
        points.push(ValidationPoint {
            wanted_mib,
            held_mib: report.achieved.or((place == 0).then_some(0.0)),
            held_interval_mib: report.interval,
            chase_ns,
            missed: missed(chase_ns, hit_and_miss_ns),
            predicted: 0.0,
        });
    }
    Ok(points)
}

/// The time of a load, ns, within `bytes` that have been passed through so often.
fn chase(buffer: &mut Buffer, bytes: usize, passes: usize) -> f64 {
    let mut at = latency::prepare(buffer, bytes, bytes / LINE * passes);
    median((0..ROUNDS).map(|_| latency::round(buffer, &mut at, ROUND)))
}

fn median(rounds: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = rounds.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn notes(options: &Options, buffer: &Buffer) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(host) = &options.guest_of {
        notes.push(format!(
            "this is a guest ({host}): other guests, unseen from here, may use this cache, so that this shows what there \
             was to see and is not judged"
        ));
    }
    if let Some(share) = buffer.huge_share().filter(|share| *share < 0.9) {
        notes.push(format!(
            "only {:.0} % of the chase lies in huge pages: conflicts and misses of the TLB blur the knee",
            share * 100.0
        ));
    }
    notes
}
