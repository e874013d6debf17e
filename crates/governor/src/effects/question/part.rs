//! The parts of a question.

/// The parts of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::effects) enum Part {
    /// The state of the server and the session.
    Ground,
    /// Objects with given names, in the schemas that the names may reach; and what runs without a name.
    Names,
    /// Functions of the server with given names.
    Calls,
    /// Event triggers.
    Events,
    /// Temporary objects of the session.
    Temporary,
    /// What reading a relation may run.
    Relations,
    /// What writing to it may run besides.
    Written,
    Functions,
    Types,
    /// Operators by number.
    Numbers,
}
