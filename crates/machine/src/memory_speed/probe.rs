//! All measurements of memory, one after the other.

use std::time::{Duration, Instant};

use super::bandwidth::{self, Bandwidth, Rounds};
use super::buffer::Buffer;
use super::latency::{self, CurvePoint, LevelLatency};
use super::{MemorySpeed, Options, loaded, search};
use crate::cpu_time::{ThreadTimes, current_thread_id, thread_times};
use crate::hog::pin;
use crate::space::available_memory;

/// The share of the free memory that one measurement may take.
const MEMORY_SHARE: f64 = 0.25;

/// Below this share of huge pages a note is made.
const HUGE_SHARE_MIN: f64 = 0.9;

/// The number and length of rounds, and the sizes.
struct Plan {
    bandwidth: Rounds,
    latency: Rounds,
    loaded: Rounds,
    per_doubling: u32,
    largest: usize,
    /// After this time, the remaining latencies get one round each.
    hurry_after: Duration,
    loaded_shares: &'static [f64],
}

impl Plan {
    fn of(options: &Options) -> Plan {
        let rounds = |count, milliseconds| Rounds { count, each: Duration::from_millis(milliseconds) };
        // The largest working set in multiples of the last-level cache; its maximum, also used where caches are not
        // reported.
        let (times, most) = if options.quick { (4, 256 << 20) } else { (8, 1 << 30) };
        let room = available_memory().map_or(u64::MAX, |room| (room as f64 * MEMORY_SHARE) as u64);
        let wanted = options.caches.llc.or(options.caches.l2).map_or(most, |last| last * times);
        let largest = wanted.min(most).min(room) as usize;
        if options.quick {
            let loaded_shares = &[0.3, 0.7];
            let (bandwidth, latency, loaded) = (rounds(3, 15), rounds(3, 3), rounds(3, 15));
            let hurry_after = Duration::from_millis(1200);
            Plan { bandwidth, latency, loaded, per_doubling: 1, largest, hurry_after, loaded_shares }
        } else {
            let loaded_shares = &[0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9];
            let (bandwidth, latency, loaded) = (rounds(7, 60), rounds(7, 10), rounds(7, 40));
            let hurry_after = Duration::from_secs(6);
            Plan { bandwidth, latency, loaded, per_doubling: 2, largest, hurry_after, loaded_shares }
        }
    }
}

pub(super) fn measure(options: &Options, progress: &mut dyn FnMut(f64, &str)) -> MemorySpeed {
    let begin = Instant::now();
    let plan = Plan::of(options);
    let mut speed = MemorySpeed {
        quick: options.quick,
        cores: options.cores.clone(),
        caches: options.caches.clone(),
        huge_page_share: None,
        bandwidth: Vec::new(),
        curve: Vec::new(),
        levels: Vec::new(),
        llc_seen_bytes: None,
        loaded: Vec::new(),
        took_s: 0.0,
        notes: Vec::new(),
    };
    measure_bandwidth(options, &plan, &mut speed, progress);
    measure_latency(options, &plan, &mut speed, progress);
    progress(0.7, "latency of memory under load");
    measure_loaded(options, &plan, &mut speed);
    progress(1.0, "done");
    speed.took_s = begin.elapsed().as_secs_f64();
    add_notes(options, &mut speed);
    speed
}

fn measure_bandwidth(options: &Options, plan: &Plan, speed: &mut MemorySpeed, progress: &mut dyn FnMut(f64, &str)) {
    let first = &options.cores[..options.cores.len().min(1)];
    let socket_of = |cores: &[usize]| {
        let inside = |(_, known): &&(i64, Vec<usize>)| cores.iter().all(|core| known.contains(core));
        options.sockets.iter().find(inside).map(|known| known.0)
    };
    let mut groups = vec![first.to_vec()];
    if options.cores.len() > 1 {
        groups.push(options.cores.clone());
    }
    if options.sockets.len() > 1 {
        groups.extend(options.sockets.iter().map(|socket| socket.1.clone()).filter(|cores| cores.len() > 1));
    }
    let count = groups.len();
    for (place, cores) in groups.into_iter().enumerate() {
        progress(0.3 * place as f64 / count as f64, &format!("bandwidth of {} cores", cores.len()));
        let room = available_memory().map_or(f64::MAX, |room| room as f64 * MEMORY_SHARE);
        let bytes = options.caches.beyond_caches(cores.len());
        if (bytes * cores.len()) as f64 > room {
            let needed = (bytes * cores.len()) >> 20;
            speed.notes.push(format!("bandwidth of {} cores takes {needed} MiB of memory, too much here", cores.len()));
            continue;
        }
        match bandwidth::measure(&cores, bytes, plan.bandwidth) {
            Ok(figures) => speed.bandwidth.extend(figures.into_iter().map(|(pattern, rate)| {
                let socket = socket_of(&cores);
                Bandwidth { pattern, cores: cores.clone(), socket, rate }
            })),
            Err(why) => speed.notes.push(format!("no bandwidth of cores {cores:?}: {why}")),
        }
    }
}

/// The result of the thread that chases.
struct Curve {
    points: Vec<CurvePoint>,
    levels: Vec<LevelLatency>,
    /// The levels that the curve does not show.
    notes: Vec<String>,
    /// How much of the last level the core has, bytes.
    seen: Option<[u64; 2]>,
    huge_share: Option<f64>,
    times: Option<ThreadTimes>,
}

/// A thread that waits for its core for at least this share of its time is reported.
const WAITING_MIN: f64 = 0.05;

/// The note on a thread that had to wait for its core; `None` if it did not.
pub(crate) fn waiting(times: ThreadTimes) -> Option<String> {
    let share = times.wait.as_secs_f64() / (times.run + times.wait).as_secs_f64();
    (share >= WAITING_MIN).then(|| {
        format!(
            "the core of the chases was busy with other work {:.0} % of the time: measure again when it is idle",
            share * 100.0
        )
    })
}

fn measure_latency(options: &Options, plan: &Plan, speed: &mut MemorySpeed, progress: &mut dyn FnMut(f64, &str)) {
    let begin = Instant::now();
    let core = options.cores.first().copied().unwrap_or(0);
    let curve = |progress: &mut (dyn FnMut(f64, &str) + Send)| -> Result<Curve, String> {
        pin(core).map_err(|error| error.to_string())?;
        let mut buffer = Buffer::new(plan.largest).map_err(|error| error.to_string())?;
        let sizes = latency::sizes(plan.largest, plan.per_doubling);
        let count = sizes.len() as f64;
        let mut curve = Vec::with_capacity(sizes.len());
        for (place, bytes) in sizes.into_iter().enumerate() {
            progress(0.3 + 0.3 * place as f64 / count, &format!("latency within {} KiB", bytes >> 10));
            // On a machine whose cores are busy this would take minutes, so take fewer rounds there.
            let rounds = if begin.elapsed() < plan.hurry_after { plan.latency.count } else { 1 };
            curve.extend(latency::measure(&mut buffer, bytes, rounds, plan.latency.each));
        }
        let (levels, notes) = latency::levels(&curve, &options.caches);
        let seen = latency::llc_seen(&curve, &levels);
        // The kernel of a guest may report its host's whole cache; four times that exceeds any chase.
        let seen = seen.or_else(|| {
            let tell = &mut |share, what: &str| progress(0.6 + 0.1 * share, what);
            let found = search::search(&mut buffer, &options.caches, options.caches.llc?, tell);
            Some(found.capacity_mib?.map(|mib| (mib * f64::from(1 << 20)) as u64))
        });
        let times = thread_times(current_thread_id());
        Ok(Curve { points: curve, levels, notes, seen, huge_share: buffer.huge_share(), times })
    };
    // On a separate thread, so that the caller's affinity stays; its progress goes through a channel.
    let (tell, told) = std::sync::mpsc::channel::<(f64, String)>();
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            curve(&mut |share, what| {
                let _ = tell.send((share, what.to_owned()));
            })
        });
        told.iter().for_each(|(share, what)| progress(share, &what));
        thread.join().expect("a thread that measures does not panic")
    });
    match result {
        Ok(Curve { points, levels, notes, seen, huge_share, times }) => {
            speed.llc_seen_bytes = seen;
            (speed.curve, speed.levels, speed.huge_page_share) = (points, levels, huge_share);
            speed.notes.extend(notes);
            speed.notes.extend(times.and_then(waiting));
        }
        Err(why) => speed.notes.push(format!("no latencies: {why}")),
    }
}

fn measure_loaded(options: &Options, plan: &Plan, speed: &mut MemorySpeed) {
    // Traffic on another socket would go to other memory.
    let cores = options.sockets.first().map_or(&options.cores, |socket| &socket.1);
    if cores.len() < 2 {
        speed.notes.push("no latency under load: that takes a second core on the same socket".to_owned());
        return;
    }
    match loaded::measure(&options.caches, cores, plan.loaded_shares, plan.loaded) {
        Ok(points) => speed.loaded = points,
        Err(error) => speed.notes.push(format!("no latency under load: {error}")),
    }
}

/// Adds caveats about the origin of the figures.
fn add_notes(options: &Options, speed: &mut MemorySpeed) {
    if let Some(host) = &options.guest_of {
        speed.notes.push(format!(
            "this is a guest ({host}): other guests, unseen from here, may share its last level cache and its memory \
             bandwidth, so that figures of both are what they left"
        ));
    }
    if let (Some(told), Some([low, high])) = (options.caches.llc, speed.llc_seen_bytes)
        && high <= told
    {
        speed.notes.push(format!(
            "the kernel tells of a last level cache of {} MiB, and a core has {} to {} MiB of it: the rest is taken or kept \
             from it by others",
            told >> 20,
            low >> 20,
            high >> 20
        ));
    }
    match speed.huge_page_share {
        Some(share) if share < HUGE_SHARE_MIN => speed.notes.push(format!(
            "only {:.0} % of the memory was in huge pages: latencies of large working sets have misses of the TLB in \
             them (remedy: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)",
            share * 100.0
        )),
        Some(_) => {}
        None if speed.curve.is_empty() => {}
        None => speed.notes.push("whether memory was in huge pages is not told by the kernel".to_owned()),
    }
    let figures = (speed.bandwidth.iter().map(|one| &one.rate))
        .chain(speed.levels.iter().map(|level| &level.latency))
        .chain(speed.loaded.iter().map(|point| &point.latency));
    let (noisy, all) = figures.fold((0, 0), |(noisy, all), figure| (noisy + usize::from(figure.is_noisy()), all + 1));
    if noisy > 0 {
        speed.notes.push(format!(
            "{noisy} of {all} figures vary by more than a fifth between rounds: others use this machine"
        ));
    }
}
