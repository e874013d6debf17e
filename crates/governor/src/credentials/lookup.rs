//! Asks the server for the passwords of users (`auth_query`), on a connection and a thread of its own.
//!
//! Answers are kept for seconds, so that many clients of one user cost one question, and so that a client whose password
//! has changed is let in soon. While the server cannot be asked, older answers count: the server itself is asked when a
//! connection to it is made. One question is asked at a time, and each ends within [`PATIENCE`]; a client whose question
//! has waited too long is not let in.

mod cache;
mod question;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use plimsoll_pg::secret::Secret;
use plimsoll_pg::url::ServerUrl;

use super::source::{Answer, Found, Known, Origin};
use cache::{Cache, Kept};
pub(crate) use question::{Asker, Finding};

/// How long a login or an answer of the server may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a question may wait for others. With its own time it is shorter than the default `login_timeout`.
const QUEUE_MAX: Duration = Duration::from_secs(5);

/// The most users that are asked for at once; clients beyond them are not let in.
const WAITING_MAX: usize = 1_000;

/// After that long without a question the connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// What is asked, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) url: ServerUrl,
    pub(crate) query: String,
}

/// The questions and answers.
#[derive(Default)]
pub(super) struct Lookup {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A question is there, or the thread must end.
    bell: Condvar,
}

#[derive(Default)]
struct State {
    cache: Cache,
    /// The clients of each user that is asked for.
    waiting: BTreeMap<String, Waiting>,
    /// Those users, the oldest question first.
    queue: VecDeque<String>,
    asks: Option<Asks>,
    /// The first secret that was found, which those of unknown users resemble.
    like: Option<Secret>,
    has_thread: bool,
    stops: bool,
}

impl State {
    /// Takes the questions to that server.
    fn take_queue(&mut self, asks: &Asks) -> VecDeque<String> {
        if self.asks.as_ref() == Some(asks) { std::mem::take(&mut self.queue) } else { VecDeque::new() }
    }
}

struct Waiting {
    since: Instant,
    like: Option<Secret>,
    answers: Vec<Answer>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Lookup")
            .field("asks", &state.asks)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Lookup {
    /// The thread ends after the question that it asks now.
    fn drop(&mut self) {
        self.shared.state.lock().stops = true;
        self.shared.bell.notify_all();
    }
}

impl Lookup {
    /// Looks for a user; see [`Source::find`](super::Source::find). Unknown users resemble `like`.
    pub(super) fn find(&self, asks: Asks, user: &str, like: Option<&Secret>, now: Instant, answer: Answer) -> Found {
        let mut state = self.shared.state.lock();
        if state.asks.as_ref() != Some(&asks) {
            // Another server or another question: earlier answers may be wrong.
            state.cache = Cache::default();
            state.asks = Some(asks);
        }
        let like = like.cloned().or_else(|| state.like.clone());
        if let Some(kept) = state.cache.fresh(user, now) {
            return Found::Now(known(user, kept.secret, like.as_ref()));
        }
        if let Some(waiting) = state.waiting.get_mut(user) {
            waiting.answers.push(answer);
            return Found::Asking;
        }
        if state.waiting.len() >= WAITING_MAX {
            tracing::warn!(
                user,
                "auth_query: {WAITING_MAX} users are being asked for, and no more; the client is refused"
            );
            return Found::Now(Known::nobody(user, like.as_ref()));
        }
        if !state.has_thread {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("auth query".to_owned()).spawn(move || shared.run());
            if let Err(error) = thread {
                tracing::warn!(user, %error, "auth_query: no thread can be started; the client is refused");
                return Found::Now(Known::nobody(user, like.as_ref()));
            }
            state.has_thread = true;
        }
        state.waiting.insert(user.to_owned(), Waiting { since: now, like, answers: vec![answer] });
        state.queue.push_back(user.to_owned());
        self.shared.bell.notify_all();
        Found::Asking
    }

    pub(super) fn forget(&self, user: &str, now: Instant) {
        self.shared.state.lock().cache.forget(user, now);
    }
}

/// A secret, or that of an unknown user.
fn known(user: &str, secret: Option<Secret>, like: Option<&Secret>) -> Known {
    match secret {
        Some(secret) => Known { secret, origin: Origin::Server },
        None => Known::nobody(user, like),
    }
}

/// The thread runs; another is started after its end, however it ended.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().has_thread = false;
    }
}

impl Shared {
    /// Asks one question after the other.
    fn run(&self) {
        let _running = Running(self);
        let mut asker: Option<Asker> = None;
        loop {
            let Some((user, asks, since)) = self.next(&mut asker) else { return };
            if asker.as_ref().is_none_or(|asker| !asker.is_for(&asks)) {
                asker = Some(Asker::new(asks.clone()));
            }
            let finding = match &mut asker {
                _ if since.elapsed() > QUEUE_MAX => {
                    Finding::Failed("the question has waited too long for others".to_owned())
                }
                Some(asker) => asker.ask(&user),
                None => continue,
            };
            let is_away = asker.as_ref().is_some_and(|asker| !asker.is_up()) && matches!(finding, Finding::Failed(_));
            // The server is away: asking for each of the others would take as long again. Questions that come later, and
            // those to another server, are not among them.
            let others = if is_away { self.state.lock().take_queue(&asks) } else { VecDeque::new() };
            self.tell(&user, &asks, &finding);
            others.iter().for_each(|user| self.tell(user, &asks, &finding));
        }
    }

    /// The next question; `None` if the thread must end. Closes a connection that has long been idle.
    fn next(&self, asker: &mut Option<Asker>) -> Option<(String, Asks, Instant)> {
        let mut state = self.state.lock();
        loop {
            if state.stops {
                return None;
            }
            let user = state.queue.pop_front();
            if let Some((user, asks)) = user.zip(state.asks.clone()) {
                let since = state.waiting.get(&user).map_or_else(Instant::now, |waiting| waiting.since);
                return Some((user, asks, since));
            }
            if self.bell.wait_for(&mut state, IDLE_MAX).timed_out() {
                *asker = None;
            }
        }
    }

    /// Passes an answer on to the clients that wait for it.
    fn tell(&self, user: &str, asks: &Asks, finding: &Finding) {
        let now = Instant::now();
        finding.log(user);
        let mut state = self.state.lock();
        let is_current = state.asks.as_ref() == Some(asks);
        let secret = match finding {
            Finding::Secret(secret) => {
                state.like.get_or_insert_with(|| secret.clone());
                Some(secret.clone())
            }
            Finding::None(_) => None,
            // An older answer is better than none: the server is asked again when a connection to it is made.
            Finding::Failed(_) => state.cache.stale(user, now).filter(|_| is_current).and_then(|kept| kept.secret),
        };
        if is_current {
            let is_new = !matches!(finding, Finding::Failed(_));
            state.cache.keep(user, Kept { secret: secret.clone(), at: now }, is_new);
        }
        let Some(waiting) = state.waiting.remove(user) else { return };
        drop(state);
        let known = known(user, secret, waiting.like.as_ref());
        for answer in waiting.answers {
            answer(known.clone());
        }
    }
}

#[cfg(test)]
mod tests;
