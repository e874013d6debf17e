//! A network: classes of requests, and the stations that serve them. Requests of a closed class are issued by a fixed number of clients
//! that think between requests; those of an open class arrive at a rate, at random times that do not depend on answers (Poisson).
//!
//! [`mva`](crate::mva) solves it, [`bounds`](crate::bounds) bounds it and [`des`](crate::des) simulates it. A class
//! needs `demands_s[k]` seconds of station `k` for each request, over all of its visits. A station serves up to
//! [`Service::rate`] of these seconds per second, shared evenly by the requests present (processor sharing). With
//! exponential or any other distribution of demands such networks have product form, so that means depend on mean
//! demands alone (Baskett, Chandy, Muntz and Palacios 1975): neither how often a request returns to a station nor how
//! demands spread matters for means. Both matter for percentiles and under priorities, which only the simulation
//! models.

use thiserror::Error;

/// How a station serves the requests present.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// Requests do not wait for each other: time on the wire, or waiting that is taken as given.
    Delay,
    /// Equal servers, each serving one second of demand per second, shared evenly when there are more requests.
    Processors {
        /// How many, at least 1.
        servers: u32,
    },
    /// A rate that depends on the number of requests present, as a disk's on its queue depth.
    Curve {
        /// Seconds of demand served per second with 1, 2, … requests; more requests than entries have the last rate.
        /// Above 0 and never falling. With demands measured at depth 1 the first rate is 1.
        rates: Vec<f64>,
    },
}

impl Service {
    /// Seconds of demand served per second while `present` requests are at the station.
    pub fn rate(&self, present: usize) -> f64 {
        match self {
            _ if present == 0 => 0.0,
            Self::Delay => present as f64,
            Self::Processors { servers } => (present as f64).min(f64::from(*servers)),
            Self::Curve { rates } => rates[present.min(rates.len()) - 1],
        }
    }

    /// The highest rate; `None` for a delay, which has no limit.
    pub fn rate_max(&self) -> Option<f64> {
        match self {
            Self::Delay => None,
            Self::Processors { servers } => Some(f64::from(*servers)),
            Self::Curve { rates } => rates.last().copied(),
        }
    }

    /// The number of requests from which on the rate is constant, if at most `present_max` can be present; at least 1.
    pub(crate) fn levels(&self, present_max: usize) -> usize {
        let levels = match self {
            Self::Delay => 1,
            Self::Processors { servers } => *servers as usize,
            Self::Curve { rates } => rates.len(),
        };
        levels.min(present_max).max(1)
    }

    fn is_sound(&self) -> bool {
        match self {
            Self::Delay => true,
            Self::Processors { servers } => *servers > 0,
            Self::Curve { rates } => {
                rates.first().is_some_and(|first| *first > 0.0)
                    && rates.iter().all(|rate| rate.is_finite())
                    && rates.is_sorted()
            }
        }
    }
}

/// A resource that requests need and may have to wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// The name shown to people: `cpu`, `disk`.
    pub name: String,
    /// How it serves.
    pub service: Service,
}

/// Requests that are alike, and their origin: clients, or arrivals at a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The name shown to people: a workload's name.
    pub name: String,
    /// Requests that arrive per second on average, whether others are answered or not; `None` for a closed class. An
    /// open class has no clients.
    pub arrivals_per_s: Option<f64>,
    /// Clients: each waits for its answer, thinks, and sends its next request.
    pub population: u32,
    /// Mean seconds from an answer to the client's next request.
    pub think_s: f64,
    /// Mean seconds of service for a request at each station, in the order of stations.
    pub demands_s: Vec<f64>,
}

impl Class {
    /// Whether it ever has requests.
    pub fn has_requests(&self) -> bool {
        self.population > 0 || self.arrivals_per_s.is_some_and(|per_s| per_s > 0.0)
    }

    /// Seconds of a request that never waits.
    pub fn demand_total_s(&self) -> f64 {
        self.demands_s.iter().sum()
    }
}

/// Why classes and stations are not a network.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A station cannot serve, or serves less the more requests there are.
    #[error("station `{0}` has no server, or a rate that is not above 0 or falls with more requests")]
    Service(String),
    /// The number of demands differs from the number of stations.
    #[error("class `{class}` has {found} demands for {expect} stations")]
    DemandCount {
        /// The class.
        class: String,
        /// Its demands.
        found: usize,
        /// Stations.
        expect: usize,
    },
    /// A demand or think time is negative or not a number.
    #[error("class `{0}` has a demand or think time that is negative or no number")]
    Demand(String),
    /// An open class has clients, or a rate that is not possible.
    #[error("class `{0}` has clients beside its arrivals, or a rate of arrivals that is negative or no number")]
    Arrivals(String),
    /// Its throughput would be infinite.
    #[error("class `{0}` has clients that neither think nor need anything")]
    NoDemand(String),
}

/// Open classes bring a station more work than it can do, so that its queue grows without end.
#[derive(Debug, Clone, PartialEq, Error)]
#[error(
    "requests that arrive at a rate bring {brought:.2} s of work per second to `{station}`, which can do {rate_max:.2}: lower the rate of {classes}"
)]
pub struct Saturated {
    /// The station.
    pub station: String,
    /// Seconds of demand per second that open classes bring.
    pub brought: f64,
    /// Seconds of demand that it serves per second at most.
    pub rate_max: f64,
    /// The open classes that need it.
    pub classes: String,
}

/// The share of a station's highest rate from which on open classes saturate it. Beyond it a request waits for
/// thousands of others on average, which no real queue holds.
const LOAD_MAX: f64 = 0.9999;

/// Classes and stations that fit together.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    stations: Vec<Station>,
    classes: Vec<Class>,
}

impl Network {
    /// Checks that every class has a demand for every station, and that all figures are possible.
    pub fn new(stations: Vec<Station>, classes: Vec<Class>) -> Result<Self, Fault> {
        if let Some(station) = stations.iter().find(|station| !station.service.is_sound()) {
            return Err(Fault::Service(station.name.clone()));
        }
        for class in &classes {
            let (found, expect) = (class.demands_s.len(), stations.len());
            if found != expect {
                return Err(Fault::DemandCount { class: class.name.clone(), found, expect });
            }
            let mut seconds = class.demands_s.iter().chain([&class.think_s]);
            if !seconds.all(|seconds| seconds.is_finite() && *seconds >= 0.0) {
                return Err(Fault::Demand(class.name.clone()));
            }
            if class.arrivals_per_s.is_some_and(|per_s| !per_s.is_finite() || per_s < 0.0 || class.population > 0) {
                return Err(Fault::Arrivals(class.name.clone()));
            }
            if class.population > 0 && class.think_s + class.demand_total_s() <= 0.0 {
                return Err(Fault::NoDemand(class.name.clone()));
            }
        }
        Ok(Self { stations, classes })
    }

    /// The stations.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// The classes.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Clients of all closed classes together. Without open classes no station ever has more requests.
    pub fn population(&self) -> usize {
        self.classes.iter().map(|class| class.population as usize).sum()
    }

    /// Whether requests of some class arrive at a rate.
    pub fn is_open(&self) -> bool {
        self.classes.iter().any(|class| class.arrivals_per_s.is_some())
    }

    /// Seconds of demand per second that open classes bring to a station.
    pub fn brought(&self, station: usize) -> f64 {
        self.classes.iter().map(|class| class.arrivals_per_s.unwrap_or(0.0) * class.demands_s[station]).sum()
    }

    /// The share of its highest rate that open classes take of the busiest station, 0 to 1; more if they saturate it.
    pub fn open_load(&self) -> f64 {
        let load = |(at, station): (usize, &Station)| Some(self.brought(at) / station.service.rate_max()?);
        self.stations.iter().enumerate().filter_map(load).fold(0.0, f64::max)
    }

    /// Checks that every station can do the work that open classes bring. The clients of closed classes never bring
    /// too much.
    pub fn check_open(&self) -> Result<(), Saturated> {
        for (at, station) in self.stations.iter().enumerate() {
            let brought = self.brought(at);
            if let Some(rate_max) = station.service.rate_max().filter(|rate_max| brought >= LOAD_MAX * rate_max) {
                let needs =
                    |class: &&Class| class.arrivals_per_s.is_some_and(|per_s| per_s * class.demands_s[at] > 0.0);
                let names: Vec<String> =
                    self.classes.iter().filter(needs).map(|class| format!("`{}`", class.name)).collect();
                let (station, classes) = (station.name.clone(), names.join(", "));
                return Err(Saturated { station, brought, rate_max, classes });
            }
        }
        Ok(())
    }

    /// The same with other stations, which are known to be sound.
    pub(crate) fn with_services(&self, services: Vec<Service>) -> Self {
        let stations = self.stations.iter().zip(services);
        let stations = stations.map(|(station, service)| Station { name: station.name.clone(), service }).collect();
        Self { stations, classes: self.classes.clone() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A station for tests.
    pub(crate) fn station(name: &str, service: Service) -> Station {
        Station { name: name.to_owned(), service }
    }

    /// A class for tests, named by its numbers.
    pub(crate) fn class(population: u32, think_s: f64, demands_s: &[f64]) -> Class {
        let name = format!("{population} x {demands_s:?}");
        Class { name, arrivals_per_s: None, population, think_s, demands_s: demands_s.to_vec() }
    }

    /// An open class for tests, named by its numbers.
    pub(crate) fn open(per_s: f64, demands_s: &[f64]) -> Class {
        let name = format!("{per_s}/s x {demands_s:?}");
        Class { name, arrivals_per_s: Some(per_s), population: 0, think_s: 0.0, demands_s: demands_s.to_vec() }
    }

    #[test]
    fn rates_are_those_of_servers_and_curves() {
        let two = Service::Processors { servers: 2 };
        assert_eq!([0, 1, 2, 3].map(|present| two.rate(present)), [0.0, 1.0, 2.0, 2.0]);
        let disk = Service::Curve { rates: vec![1.0, 1.5, 1.75] };
        assert_eq!([0, 1, 2, 3, 9].map(|present| disk.rate(present)), [0.0, 1.0, 1.5, 1.75, 1.75]);
        assert_eq!((disk.rate_max(), Service::Delay.rate_max()), (Some(1.75), None));
        assert_eq!((disk.levels(9), disk.levels(2), disk.levels(0), two.levels(9)), (3, 2, 1, 2));
    }

    #[test]
    fn impossible_networks_are_refused() {
        let refuse =
            |service: Service, class: Class| Network::new(vec![station("cpu", service)], vec![class]).unwrap_err();
        let cpu = || Service::Processors { servers: 1 };
        let falling = Service::Curve { rates: vec![1.0, 0.9] };
        assert_eq!(refuse(falling, class(1, 0.0, &[1.0])), Fault::Service("cpu".to_owned()));
        assert_eq!(refuse(Service::Processors { servers: 0 }, class(1, 0.0, &[1.0])), Fault::Service("cpu".to_owned()));
        assert!(matches!(refuse(cpu(), class(1, 0.0, &[])), Fault::DemandCount { found: 0, expect: 1, .. }));
        assert!(matches!(refuse(cpu(), class(1, f64::NAN, &[1.0])), Fault::Demand(_)));
        assert!(matches!(refuse(cpu(), class(1, 0.0, &[-1.0])), Fault::Demand(_)));
        assert!(matches!(refuse(cpu(), class(1, 0.0, &[0.0])), Fault::NoDemand(_)));
        assert!(matches!(refuse(cpu(), open(f64::INFINITY, &[0.1])), Fault::Arrivals(_)));
        assert!(matches!(refuse(cpu(), Class { population: 1, ..open(1.0, &[0.1]) }), Fault::Arrivals(_)));
        assert!(Network::new(vec![station("cpu", cpu())], vec![class(0, 0.0, &[0.0])]).is_ok());
    }

    #[test]
    fn rates_that_saturate_a_station_are_refused_with_the_reason() {
        let stations = || vec![station("cpu", Service::Processors { servers: 2 }), station("wire", Service::Delay)];
        let of = |per_s: f64| Network::new(stations(), vec![open(per_s, &[0.02, 5.0]), class(9, 0.0, &[1.0, 0.0])]);
        assert_eq!(of(99.0).unwrap().check_open(), Ok(()));
        let error = of(120.0).unwrap().check_open().unwrap_err();
        assert_eq!((error.brought, error.rate_max), (2.4, 2.0));
        assert_eq!(
            error.to_string(),
            "requests that arrive at a rate bring 2.40 s of work per second to `cpu`, which can do 2.00: \
             lower the rate of `120/s x [0.02, 5.0]`"
        );
    }
}
