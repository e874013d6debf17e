//! The automatic `mpl`: the facts for the policy's search, and the limit that the search sets for the class.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, EndedWork, MplBounds, MplMove, MplSearch, MplSeen};

use crate::governor::Governor;
use crate::registry::Phase;
use crate::settings::Settings;
use crate::statistics::Counts;

/// A client that thinks for longer within a transaction does not use what the search counts: another transaction gets
/// its place. Otherwise a single idle client would keep the class out.
const THINKS_LONG: Duration = Duration::from_secs(1);

/// How late the server counts transactions of sessions there, with the second in which we ask.
const DIRECT_LAG: Duration = Duration::from_secs(2);

/// The search, and its class.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The class that may be limited, if one exists.
    pub(super) class: Option<ClassIndex>,
    pub(super) search: MplSearch,
    refused: u64,
    /// Transactions inside whose clients think for long.
    thinking: u32,
}

/// The state of the class's sessions.
#[derive(Debug, Default)]
struct Sessions {
    running: u32,
    thinking: u32,
    queued: u32,
}

impl Search {
    /// How many transactions of the class may be inside now; `None` if unlimited.
    pub(super) fn mpl(&self) -> Option<(ClassIndex, u32)> {
        Some((self.class?, self.search.mpl()?.saturating_add(self.thinking)))
    }

    /// Evaluates one second, given the work that ended in it: by class, and that of more important sessions at the
    /// server.
    pub(super) fn step(
        &mut self,
        governor: &Governor,
        settings: &Settings,
        (ended, direct): (&[EndedWork], EndedWork),
        now: Instant,
    ) -> Option<(ClassIndex, MplMove)> {
        let cores = governor.health.lock().server_cores.or(settings.server_cores);
        let (class, cores) = self.choose(governor, settings).zip(cores).or_else(|| {
            *self = Search::default();
            None
        })?;
        let priority = settings.class(class).limits.priority;
        let above = settings.indexed().filter(|(_, of)| of.limits.priority > priority);
        let of = |class: ClassIndex| ended.get(usize::from(class.0)).copied().unwrap_or_default();
        let mut important = direct;
        above.for_each(|(class, _)| important += of(class));
        let sessions = Sessions::of(governor, class, now);
        self.thinking = sessions.thinking;
        let refused = refused(governor, class);
        let seen = MplSeen {
            important,
            limited: of(class),
            running: sessions.running,
            queued: sessions.queued,
            refused: refused.saturating_sub(std::mem::replace(&mut self.refused, refused)),
        };
        let lag = if direct == EndedWork::default() { Duration::ZERO } else { DIRECT_LAG };
        let bounds = MplBounds { floor: settings.class(class).mpl_floor(), cores, lag };
        let moved = self.search.step(governor.clock(now), bounds, &seen)?;
        Some((class, moved))
    }

    /// The class to search for: the same as before as long as it may be limited, otherwise the busiest candidate.
    fn choose(&mut self, governor: &Governor, settings: &Settings) -> Option<ClassIndex> {
        let may_be = || settings.searched().map(|(class, _)| class);
        let inside = |class: &ClassIndex| governor.statistics.class(*class).inside.load(Relaxed);
        let busiest = may_be().max_by_key(inside);
        let stays = self.class.filter(|class| self.search.mpl().is_some() && may_be().any(|other| other == *class));
        let chosen = stays.or(busiest);
        if self.class != chosen {
            let refused = chosen.map_or(0, |class| refused(governor, class));
            *self = Search { class: chosen, refused, ..Search::default() };
        }
        chosen
    }
}

impl Sessions {
    fn of(governor: &Governor, class: ClassIndex, now: Instant) -> Self {
        let mut sessions = Sessions::default();
        for card in governor.registry.all() {
            let state = card.state();
            // A session at the server is not limited.
            if state.class != class || card.is_direct() {
                continue;
            }
            match state.phase {
                Phase::IdleInTransaction if now.saturating_duration_since(state.since) >= THINKS_LONG => {
                    sessions.thinking += 1;
                }
                Phase::Active | Phase::Preempted | Phase::IdleInTransaction => sessions.running += 1,
                Phase::Queued => sessions.queued += 1,
                Phase::Starting | Phase::Idle | Phase::Ungoverned => {}
            }
        }
        sessions
    }
}

/// The work that ended between two counts.
pub(super) fn ended(counts: &Counts, before: &Counts) -> EndedWork {
    let since = counts.since(before);
    EndedWork { count: since.count(), time: since.sum() }
}

fn refused(governor: &Governor, class: ClassIndex) -> u64 {
    let class = governor.statistics.class(class);
    class.refused_full.load(Relaxed) + class.refused_timeout.load(Relaxed)
}
