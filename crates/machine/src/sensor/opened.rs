//! Sensors that were opened for the same subject.

use std::fmt;

use super::{Figures, Instruments, Observed, Reading, SENSORS, Sensor};

/// Sensors that were opened for a subject, and their combined figures.
pub struct Sensors {
    readings: Vec<Box<dyn Reading>>,
    /// Of the sensors that could not be opened.
    none: Figures,
}

impl Sensors {
    /// Opens every sensor that has figures about `observed` and that is `wanted`. Why one cannot be opened is among the
    /// figures. They begin with the first [`read`](Sensors::read).
    pub fn open(instruments: &Instruments, observed: &Observed, wanted: impl Fn(&dyn Sensor) -> bool) -> Sensors {
        let mut sensors = Sensors { readings: Vec::new(), none: Figures::default() };
        let has_figures = |sensor: &&&dyn Sensor| sensor.scopes().iter().any(|scope| observed.is(*scope));
        for sensor in SENSORS.iter().filter(has_figures).filter(|sensor| wanted(**sensor)) {
            match sensor.open(instruments, observed) {
                Ok(reading) => sensors.readings.push(reading),
                Err(why) => sensors.none.miss(sensor.name(), why),
            }
        }
        sensors
    }

    /// To be called about once per second between two calls of [`read`](Sensors::read).
    pub fn second(&mut self) {
        self.readings.iter_mut().for_each(|reading| reading.second());
    }

    /// The figures since the last call; empty for the first call.
    pub fn read(&mut self) -> Figures {
        let mut figures = self.none.clone();
        self.readings.iter_mut().for_each(|reading| reading.read(&mut figures));
        figures
    }
}

impl fmt::Debug for Sensors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sensors").field("readings", &self.readings.len()).finish_non_exhaustive()
    }
}
