//! The least-squares fit of the law under its constraints.

use super::Law;

/// Rounds of Gauss and Newton after the first fit. They converge quadratically; ten are plenty.
const ROUNDS: usize = 10;

/// The law nearest to `means` in relative deviations, with weights, gamma > 0 and sigma, kappa >= 0. All inputs are positive.
///
/// The reciprocal of the law is linear: `N/X = a + b (N - 1) + c N (N - 1)` with a = 1/gamma, b = sigma/gamma, c = kappa/gamma.
/// The sum of `weight * ln(X / law)^2` is minimised. Its linearisation around a law is again a linear problem in (a, b,
/// c) with b, c >= 0, which has four cases: each of b and c is free or 0.
pub(super) fn fit(clients: &[f64], means: &[f64], weights: &[f64]) -> Law {
    let terms: Vec<[f64; 3]> = clients.iter().map(|n| [1.0, n - 1.0, n * (n - 1.0)]).collect();
    let measured: Vec<f64> = clients.iter().zip(means).map(|(clients, mean)| clients / mean).collect();
    // At first the measured reciprocals are used for those of the law.
    let mut law = measured.clone();
    let mut best = ([0.0; 3], f64::INFINITY);
    for _ in 0..ROUNDS {
        let rows: Vec<[f64; 3]> = terms.iter().zip(&law).map(|(terms, law)| terms.map(|term| term / law)).collect();
        let targets: Vec<f64> = measured.iter().zip(&law).map(|(measured, law)| 1.0 + (measured / law).ln()).collect();
        let coefficients = constrained(&rows, &targets, weights);
        let reciprocal = |terms: &[f64; 3]| terms.iter().zip(&coefficients).map(|(t, c)| t * c).sum::<f64>();
        law = terms.iter().map(reciprocal).collect();
        let deviation = |((measured, law), weight): ((&f64, &f64), &f64)| weight * (measured / law).ln().powi(2);
        let squares: f64 = measured.iter().zip(&law).zip(weights).map(deviation).sum();
        if squares >= best.1 * (1.0 - 1e-12) {
            break;
        }
        best = (coefficients, squares);
    }
    let [a, b, c] = best.0;
    Law { gamma: 1.0 / a, sigma: b / a, kappa: c / a }
}

/// The weighted least-squares solution with a positive first coefficient and the others not negative.
fn constrained(rows: &[[f64; 3]], targets: &[f64], weights: &[f64]) -> [f64; 3] {
    let mut best = ([0.0; 3], f64::INFINITY);
    for free in [[true, true, true], [true, true, false], [true, false, true], [true, false, false]] {
        let Some(solution) = solve(rows, targets, weights, free) else { continue };
        if solution[0] <= 0.0 || solution[1] < 0.0 || solution[2] < 0.0 {
            continue;
        }
        let deviation =
            |row: &[f64; 3], target: &f64| row.iter().zip(&solution).map(|(r, s)| r * s).sum::<f64>() - target;
        let squares = rows.iter().zip(targets).zip(weights).map(|((row, t), w)| w * deviation(row, t).powi(2)).sum();
        if squares < best.1 {
            best = (solution, squares);
        }
    }
    best.0
}

/// The weighted least-squares solution in which only the `free` coefficients differ from 0, by the normal equations of
/// columns scaled to unit length; `None` if they are singular.
fn solve(rows: &[[f64; 3]], targets: &[f64], weights: &[f64], free: [bool; 3]) -> Option<[f64; 3]> {
    let weighted = || rows.iter().zip(targets).zip(weights);
    let mut scales = [1.0; 3];
    for (column, scale) in scales.iter_mut().enumerate() {
        *scale = weighted().map(|((row, _), weight)| weight * row[column].powi(2)).sum::<f64>().sqrt();
    }
    let mut matrix = [[0.0; 4]; 3];
    for (at, equation) in matrix.iter_mut().enumerate() {
        if !free[at] {
            // The equation `coefficient = 0`.
            equation[at] = 1.0;
            continue;
        }
        for ((row, target), weight) in weighted() {
            let factor = weight * row[at] / scales[at];
            for other in (0..3).filter(|other| free[*other]) {
                equation[other] += factor * row[other] / scales[other];
            }
            equation[3] += factor * target;
        }
    }
    let mut solution = eliminate(matrix)?;
    for (value, scale) in solution.iter_mut().zip(scales) {
        *value /= scale;
    }
    Some(solution)
}

/// Solves three equations by Gaussian elimination with pivots from the diagonal, which suits matrices that are symmetric and
/// positive definite; `None` if they are (nearly) singular.
fn eliminate(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for pivot in 0..3 {
        let pivot_row = matrix[pivot];
        if pivot_row[pivot].abs() < 1e-12 {
            return None;
        }
        for (at, row) in matrix.iter_mut().enumerate() {
            if at != pivot {
                let factor = row[pivot] / pivot_row[pivot];
                for (value, above) in row.iter_mut().zip(pivot_row) {
                    *value -= factor * above;
                }
            }
        }
    }
    Some([0, 1, 2].map(|at| matrix[at][3] / matrix[at][at]))
}
