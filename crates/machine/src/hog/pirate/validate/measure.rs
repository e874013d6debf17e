//! The measuring part of validation.

use std::time::Duration;

use super::{Validation, ValidationPoint};
use crate::cpu_time::{current_thread_id, thread_times};
use crate::hog::{HogError, HogPlace, HogSpec, pin};
use crate::host::Host;
use crate::memory_speed::buffer::{Buffer, LINE};
use crate::memory_speed::capacity::missed;
use crate::memory_speed::search::{self, Chase, STEPS};
use crate::memory_speed::{Options, waiting};

const MIB: f64 = 1_048_576.0;

/// The share of the capacity that the chase beside pirates has: the pirate at the knee is half as large and fast, so it
/// touches its lines several times as often, and the chase loses.
const WORKING_SET_SHARE: f64 = 2.0 / 3.0;

/// The minimum working set beside pirates, in multiples of the second level; a smaller one would not need the last
/// level.
const WORKING_SET_MIN: f64 = 2.0;

/// How long chase and pirate compete before the measurement.
const SETTLE: Duration = Duration::from_millis(150);

/// Runs the validation on the first two cores of `options` that share a last-level cache. Takes some ten seconds.
/// `progress` receives the share completed, 0 to 1, and the next step.
///
/// The error says why this machine cannot run it; the notes of the result say what disturbed it.
pub fn validate(options: &Options, progress: &mut dyn FnMut(f64, &str)) -> Result<Validation, String> {
    let llc = options.caches.llc.ok_or("the kernel tells of no last level cache here")?;
    let cores = two_cores(options)?;
    let (tell, told) = std::sync::mpsc::channel::<(f64, String)>();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut tell = |share: f64, what: String| {
                let _ = tell.send((share, what));
            };
            on_this_thread(options, cores, llc, &mut tell).map_err(|error| error.to_string())
        });
        told.iter().for_each(|(share, what)| progress(share, &what));
        thread.join().expect("a thread that measures does not panic")
    })
}

/// Two cores that share the last-level cache, one for the chase and one for the pirate.
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
    llc: u64,
    tell: &mut dyn FnMut(f64, String),
) -> Result<Validation, HogError> {
    pin(cores[0])?;
    let bytes = search::buffer_bytes(&options.caches, llc);
    let mut buffer = Buffer::new(bytes).map_err(HogError::Memory)?;
    let found =
        search::search(&mut buffer, &options.caches, llc, &mut |share, what| tell(share * 0.4, what.to_owned()));
    let mut validation = Validation {
        cores,
        step_mib: found.step_mib,
        hit_and_miss_ns: found.hit_and_miss_ns,
        capacity_mib: found.capacity_mib,
        alone: found.alone,
        working_set_mib: None,
        points: Vec::new(),
        knee_expected_mib: None,
        knee_found_mib: None,
        pirate_lost_mib: None,
        is_shared: None,
        within_one_step: None,
        is_judged: options.guest_of.is_none(),
        notes: notes(options, &buffer),
    };
    let least = options.caches.l2.unwrap_or(0) as f64 * WORKING_SET_MIN / MIB;
    match validation.capacity_mib {
        Some([low, _]) if low * WORKING_SET_SHARE >= least => {
            let working_set = (low * WORKING_SET_SHARE * MIB) as usize / LINE * LINE;
            validation.working_set_mib = Some(working_set as f64 / MIB);
            beside_pirates(&mut buffer, working_set, &mut validation, tell)?;
        }
        Some([low, _]) => validation.notes.push(format!(
            "the {low:.1} MiB that the chase has are too few beside its second level to tell what a pirate takes"
        )),
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

/// The chase beside pirates from none to the whole capacity.
fn beside_pirates(
    buffer: &mut Buffer,
    working_set: usize,
    validation: &mut Validation,
    tell: &mut dyn FnMut(f64, String),
) -> Result<(), HogError> {
    let place = HogPlace { cores: vec![validation.cores[1]], ..HogPlace::default() };
    for step in 0..=STEPS {
        let wanted_mib = step as f64 * validation.step_mib;
        tell(0.4 + 0.6 * step as f64 / (STEPS + 1) as f64, format!("beside a pirate of {wanted_mib:.1} MiB"));
        let spec: HogSpec = if step == 0 { HogSpec::NONE } else { format!("llc:{wanted_mib}").parse()? };
        let mut hog = spec.start(&place)?;
        let mut chase = Chase::through(buffer, working_set);
        chase.round(SETTLE);
        hog.report();
        let chase_ns = chase.latency();
        let report = hog.stop();
        validation.points.push(ValidationPoint {
            wanted_mib,
            held_mib: report.achieved.or((step == 0).then_some(0.0)),
            held_interval_mib: report.interval,
            chase_ns,
            missed: missed(chase_ns, validation.hit_and_miss_ns),
            predicted: 0.0,
        });
    }
    Ok(())
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
