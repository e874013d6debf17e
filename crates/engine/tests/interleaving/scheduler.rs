//! Runs threads one at a time, in an order that is drawn from a seed.

use system::any::Any;
use system::cell::RefCell;
use system::panic::{AssertUnwindSafe, catch_unwind};
use system::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Steps after which a world is assumed to run forever.
const STEPS_MAX: usize = 100_000;

/// A defect of a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One of this many notifications of condition variables is lost.
    LosesNotification(u32),
    /// A futex puts its thread to sleep although its word has changed.
    FutexSleepsAnyway,
    /// A condition variable releases the mutex before its thread is registered as waiting.
    WaitsAfterUnlock,
}

/// The work of a thread in a world.
pub type Work = Box<dyn FnOnce() + Send>;

/// Runs threads until all have ended. An error if one panics, if all remaining ones sleep, or if they do not end.
///
/// After an error the remaining threads never run again.
pub fn run(seed: u64, fault: Option<Fault>, works: Vec<Work>) -> Result<(), String> {
    let mut random = Pcg64::seed_from_u64(seed);
    // Sometimes each step is another thread's; sometimes one thread runs far while others stand still.
    let stays = [0.0, 0.5, 0.9][random.random_range(0..3)];
    let tasks = works.iter().map(|_| Task::Ready).collect();
    let state = State { random, stays, fault, tasks, turn: 0, steps: 0, outcome: None };
    let turns = works.iter().map(|_| Condvar::new()).collect();
    let world = Arc::new(World { state: Mutex::new(state), turns, end: Condvar::new() });
    let threads: Vec<_> = works
        .into_iter()
        .enumerate()
        .map(|(number, work)| {
            let world = Arc::clone(&world);
            system::thread::spawn(move || world.live(number, work))
        })
        .collect();
    let mut state = world.lock();
    while state.outcome.is_none() {
        state = world.end.wait(state).expect("nobody panics under it");
    }
    let outcome = state.outcome.clone().expect("it was waited for");
    drop(state);
    if outcome.is_ok() {
        threads.into_iter().for_each(|thread| thread.join().expect("its panic would be the outcome"));
    }
    outcome
}

struct World {
    state: Mutex<State>,
    /// Where each thread waits until the scheduler chooses it.
    turns: Vec<Condvar>,
    end: Condvar,
}

struct State {
    random: Pcg64,
    /// The probability that a thread that can continue does so.
    stays: f64,
    fault: Option<Fault>,
    tasks: Vec<Task>,
    turn: usize,
    steps: usize,
    outcome: Option<Result<(), String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Ready,
    Asleep {
        /// The address at which it sleeps.
        place: usize,
        /// Whether it continues by itself when no other thread can.
        has_deadline: bool,
    },
    Done,
}

thread_local!(static TASK: RefCell<Option<(Arc<World>, usize)>> = const { RefCell::new(None) });

/// A point at which another thread may continue. Does nothing outside of a world.
pub fn step() {
    with_world(|world, me| {
        let mut state = world.lock();
        state.steps += 1;
        if state.steps > STEPS_MAX {
            let outcome = Err(format!("no end after {STEPS_MAX} steps: {:?}", state.tasks));
            state.end(outcome);
        }
        let stays = state.stays;
        if !state.random.random_bool(stays) {
            world.give_turn(&mut state);
        }
        world.wait_for_turn(state, me);
    });
}

/// Sleeps until [`wake`] is called for this place, or, with a deadline, until no other thread can continue.
pub fn sleep_at(place: usize, has_deadline: bool) {
    with_world(|world, me| {
        let mut state = world.lock();
        state.tasks[me] = Task::Asleep { place, has_deadline };
        world.give_turn(&mut state);
        world.wait_for_turn(state, me);
    });
}

/// Wakes one of the threads that sleep at a place, or all of them.
pub fn wake(place: usize, all: bool) {
    with_world(|world, _| {
        let mut state = world.lock();
        let sleeps = |task: &Task| matches!(task, Task::Asleep { place: at, .. } if *at == place);
        let mut sleepers: Vec<usize> = (0..state.tasks.len()).filter(|&task| sleeps(&state.tasks[task])).collect();
        if !all && sleepers.len() > 1 {
            let one = state.random.random_range(0..sleepers.len());
            sleepers = vec![sleepers[one]];
        }
        sleepers.into_iter().for_each(|task| state.tasks[task] = Task::Ready);
    });
}

/// Whether the calling thread belongs to a world.
pub fn is_in_world() -> bool {
    TASK.with_borrow(Option::is_some)
}

/// The fault in the world of the calling thread.
pub fn fault() -> Option<Fault> {
    let mut fault = None;
    with_world(|world, _| fault = world.lock().fault);
    fault
}

/// Whether a notification is lost now.
pub fn loses_notification() -> bool {
    let mut is_lost = false;
    with_world(|world, _| {
        let mut state = world.lock();
        if let Some(Fault::LosesNotification(one_of)) = state.fault {
            is_lost = state.random.random_ratio(1, one_of);
        }
    });
    is_lost
}

fn with_world(act: impl FnOnce(&World, usize)) {
    let task = TASK.with_borrow(Clone::clone);
    if let Some((world, me)) = task {
        act(&world, me);
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics under it")
    }

    fn live(self: Arc<Self>, me: usize, work: Work) {
        TASK.set(Some((Arc::clone(&self), me)));
        self.wait_for_turn(self.lock(), me);
        let ended = catch_unwind(AssertUnwindSafe(work));
        TASK.set(None);
        let mut state = self.lock();
        state.tasks[me] = Task::Done;
        if let Err(panic) = ended {
            state.end(Err(message(&*panic)));
        }
        self.give_turn(&mut state);
    }

    fn give_turn(&self, state: &mut State) {
        let is_ready = |task: &Task| *task == Task::Ready;
        let may_go_on = |task: &Task| matches!(task, Task::Asleep { has_deadline: true, .. });
        let mut able: Vec<usize> = (0..state.tasks.len()).filter(|&task| is_ready(&state.tasks[task])).collect();
        if able.is_empty() {
            able = (0..state.tasks.len()).filter(|&task| may_go_on(&state.tasks[task])).collect();
        }
        if able.is_empty() {
            let sleepers = state.tasks.iter().filter(|task| **task != Task::Done).count();
            state.end(if sleepers == 0 { Ok(()) } else { Err(format!("{sleepers} threads sleep for ever")) });
        } else {
            state.turn = able[state.random.random_range(0..able.len())];
            state.tasks[state.turn] = Task::Ready;
            self.turns[state.turn].notify_one();
        }
        if state.outcome.is_some() {
            self.end.notify_all();
        }
    }

    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>, me: usize) {
        while state.turn != me || state.outcome.is_some() {
            if state.outcome.is_some() {
                self.end.notify_all();
            }
            state = self.turns[me].wait(state).expect("nobody panics under it");
        }
    }
}

impl State {
    /// The first outcome stays.
    fn end(&mut self, outcome: Result<(), String>) {
        self.outcome.get_or_insert(outcome);
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}
