//! The figures of each subject, with headings and units, as the terminal (`table`) and the report show them. A figure is added
//! here, and appears in both.

pub(crate) mod freshness;
pub(crate) mod levers;
pub(crate) mod lock_waiting;
pub(crate) mod time_share;
