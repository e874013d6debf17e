//! Dividing among classes what no process says about itself: non-negative least squares over windows.
//!
//! The time of the disk, and the CPU time of clients and helpers, are known for the whole machine. In each window they are modelled as a rest
//! that is always there and, for each CPU second of a class, a constant share. None of these can be negative. CPU seconds stand for a class's
//! work because they fall into the window in which the work is done, whereas a long request is counted where it ends.
//!
//! A share that is not clearly above 0 without each block of windows, or that of a class whose work hardly changes, is taken for 0, and the
//! use for the rest's. CPU time is divided in windows
//! in which cores were left: on a busy machine other programs get what the classes leave, which looks as if they worked for those that use less.

use super::Window;

/// Steps of the descent, each of which goes through all unknowns.
const STEPS_MAX: usize = 2_000;
/// Unknowns have settled if they change by at most this share of the largest.
const TOLERANCE: f64 = 1e-9;
/// From this variance inflation on, the work of a class is a mixture of that of others: its coefficient has ten times the variance that it
/// would have if they were independent (Kutner, Nachtsheim and Neter, *Applied Linear Regression Models*, 10.5).
const INFLATION_MAX: f64 = 10.0;
/// Windows in which more than this share of the cores was busy do not show for whom other programs work.
const BUSY_MAX: f64 = 0.8;
/// With fewer other windows, all CPU time of others is the rest.
const WINDOWS_LEAST: usize = 8;
/// Blocks of successive windows, without each of which a share is computed again.
const BLOCKS: usize = 8;
/// Standard errors by which a share is above 0 if it is one.
const ERRORS_LEAST: f64 = 2.0;
/// A class whose work varies by less than this, relative to its mean, cannot be told from upkeep.
const VARIATION_MIN: f64 = 0.05;
/// Use of a resource below this share of the time is too little to ask whose it is.
const USE_NOTED: f64 = 0.02;

/// A class whose use of a resource cannot be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collinear {
    /// The class.
    pub class: usize,
    /// The class with which it rose and fell; `None` if it hardly changed.
    pub with: Option<usize>,
    /// The resource.
    pub resource: &'static str,
}

/// What was divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribution {
    /// CPU seconds of helpers and clients for each CPU second of a class.
    pub helpers: Vec<f64>,
    /// Cores that others kept busy whatever the classes did.
    pub rest_cores: f64,
    /// Seconds of the disk for each CPU second of a class; `None` if the disk is not visible.
    pub disk: Option<Vec<f64>>,
    /// Classes that cannot be told apart.
    pub collinear: Vec<Collinear>,
}

/// Divides among classes on a machine with this many cores.
pub fn attribute(windows: &[&Window], classes: usize, cores: u32) -> Attribution {
    let work_of = |window: &&Window| -> Vec<f64> { (0..classes).map(|at| window.classes[at].cpu_s).collect() };
    let work: Vec<Vec<f64>> = windows.iter().map(work_of).collect();
    let lengths: Vec<f64> = windows.iter().map(|window| window.seconds).collect();
    let other: Vec<f64> = windows.iter().map(|window| window.other_cpu_s).collect();
    let is_calm = |window: &&&Window| {
        let busy_s = window.other_cpu_s + work_of(window).iter().sum::<f64>();
        busy_s <= BUSY_MAX * f64::from(cores) * window.seconds
    };
    let calm: Vec<&Window> = windows.iter().filter(is_calm).copied().collect();
    let (helpers, rest_cores) = if calm.len() >= WINDOWS_LEAST {
        let work: Vec<Vec<f64>> = calm.iter().map(work_of).collect();
        let of = |of: fn(&Window) -> f64| -> Vec<f64> { calm.iter().map(|window| of(window)).collect() };
        fit(&work, &of(|window| window.seconds), &of(|window| window.other_cpu_s))
    } else {
        (vec![0.0; classes], other.iter().sum::<f64>() / lengths.iter().sum::<f64>())
    };
    let disk_s: Option<Vec<f64>> = windows.iter().map(|window| window.disk_s).collect();
    let disk = disk_s.as_ref().map(|disk_s| fit(&work, &lengths, disk_s).0);
    let all_s: f64 = lengths.iter().sum();
    let is_used = |sums: &[f64]| sums.iter().sum::<f64>() > USE_NOTED * all_s;
    let resources = [("CPU time of clients and helpers", Some(&other)), ("disk", disk_s.as_ref())];
    let used = resources.into_iter().filter(|(_, sums)| sums.is_some_and(|sums| is_used(sums)));
    let collinear = used.flat_map(|(resource, _)| collinear(&work, &lengths, resource)).collect();
    Attribution { helpers, rest_cores, disk, collinear }
}

/// Seconds of a resource for each second of work, and those for each second of time that are always there.
fn fit(work: &[Vec<f64>], lengths: &[f64], used: &[f64]) -> (Vec<f64>, f64) {
    let changes = |class: &usize| {
        let (mean, deviation) = mean_and_deviation(&rates(work, lengths, *class));
        deviation >= VARIATION_MIN * mean
    };
    let mut meant: Vec<usize> = (0..work.first().map_or(0, Vec::len)).filter(changes).collect();
    let count = work.len();
    let blocks = BLOCKS.min(count);
    loop {
        let of = |is_used: &dyn Fn(usize) -> bool| {
            let chosen = || (0..count).filter(|at| is_used(*at));
            let row = |at: usize| meant.iter().map(|class| work[at][*class]).chain([lengths[at]]).collect();
            let wanted: Vec<f64> = chosen().map(|at| used[at]).collect();
            non_negative(&chosen().map(row).collect::<Vec<_>>(), &wanted)
        };
        let found = of(&|_| true);
        let without: Vec<Vec<f64>> = (0..blocks).map(|block| of(&|at| at * blocks / count != block)).collect();
        let is_clear = |at: usize| {
            let parts: Vec<f64> = without.iter().map(|found| found[at]).collect();
            let (_, deviation) = mean_and_deviation(&parts);
            // The jackknife's standard error.
            found[at] > ERRORS_LEAST * deviation * ((blocks - 1) as f64).sqrt()
        };
        let clear: Vec<usize> = (0..meant.len()).filter(|at| is_clear(*at)).map(|at| meant[at]).collect();
        if clear.len() == meant.len() {
            let mut all = vec![0.0; work.first().map_or(0, Vec::len)];
            meant.iter().zip(&found).for_each(|(class, share)| all[*class] = *share);
            return (all, found.last().copied().unwrap_or(0.0));
        }
        meant = clear;
    }
}

/// The `x >= 0` that minimises `|rows x - wanted|`, by coordinate descent on the normal equations. The function is convex, so that no other
/// minimum can be met; where several are equal, as with collinear columns, the first columns get more.
pub fn non_negative(rows: &[Vec<f64>], wanted: &[f64]) -> Vec<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    let dot =
        |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| (0..rows.len()).map(|row| a(row) * b(row)).sum::<f64>();
    let gram: Vec<Vec<f64>> =
        (0..columns).map(|i| (0..columns).map(|j| dot(&|row| rows[row][i], &|row| rows[row][j])).collect()).collect();
    let product: Vec<f64> = (0..columns).map(|i| dot(&|row| rows[row][i], &|row| wanted[row])).collect();
    let mut found = vec![0.0; columns];
    for _ in 0..STEPS_MAX {
        let mut change: f64 = 0.0;
        for at in (0..columns).filter(|at| gram[*at][*at] > 0.0) {
            let others: f64 =
                (0..columns).filter(|other| *other != at).map(|other| gram[at][other] * found[other]).sum();
            let next = ((product[at] - others) / gram[at][at]).max(0.0);
            change = change.max((next - found[at]).abs());
            found[at] = next;
        }
        if change <= TOLERANCE * found.iter().copied().fold(0.0, f64::max) {
            break;
        }
    }
    found
}

/// Work of a class per second in each window.
fn rates(work: &[Vec<f64>], lengths: &[f64], class: usize) -> Vec<f64> {
    work.iter().zip(lengths).map(|(work, length)| work[class] / length).collect()
}

/// Classes whose work can be told neither from that of others nor from upkeep.
fn collinear(work: &[Vec<f64>], lengths: &[f64], resource: &'static str) -> Vec<Collinear> {
    let classes = work.first().map_or(0, Vec::len);
    let rates: Vec<Vec<f64>> = (0..classes).map(|at| rates(work, lengths, at)).collect();
    let mut found: Vec<Collinear> = Vec::new();
    for class in 0..classes {
        let (mean, deviation) = mean_and_deviation(&rates[class]);
        if deviation < VARIATION_MIN * mean {
            found.push(Collinear { class, with: None, resource });
            continue;
        }
        // With two classes the correlation says all; with more, the closest pair is named.
        let near = (0..class)
            .map(|other| (other, correlation(&rates[class], &rates[other])))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((with, correlation)) = near
            && 1.0 / (1.0 - correlation * correlation).max(f64::EPSILON) > INFLATION_MAX
            && correlation > 0.0
        {
            found.push(Collinear { class, with: Some(with), resource });
        }
    }
    found
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let ((mean, deviation), (other_mean, other_deviation)) = (mean_and_deviation(one), mean_and_deviation(other));
    let product = deviation * other_deviation;
    if product <= 0.0 {
        return 0.0;
    }
    one.iter().zip(other).map(|(a, b)| (a - mean) * (b - other_mean)).sum::<f64>() / one.len() as f64 / product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(work: &[f64], other_cpu_s: f64, disk_s: Option<f64>) -> Window {
        let class = |cpu_s: &f64| super::super::Activity { cpu_s: *cpu_s, ..Default::default() };
        Window { seconds: 2.0, classes: work.iter().map(class).collect(), other_cpu_s, disk_s }
    }

    #[test]
    fn what_is_not_negative_is_found_and_what_would_be_is_zero() {
        let rows = vec![vec![1.0, 0.0], vec![0.0, 1.0], vec![1.0, 1.0]];
        let found = non_negative(&rows, &[2.0, 3.0, 5.0]);
        assert!((found[0] - 2.0).abs() < 1e-6 && (found[1] - 3.0).abs() < 1e-6, "{found:?}");
        // Without the bound the second would be -1.
        let found = non_negative(&rows, &[2.0, -1.0, 1.0]);
        assert!((found[0] - 1.5).abs() < 1e-6 && found[1] == 0.0, "{found:?}");
        assert_eq!(non_negative(&[], &[]), Vec::<f64>::new());
    }

    /// The truth is a rest of 0.1 cores, helpers of 0.5 and 0, and 0.2 and 1 seconds of the disk for each CPU second.
    #[test]
    fn shares_of_helpers_and_disk_are_found() {
        let mixes = [
            (0.2, 1.0),
            (0.4, 0.5),
            (0.1, 0.0),
            (0.3, 0.9),
            (0.5, 0.1),
            (0.6, 0.7),
            (0.2, 0.2),
            (0.9, 0.3),
            (0.7, 0.4),
        ];
        let windows: Vec<Window> =
            mixes.map(|(one, two)| window(&[one, two], 0.2 + 0.5 * one, Some(0.2 * one + two))).to_vec();
        let found = attribute(&windows.iter().collect::<Vec<_>>(), 2, 4);
        let disk = found.disk.expect("it was visible");
        let all = [found.helpers[0], found.helpers[1], found.rest_cores, disk[0], disk[1]];
        for (found, expect) in all.into_iter().zip([0.5, 0.0, 0.1, 0.2, 1.0]) {
            assert!((found - expect).abs() < 1e-4, "{all:?}");
        }
        assert_eq!(found.collinear, []);
    }

    /// A build takes what the database leaves: the shop, which is slower beside reports, does not use it.
    #[test]
    fn programs_that_take_what_is_left_work_for_nobody() {
        let windows: Vec<Window> = (0..24)
            .map(|at| f64::from(at % 3))
            .map(|reports| window(&[0.3 - 0.1 * reports, reports], 4.0 - 0.3 - 0.9 * reports, None))
            .collect();
        let found = attribute(&windows.iter().collect::<Vec<_>>(), 2, 2);
        assert_eq!(found.helpers, [0.0, 0.0]);
        assert!((found.rest_cores - (3.7 - 0.9) / 2.0).abs() < 1e-9, "{found:?}");
        // With noise alone, no share is clear.
        let noise = |at: usize| [0.31, 0.05, 0.22, 0.4, 0.1, 0.35, 0.02, 0.18][at % 8];
        let noisy: Vec<Window> =
            (0..24).map(|at| window(&[0.5 + 0.01 * (at % 5) as f64, 0.0], noise(at), None)).collect();
        assert_eq!(attribute(&noisy.iter().collect::<Vec<_>>(), 2, 4).helpers, [0.0, 0.0]);
    }

    #[test]
    fn classes_that_rise_together_are_named() {
        let windows: Vec<Window> =
            (1..9).map(|step| f64::from(step) / 10.0).map(|work| window(&[work, 2.0 * work], work, None)).collect();
        let found = attribute(&windows.iter().collect::<Vec<_>>(), 2, 4);
        let resource = "CPU time of clients and helpers";
        assert_eq!(found.collinear, [Collinear { class: 1, with: Some(0), resource }]);
        assert_eq!(found.disk, None);
        let steady: Vec<Window> = (1..9).map(|step| window(&[0.5, f64::from(step) / 8.0], 0.5, None)).collect();
        let found = attribute(&steady.iter().collect::<Vec<_>>(), 2, 4);
        assert_eq!(found.collinear, [Collinear { class: 0, with: None, resource }]);
        assert_eq!(found.helpers[0], 0.0);
        let idle: Vec<Window> = (1..9).map(|_| window(&[0.5, 1.0], 0.0, Some(0.0))).collect();
        assert_eq!(attribute(&idle.iter().collect::<Vec<_>>(), 2, 4).collinear, [], "nothing is to be divided");
    }
}
