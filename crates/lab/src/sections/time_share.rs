//! The parts of response time.

use crate::results::TimeShare;

/// A part in the form in which it is shown.
pub(crate) struct DisplayedPart {
    /// Its letter in bars of a terminal, and the heading of its column there.
    pub letter: char,
    pub short: &'static str,
    pub name: &'static str,
    pub meaning: &'static str,
    /// Position in the style sheet's list of colours for parts.
    pub tone: usize,
    pub of: fn(&TimeShare) -> Option<f64>,
    /// Whether it is shown only if it was measured.
    pub optional: bool,
}

/// Parts in the order of bars and columns.
pub(crate) const PARTS: [DisplayedPart; 7] = [
    DisplayedPart {
        letter: 'R',
        short: "Run",
        name: "on a core",
        meaning: "running instructions",
        tone: 0,
        of: |share| share.cpu_run,
        optional: false,
    },
    DisplayedPart {
        letter: 'W',
        short: "Wait",
        name: "waiting for a core",
        meaning: "could run, but every core was taken",
        tone: 1,
        of: |share| share.cpu_wait,
        optional: false,
    },
    DisplayedPart {
        letter: 'D',
        short: "Disk",
        name: "device",
        meaning: "waiting for a disk",
        tone: 2,
        of: |share| share.io,
        optional: false,
    },
    DisplayedPart {
        letter: 'B',
        short: "Behind",
        name: "behind a device",
        meaning: "waiting for another process that reads or writes the same page, or the log",
        tone: 5,
        of: |share| share.io_latch,
        optional: true,
    },
    DisplayedPart {
        letter: 'L',
        short: "Lock",
        name: "database lock",
        meaning: "waiting for a lock that another transaction holds",
        tone: 3,
        of: |share| share.lock,
        optional: false,
    },
    DisplayedPart {
        letter: 'C',
        short: "Client",
        name: "client",
        meaning: "the server waited for its client, or a request or its answer was on the way",
        tone: 6,
        of: |share| share.client,
        optional: true,
    },
    DisplayedPart {
        letter: '.',
        short: "other",
        name: "other",
        meaning: "everything else, and whatever could not be measured; for queries mostly workers with nothing to do, for interactive clients of a database in this process round trips",
        tone: 4,
        of: |share| Some(share.other),
        optional: false,
    },
];

/// The parts to show for these shares.
pub(crate) fn told<'a>(shares: impl Iterator<Item = &'a TimeShare>) -> Vec<&'static DisplayedPart> {
    let shares: Vec<&TimeShare> = shares.collect();
    let is_told = |part: &&DisplayedPart| !part.optional || shares.iter().any(|share| (part.of)(share).is_some());
    PARTS.iter().filter(is_told).collect()
}
