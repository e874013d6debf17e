//! Open classes in product form: the rates of stations as clients of closed classes see them.
//!
//! Let open classes bring `U` seconds of demand per second to a station of rates `a(j)`. With `n` requests of closed
//! classes there, the states with `m` of open ones add up to the weight
//! ```text
//! F(n) = sum over m of C(n + m, m) U^m / (a(1) ... a(n + m))
//! ```
//! relative to the demands of the closed ones (Baskett, Chandy, Muntz and Palacios 1975, theorem for mixed networks). The
//! closed classes are therefore in a closed network whose station has the rates `b(n) = F(n - 1) / F(n)`: `1 - U` for a
//! single server, `a(L) - U` for any station with at least `L` closed requests, if its rate is constant from `L` on. A delay
//! keeps its rates.
//!
//! An arriving request of an open class finds the station as it is on average. Given `n` closed requests there, its
//! demand takes `(n + 1) / b(n + 1)` times as long, because the sum over `m` of the weights of `m` times
//! `(n + m + 1) / a(n + m + 1)` is `(n + 1) F(n + 1)`. A further client of a closed class would find the same, if it did
//! not belong to the population. So the solvers compute it with the same formula.

use std::borrow::Cow;

use crate::network::{Network, Saturated, Service};

/// Terms of a sum are left out that cannot change it by this share.
const PRECISION: f64 = 1e-17;
/// Sums are scaled down beyond this.
const SCALE: f64 = 1e200;

/// The network without the load of open classes, at the rates that this load leaves.
pub(super) fn as_clients_see_it(network: &Network) -> Result<Cow<'_, Network>, Saturated> {
    if !network.is_open() {
        return Ok(Cow::Borrowed(network));
    }
    network.check_open()?;
    let stations = network.stations().iter().enumerate();
    let services = stations.map(|(at, station)| left(&station.service, network.brought(at))).collect();
    Ok(Cow::Owned(network.with_services(services)))
}

/// The service that is left to closed classes by open ones that bring `brought` seconds of demand per second.
fn left(service: &Service, brought: f64) -> Service {
    let Some(rate_max) = service.rate_max().filter(|_| brought > 0.0) else { return service.clone() };
    let levels = service.levels(usize::MAX);
    let mut rates: Vec<f64> = Vec::with_capacity(levels);
    let mut before = logarithm_of_sum(service, brought, 0);
    for present in 1..levels {
        let now = logarithm_of_sum(service, brought, present);
        let rate = service.rate(present) * (before - now).exp();
        // Never falling, whatever the rounding.
        rates.push(rate.max(rates.last().copied().unwrap_or(0.0)));
        before = now;
    }
    rates.push((rate_max - brought).max(rates.last().copied().unwrap_or(0.0)));
    Service::Curve { rates }
}

/// The logarithm of `F(n) a(1) ... a(n)`: its first term is then 1.
fn logarithm_of_sum(service: &Service, brought: f64, closed: usize) -> f64 {
    let last = service.levels(usize::MAX);
    let (mut term, mut sum, mut logarithm) = (1.0_f64, 1.0_f64, 0.0);
    for open in 1.. {
        let all = closed + open;
        let ratio = brought / service.rate(all) * all as f64 / open as f64;
        term *= ratio;
        sum += term;
        // From the last level on ratios fall, so that the rest is at most that of a geometric series.
        if all >= last && ratio < 1.0 && term * ratio / (1.0 - ratio) < PRECISION * sum {
            break;
        }
        if sum > SCALE {
            (term, sum, logarithm) = (term / SCALE, sum / SCALE, logarithm + SCALE.ln());
        }
    }
    logarithm + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_one_and_of_two_servers_is_as_the_sums_say() {
        let of = |servers: u32, brought: f64| match left(&Service::Processors { servers }, brought) {
            Service::Curve { rates } => rates,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(1, 0.75), [0.25]);
        // F(0) = (2 + U) / (2 - U), F(1) = 4 / (2 - U)^2.
        let [one, two] = of(2, 0.5)[..] else { panic!("two levels") };
        assert!((one - (1.0 - 0.5 * 0.5 / 4.0)).abs() < 1e-14 && two == 1.5, "{one} {two}");
        assert_eq!(left(&Service::Delay, 7.0), Service::Delay);
        assert_eq!(left(&Service::Processors { servers: 3 }, 0.0), Service::Processors { servers: 3 });
    }

    #[test]
    fn a_busy_station_of_many_servers_is_no_trouble() {
        for (servers, load) in [(64, 0.01), (64, 0.5), (64, 0.999), (256, 0.9998)] {
            let Service::Curve { rates } = left(&Service::Processors { servers }, load * f64::from(servers)) else {
                panic!("levels")
            };
            assert!(rates.is_sorted() && rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{servers} {load}");
            assert!(rates[0] <= 1.0 && *rates.last().unwrap() <= (1.0 - load) * f64::from(servers) * (1.0 + 1e-6));
        }
    }
}
