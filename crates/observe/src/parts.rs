//! The parts of response time, as the terminal and the report show them.

use crate::results::Share;

/// A part in the form in which it is shown.
pub(crate) struct DisplayedPart {
    /// Its letter in bars of the terminal, and the heading of its column there.
    pub letter: char,
    pub short: &'static str,
    pub long: &'static str,
    /// Position in the style sheet's list of colours for parts.
    pub tone: usize,
    pub of: fn(&Share) -> Option<f64>,
}

/// In the order of columns and bars.
pub(crate) const PARTS: [DisplayedPart; 6] = [
    DisplayedPart { letter: 'R', short: "Run", long: "on a core", tone: 0, of: |share| Some(share.running) },
    DisplayedPart { letter: 'C', short: "Core", long: "waiting for a core", tone: 1, of: |share| share.core_wait },
    DisplayedPart { letter: 'L', short: "Lock", long: "lock", tone: 3, of: |share| Some(share.lock) },
    DisplayedPart { letter: 'D', short: "Disk", long: "disk", tone: 2, of: |share| Some(share.disk) },
    DisplayedPart { letter: 'T', short: "Client", long: "client", tone: 6, of: |share| Some(share.client) },
    DisplayedPart { letter: '.', short: "other", long: "other", tone: 4, of: |share| Some(share.other) },
];
