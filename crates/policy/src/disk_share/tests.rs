//! The limit on a simulated disk.

use std::time::Duration;

use super::*;

const WINDOW: Duration = Duration::from_millis(200);
const BOUNDS: DiskBounds = DiskBounds { floor_share: 0.5, floor_bytes_per_s: 1_000_000 };

/// A disk on which each important statement reads a page, and scans read as much as they are allowed.
#[derive(Debug, Clone, Copy)]
struct Disk {
    /// Bytes per second that it gives.
    capacity: f64,
    /// Bytes per second that scans would like.
    scans: f64,
    /// Important statements per second, the time that each takes on a core, and for a page of a disk that is idle.
    statements_per_s: f64,
    on_core_s: f64,
    page_s: f64,
    /// Whether scans make others wait.
    is_shared: bool,
}

const SLOW: Disk = Disk {
    capacity: 125e6,
    scans: 400e6,
    statements_per_s: 200.0,
    on_core_s: 0.000_2,
    page_s: 0.000_5,
    is_shared: true,
};

impl Disk {
    /// Seconds that an important statement waits for a page beside that much reading: longer as the disk fills.
    fn wait_s(&self, scans: f64) -> f64 {
        let full = (scans / self.capacity).min(0.99);
        if self.is_shared { self.page_s + 0.002 * full.powi(4) / (1.0 - full) } else { self.page_s }
    }

    fn sight(&self, limit: Option<u64>, noise: &mut Noise) -> DiskSight {
        let scans = self.scans.min(limit.map_or(f64::INFINITY, |limit| limit as f64)).min(self.capacity * 0.99);
        let waiting = self.statements_per_s * self.wait_s(scans) * noise.next();
        let on_cores = self.statements_per_s * self.on_core_s * noise.next();
        let scans = scans * noise.next();
        DiskSight {
            window: WINDOW,
            important: waiting + on_cores,
            waiting,
            ended: (self.statements_per_s * WINDOW.as_secs_f64()) as u64,
            yielding_bytes_per_s: scans,
            all_bytes_per_s: scans + self.statements_per_s * 8192.0,
            busy: Some((scans / self.capacity + 0.1).min(1.0)),
            waited: None,
        }
    }
}

/// Factors around 1, the same in each run.
struct Noise {
    state: u64,
    width: f64,
}

impl Noise {
    fn of(width: f64) -> Noise {
        Noise { state: 7, width }
    }

    fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + self.width * ((self.state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0)
    }
}

/// The limits of some seconds, one for each interval, as shares of the disk's bandwidth; 1 for none.
fn run(share: &mut DiskShare, disk: Disk, seconds: u64, noise: &mut Noise) -> Vec<f64> {
    let steps = seconds * 1000 / WINDOW.as_millis() as u64;
    let mut step = || {
        let sight = disk.sight(share.limit(), noise);
        share.decide(&sight).map_or(1.0, |limit| limit as f64 / disk.capacity)
    };
    (0..steps).map(|_| step()).collect()
}

#[test]
fn scans_that_fill_the_disk_are_brought_to_the_floor_within_two_seconds_and_stay_there() {
    for width in [0.0, 0.2, 0.4] {
        let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(width));
        let limits = run(&mut share, SLOW, 30, &mut noise);
        let settled = &limits[10..];
        let (least, most) = settled.iter().fold((f64::MAX, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)));
        assert!(least >= 0.47 - width * 0.4 && most <= 0.6 + width * 0.4, "noise {width}: from {least} to {most}");
        assert!(most - least <= 0.1 + width * 0.5, "noise {width}: it swings from {least} to {most}");
    }
}

#[test]
fn what_is_not_needed_is_given_back() {
    let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(0.1));
    run(&mut share, SLOW, 10, &mut noise);
    assert!(share.limit().is_some());
    // Important work that no longer reads from the disk raises the limit gradually.
    let cached = Disk { page_s: 0.0, is_shared: false, ..SLOW };
    let limits = run(&mut share, cached, 5, &mut noise);
    assert!(limits.last().is_some_and(|limit| (0.45..0.9).contains(limit)), "{limits:?}");
    run(&mut share, cached, 15, &mut noise);
    assert_eq!((share.limit(), share.word()), (None, DiskWord::Calm));

    run(&mut share, SLOW, 10, &mut noise);
    assert!(share.limit().is_some());
    // No important work is present.
    let away = Disk { statements_per_s: 0.0, ..SLOW };
    run(&mut share, away, 4, &mut noise);
    assert!(share.limit().is_some(), "a pause of a few seconds changes little");
    run(&mut share, away, 2, &mut noise);
    assert_eq!(share.limit(), None);
}

#[test]
fn a_step_of_load_is_answered_in_a_second() {
    let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(0.2));
    let quiet = Disk { scans: 5e6, ..SLOW };
    assert!(run(&mut share, quiet, 20, &mut noise).iter().all(|limit| *limit == 1.0), "few scans harm nobody");
    let limits = run(&mut share, SLOW, 2, &mut noise);
    assert!(limits[5] < 0.8, "{limits:?}");
}

#[test]
fn a_limit_that_does_not_help_is_lifted_and_not_tried_again_soon() {
    let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(0.2));
    let unshared = Disk { is_shared: false, ..SLOW };
    let limits = run(&mut share, unshared, 60, &mut noise);
    let limited = limits.iter().filter(|limit| **limit < 1.0).count();
    assert!((10..40).contains(&limited), "it was tried for {limited} stretches");
    assert_eq!((share.limit(), share.word()), (None, DiskWord::NoHelp));
    let limits = run(&mut share, unshared, 240, &mut noise);
    let limited = limits.iter().filter(|limit| **limit < 1.0).count();
    assert!((1..80).contains(&limited), "tried for {limited} stretches of 1200");
    // It is not given up for good.
    run(&mut share, SLOW, 300, &mut noise);
    assert!(share.limit().is_some());
}

#[test]
fn a_disk_with_room_left_and_others_at_work_limit_nobody() {
    let mut noise = Noise::of(0.1);
    let sight = SLOW.sight(None, &mut noise);
    let check = |change: &dyn Fn(&mut DiskSight)| {
        let mut share = DiskShare::new(BOUNDS);
        let mut sight = sight;
        change(&mut sight);
        (0..50).find_map(|_| share.decide(&sight))
    };
    assert!(check(&|_| ()).is_some());
    assert!(check(&|sight| sight.busy = None).is_some(), "a kernel that tells nothing of the disk");
    assert_eq!(check(&|sight| sight.busy = Some(0.1)), None, "the disk is idle");
    let waits = |sight: &mut DiskSight| (sight.busy, sight.waited) = (Some(0.1), Some(0.8));
    assert!(check(&waits).is_some(), "a limit of others is in force, below which the disk is idle");
    assert_eq!(check(&|sight| sight.all_bytes_per_s *= 10.0), None, "others read nine tenths");
    assert_eq!(check(&|sight| sight.waiting = 0.0), None, "nothing important waits");
    assert_eq!(check(&|sight| (sight.important, sight.waiting) = (0.0, 0.0)), None, "nothing important is there");
    assert_eq!(check(&|sight| (sight.yielding_bytes_per_s, sight.all_bytes_per_s) = (0.0, 0.0)), None);
}

/// A rented disk becomes slower once its credit is used up. Half of its former bandwidth is then more than it delivers.
#[test]
fn the_floor_follows_a_disk_that_becomes_slower() {
    let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(0.1));
    run(&mut share, SLOW, 10, &mut noise);
    let slower = Disk { capacity: 40e6, ..SLOW };
    let limits = run(&mut share, slower, 40, &mut noise);
    assert!(limits.last().is_some_and(|limit| *limit < 0.8), "{:?}", limits.last());
}

/// Where statements take long or are not counted, the transactions that wait at a time are compared.
#[test]
fn without_statements_that_end_the_transactions_that_wait_are_compared() {
    let sight = DiskSight { ended: 0, important: 4.0, waiting: 4.0, ..SLOW.sight(None, &mut Noise::of(0.0)) };
    let check = |with_limit: f64, expect: DiskWord| {
        let mut share = DiskShare::new(BOUNDS);
        for _ in 0..40 {
            let bytes = share.limit().map_or(125e6, |limit| limit as f64);
            let waiting = if share.limit().is_some() { with_limit } else { 4.0 };
            share.decide(&DiskSight { waiting, yielding_bytes_per_s: bytes, all_bytes_per_s: bytes + 1e6, ..sight });
        }
        assert_eq!(share.word(), expect, "{with_limit}");
    };
    check(4.0, DiskWord::NoHelp);
    check(3.0, DiskWord::Floor);
}

#[test]
fn no_limit_is_below_its_floor() {
    let read_ahead = DiskBounds { floor_share: 0.1, floor_bytes_per_s: 32 << 20 };
    let (mut share, mut noise) = (DiskShare::new(read_ahead), Noise::of(0.3));
    let limits = run(&mut share, SLOW, 60, &mut noise);
    let least = limits.into_iter().fold(1.0, f64::min) * SLOW.capacity;
    assert!(least >= f64::from(32 << 20) - 1.0, "{least}");
}

/// A limit that was set for another reason, such as a target, leaves yielding processes their share all the same.
#[test]
fn the_least_that_those_who_yield_keep_is_known_also_without_a_limit() {
    let (mut share, mut noise) = (DiskShare::new(BOUNDS), Noise::of(0.0));
    assert_eq!(share.least(), None, "nobody has read anything");
    let calm = Disk { is_shared: false, page_s: 0.0, ..SLOW };
    run(&mut share, calm, 10, &mut noise);
    let megabytes = |share: &DiskShare| share.least().map(|least| least / 1_000_000);
    assert_eq!((share.limit(), megabytes(&share)), (None, Some(62)), "half of what the disk gives");
    run(&mut share, Disk { scans: 10e6, ..calm }, 10, &mut noise);
    assert_eq!(megabytes(&share), Some(62), "a disk that is idle still gives it");
    run(&mut share, Disk { capacity: 50e6, ..calm }, 30, &mut noise);
    assert!(megabytes(&share).is_some_and(|least| (24..27).contains(&least)), "{:?}", share.least());
    run(&mut share, Disk { capacity: 5e6, ..calm }, 60, &mut noise);
    assert_eq!(megabytes(&share), Some(15), "it may be busy with small requests: a quarter of the most is left");
}
