//! One run: clients that think, ask, wait and are served, from event to event. A request of an open class is a client
//! of its own, which leaves with its answer; its place is taken by a later one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt;
use rand_distr::Exp1;
use rand_pcg::Pcg64;

use super::station::{Seconds, Station};
use super::{Observed, Settings};
use crate::network;
use crate::network::{Network, Service};

/// Requests of the warm-up, as a share of those that are measured.
pub(super) const WARM_UP: f64 = 0.25;

/// Simulates one run.
pub(super) fn run(network: &Network, settings: &Settings, random: Pcg64) -> Vec<Observed> {
    let mut simulation = Simulation::new(network, settings, random);
    let warm_up = (settings.requests as f64 * WARM_UP).ceil() as u64;
    simulation.until(warm_up);
    simulation.forget();
    simulation.until(settings.requests);
    simulation.observed
}

/// What a class did in a window.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowOfClass {
    /// Requests that ended, and the sum of their responses.
    pub(crate) requests: f64,
    pub(crate) responses_s: f64,
    /// Seconds of requests in the system.
    pub(crate) presence_s: f64,
    /// By station, seconds of service.
    pub(crate) service_s: Vec<f64>,
}

/// Successive windows by class, each with its length: an event that ends a window is within it.
#[cfg(test)]
pub(crate) fn windows(
    network: &Network,
    settings: &Settings,
    random: Pcg64,
    (seconds, count): (f64, usize),
) -> Vec<(f64, Vec<WindowOfClass>)> {
    let mut simulation = Simulation::new(network, settings, random);
    simulation.until(settings.requests);
    let stations = network.stations().len();
    let window = |simulation: &mut Simulation<'_>| {
        simulation.forget();
        let mut service_s = vec![vec![0.0; stations]; network.classes().len()];
        let began_s = simulation.now_s;
        while simulation.now_s < began_s + seconds {
            let served: Vec<(usize, usize, f64)> = (0..stations)
                .flat_map(|at| simulation.stations[at].served().map(move |(client, rate)| (at, client, rate)))
                .collect();
            let before_s = simulation.now_s;
            simulation.event();
            for (station, client, rate) in served {
                service_s[simulation.clients[client].class][station] += rate * (simulation.now_s - before_s);
            }
            simulation.go_on();
        }
        let of_class = |(observed, service_s): (&Observed, Vec<f64>)| WindowOfClass {
            requests: observed.responses_s.len() as f64,
            responses_s: observed.responses_s.iter().sum(),
            presence_s: observed.presence_s,
            service_s,
        };
        let classes = simulation.observed.iter().zip(service_s).map(of_class).collect();
        (simulation.now_s - began_s, classes)
    };
    (0..count).map(|_| window(&mut simulation)).collect()
}

/// A client and its request.
struct Client {
    class: usize,
    began_s: f64,
    /// The next station.
    station: usize,
}

/// An event at a moment that is known before.
enum Timer {
    /// Thinking ends.
    Ask,
    /// A request of an open class comes. The timer's client is no client but the origin of the class's requests.
    Come,
    /// A delay ends.
    Arrive,
}

struct Simulation<'a> {
    network: &'a Network,
    settings: &'a Settings,
    random: Pcg64,
    now_s: f64,
    clients: Vec<Client>,
    /// By class, clients that have left.
    left: Vec<Vec<usize>>,
    stations: Vec<Station<'a>>,
    /// Clients that need the lock; the first has it.
    lock: VecDeque<usize>,
    /// By moment, then client; each client has one at most.
    timers: BinaryHeap<Reverse<(Seconds, usize)>>,
    kinds: Vec<Timer>,
    /// Clients that can continue now.
    ready: VecDeque<usize>,
    present: Vec<u32>,
    answered: u64,
    observed: Vec<Observed>,
}

impl<'a> Simulation<'a> {
    fn new(network: &'a Network, settings: &'a Settings, random: Pcg64) -> Self {
        let priorities = |by_priority: bool| match by_priority {
            true => settings.behaviours.iter().map(|behaviour| behaviour.priority).collect(),
            false => vec![0],
        };
        let station = |(station, by_priority): (&'a network::Station, &bool)| {
            Station::new(&station.service, priorities(*by_priority))
        };
        let classes = network.classes().iter().enumerate();
        let classes: Vec<usize> = classes.flat_map(|(at, class)| (0..class.population).map(move |_| at)).collect();
        let mut simulation = Self {
            network,
            settings,
            random,
            now_s: 0.0,
            kinds: classes.iter().map(|_| Timer::Ask).collect(),
            clients: classes.into_iter().map(|class| Client { class, began_s: 0.0, station: 0 }).collect(),
            left: vec![Vec::new(); network.classes().len()],
            stations: network.stations().iter().zip(&settings.by_priority).map(station).collect(),
            lock: VecDeque::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            present: vec![0; network.classes().len()],
            answered: 0,
            observed: Vec::new(),
        };
        simulation.forget();
        for client in 0..simulation.clients.len() {
            simulation.think(client);
        }
        for (class, needs) in network.classes().iter().enumerate() {
            if let Some(per_s) = needs.arrivals_per_s.filter(|per_s| *per_s > 0.0) {
                let origin = simulation.new_client(class);
                simulation.next_comes(origin, per_s);
            }
        }
        simulation
    }

    /// Discards the observations so far.
    fn forget(&mut self) {
        self.answered = 0;
        let nothing = |_| Observed { seconds: 0.0, responses_s: Vec::new(), presence_s: 0.0 };
        self.observed = self.network.classes().iter().map(nothing).collect();
    }

    /// Runs until `requests` are answered, and sorts the responses.
    fn until(&mut self, requests: u64) {
        self.go_on();
        while self.answered < requests {
            self.event();
            self.go_on();
        }
        for observed in &mut self.observed {
            observed.responses_s.sort_unstable_by(f64::total_cmp);
        }
    }

    /// The next event: a timer, or a station is done with a request.
    fn event(&mut self) {
        let timer_s = self.timers.peek().map(|Reverse((at, _))| (at.0 - self.now_s).max(0.0));
        let next = |at: usize| self.stations[at].next_s().map(|seconds| (Seconds(seconds), at));
        let station = (0..self.stations.len()).filter_map(next).min();
        match (station, timer_s) {
            (Some((seconds, at)), timer_s) if timer_s.is_none_or(|timer_s| seconds.0 <= timer_s) => {
                self.pass(seconds.0);
                let client = self.stations[at].leave().expect("a station that is done has a request");
                self.ready.push_back(client);
            }
            (_, Some(seconds)) => {
                self.pass(seconds);
                let Reverse((_, client)) = self.timers.pop().expect("the timer that was seen");
                let client = match self.kinds[client] {
                    Timer::Ask => self.ask(client),
                    Timer::Come => self.come(client),
                    Timer::Arrive => client,
                };
                self.ready.push_back(client);
            }
            (_, None) => unreachable!("every client thinks, is served, or waits for one who is"),
        }
    }

    fn pass(&mut self, seconds: f64) {
        self.now_s += seconds;
        for station in &mut self.stations {
            station.pass(seconds);
        }
        for (observed, present) in self.observed.iter_mut().zip(&self.present) {
            observed.seconds += seconds;
            observed.presence_s += seconds * f64::from(*present);
        }
    }

    fn think(&mut self, client: usize) {
        let think_s = self.network.classes()[self.clients[client].class].think_s;
        if think_s > 0.0 {
            let seconds = think_s * self.exponential();
            self.timer(client, Timer::Ask, seconds);
        } else {
            let client = self.ask(client);
            self.ready.push_back(client);
        }
    }

    fn new_client(&mut self, class: usize) -> usize {
        self.clients.push(Client { class, began_s: 0.0, station: 0 });
        self.kinds.push(Timer::Ask);
        self.clients.len() - 1
    }

    /// Draws when the next request of an open class comes.
    fn next_comes(&mut self, origin: usize, per_s: f64) {
        let seconds = self.exponential() / per_s;
        self.timer(origin, Timer::Come, seconds);
    }

    /// A request of an open class comes, and is followed by the next one.
    fn come(&mut self, origin: usize) -> usize {
        let class = self.clients[origin].class;
        let per_s = self.network.classes()[class].arrivals_per_s.expect("an origin is that of an open class");
        self.next_comes(origin, per_s);
        let client = self.left[class].pop().unwrap_or_else(|| self.new_client(class));
        self.ask(client)
    }

    fn timer(&mut self, client: usize, kind: Timer, seconds: f64) {
        self.kinds[client] = kind;
        self.timers.push(Reverse((Seconds(self.now_s + seconds), client)));
    }

    /// A request begins; returns its client.
    fn ask(&mut self, client: usize) -> usize {
        let Client { class, began_s, station } = &mut self.clients[client];
        (*began_s, *station) = (self.now_s, 0);
        self.present[*class] += 1;
        client
    }

    /// Advances all clients that can continue, until they are served, wait or think.
    fn go_on(&mut self) {
        while let Some(client) = self.ready.pop_front() {
            self.advance(client);
        }
    }

    fn advance(&mut self, client: usize) {
        let class = self.clients[client].class;
        if self.clients[client].station == 0 && !self.has_lock(client) {
            return;
        }
        loop {
            let station = self.clients[client].station;
            if station == self.stations.len() {
                return self.answer(client);
            }
            self.clients[client].station += 1;
            let factor = if self.settings.is_constant[station] { 1.0 } else { self.exponential() };
            let demand_s = self.network.classes()[class].demands_s[station] * factor;
            if demand_s > 0.0 {
                let priority = self.priority(station, class);
                match self.network.stations()[station].service {
                    Service::Delay => self.timer(client, Timer::Arrive, demand_s),
                    _ => self.stations[station].enter(client, priority, demand_s),
                }
                return;
            }
        }
    }

    fn priority(&self, station: usize, class: usize) -> u8 {
        if self.settings.by_priority[station] { self.settings.behaviours[class].priority } else { 0 }
    }

    /// Whether it has the lock or needs none; otherwise it waits for it.
    fn has_lock(&mut self, client: usize) -> bool {
        if !self.settings.behaviours[self.clients[client].class].holds_lock {
            return true;
        }
        if self.lock.front() != Some(&client) {
            self.lock.push_back(client);
        }
        self.lock.front() == Some(&client)
    }

    /// A request ends.
    fn answer(&mut self, client: usize) {
        let Client { class, began_s, .. } = self.clients[client];
        if self.lock.front() == Some(&client) {
            self.lock.pop_front();
            self.ready.extend(self.lock.front());
        }
        self.present[class] -= 1;
        self.answered += 1;
        self.observed[class].responses_s.push(self.now_s - began_s);
        match self.network.classes()[class].arrivals_per_s {
            Some(_) => self.left[class].push(client),
            None => self.think(client),
        }
    }

    /// A draw from the exponential distribution with mean 1.
    fn exponential(&mut self) -> f64 {
        self.random.sample(Exp1)
    }
}
