//! The key that cancels a session's statement.

/// The data with which a session's statement can be cancelled: its server process and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendKey {
    /// The process id on the server's machine.
    pub process: i32,
    /// 4 bytes; 4 to 256 with protocol 3.2; empty for a session beside the governor, which cannot cancel it this way.
    pub secret: Box<[u8]>,
}

impl std::fmt::Debug for BackendKey {
    /// Omits the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendKey({})", self.process)
    }
}
