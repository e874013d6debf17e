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

/// The governor for which a governor leaves the sessions alone that applications open at the server themselves; `None`
/// if it governs them. One beside the server does nothing then. Two in the connection path both leave them alone,
/// because neither can tell them from the sessions of the other.
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
    let goes_before = |other: &GovernorAtServer| match own.place {
        GovernorPlace::InPath => other.place == GovernorPlace::InPath,
        GovernorPlace::Beside => *other < own,
    };
    others.iter().copied().filter(goes_before).min()
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
        assert_eq!(stands_by_for(in_path, &[own]), None);
    }

    #[test]
    fn two_in_the_path_cannot_tell_the_sessions_of_applications_from_the_others() {
        let in_path = |process| GovernorAtServer { place: GovernorPlace::InPath, began: 1, process };
        let (first, second) = (in_path(1), in_path(2));
        assert_eq!(stands_by_for(first, &[second]), Some(second));
        assert_eq!(stands_by_for(second, &[first]), Some(first));
    }
}
