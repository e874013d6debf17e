//! Which of several governors of one server is active beside it, so that no two of them change the same server
//! processes.
//!
//! Governors find each other by their connections to the server. Each decides for itself by the connections that
//! it sees, and all that see the same reach the same answer:
//!
//! - A governor in the connection path goes before all beside the server: its clients' sessions are its own, and cannot
//!   be distinguished from others.
//! - Of the governors beside the server the oldest is active; of equally old ones, that with the smallest process number.

/// How a governor stands to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GovernorPlace {
    /// Clients connect through it.
    InPath,
    /// Clients connect directly to the server.
    Beside,
}

/// A governor as the server shows its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GovernorAtServer {
    /// How it stands to the server.
    pub place: GovernorPlace,
    /// When its connection began, by the server's clock; any unit.
    pub began: i64,
    /// The number of its connection's process.
    pub process: i32,
}

/// The governor for which a governor beside the server stands by; `None` if it is the active one.
///
/// ```
/// use plimsoll_policy::{GovernorAtServer, GovernorPlace, stands_by_for};
///
/// let beside = |began, process| GovernorAtServer { place: GovernorPlace::Beside, began, process };
/// let (first, second) = (beside(10, 7), beside(20, 5));
/// assert_eq!(stands_by_for(first, &[second]), None);
/// assert_eq!(stands_by_for(second, &[first]), Some(first));
/// let in_path = GovernorAtServer { place: GovernorPlace::InPath, began: 30, process: 9 };
/// assert_eq!(stands_by_for(first, &[second, in_path]), Some(in_path));
/// ```
pub fn stands_by_for(own: GovernorAtServer, others: &[GovernorAtServer]) -> Option<GovernorAtServer> {
    others.iter().copied().filter(|other| *other < own).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_those_beside_works() {
        let beside = |began, process| GovernorAtServer { place: GovernorPlace::Beside, began, process };
        let all = [beside(10, 7), beside(10, 5), beside(5, 9), beside(40, 1)];
        let works = |own: GovernorAtServer| {
            let others: Vec<_> = all.into_iter().filter(|other| *other != own).collect();
            stands_by_for(own, &others).is_none()
        };
        assert_eq!(all.into_iter().filter(|own| works(*own)).collect::<Vec<_>>(), [beside(5, 9)]);
    }

    #[test]
    fn one_in_the_path_goes_before_all_however_young() {
        let own = GovernorAtServer { place: GovernorPlace::Beside, began: 1, process: 1 };
        let in_path = GovernorAtServer { place: GovernorPlace::InPath, began: 9, process: 9 };
        assert_eq!(stands_by_for(own, &[in_path]), Some(in_path));
        assert_eq!(stands_by_for(own, &[]), None);
    }
}
