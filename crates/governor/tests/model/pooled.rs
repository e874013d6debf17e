//! The same sessions through a pool of one connection, which another client has between their transactions.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::generate;
use super::interposer::Canary;
use super::play::{Difference, Report};
use super::script::{CopyPart, PROBE, Request, Script, ScriptStep, Unit, pooled_probe};
use super::world::{VERSIONS, World};
use super::{SEED, SEEDS_LEAST, SEEDS_OF_CANARIES, TIME_MAX, play, seeds, shrink};

/// The number of seeds of an ordinary run.
const SEEDS: u64 = 120;

/// Seeds that once showed a difference.
const ONCE: [u64; 3] = [20_261_124, 20_261_344, 20_261_404];

/// Statements whose answers differ in a pool, as its guide says: a transaction asks for values of sequences that an
/// earlier one has taken.
const DIFFERS: [&str; 2] = ["currval", "lastval"];

/// The script without what a pool does otherwise: `pg_prepared_statements` shows other clients' statements, and a `Sync` in
/// a copy that fails ends the session.
fn for_pool(mut script: Script) -> Script {
    for transaction in &mut script.transactions {
        transaction.steps.retain(|step| !DIFFERS.iter().any(|word| step.unit.to_string().contains(word)));
        transaction.steps.iter_mut().for_each(|ScriptStep { unit, .. }| adapt(unit));
    }
    script.transactions.retain(|transaction| !transaction.steps.is_empty());
    script
}

fn adapt(unit: &mut Unit) {
    let of_sql = |sql: &mut String| {
        *sql = sql.replace(PROBE, &pooled_probe());
    };
    match unit {
        Unit::Query(statements) => statements.iter_mut().for_each(of_sql),
        Unit::Extended(requests) => requests.iter_mut().for_each(|request| {
            if let Request::Parse { sql, .. } = request {
                of_sql(sql);
            }
        }),
        Unit::Copy { parts, .. } => parts.retain(|part| *part != CopyPart::Sync),
        Unit::Leave(inner) => inner.iter_mut().for_each(|unit| adapt(unit)),
        Unit::Finish(inner) => adapt(inner),
        Unit::Call(_) => {}
    }
}

fn run(world: &mut World, seed: u64) -> Result<Report, (Script, Difference)> {
    let script = for_pool(generate::script(seed));
    play(world, &script).map_err(|difference| shrink::shrink(world, script, difference))
}

/// `PLIMSOLL_SEED` and `PLIMSOLL_LONG` are those of the unpooled sessions.
#[test]
fn random_sessions_are_the_same_through_a_pool() {
    let (seeds, is_chosen) = seeds();
    let is_long = is_chosen || std::env::var_os("PLIMSOLL_LONG").is_some();
    let last = if is_long { seeds.end } else { seeds.start + SEEDS };
    let (mut worlds, began) = ([const { None }; VERSIONS.len()], Instant::now());
    let (mut total, mut wrong) = (Report::default(), Vec::new());
    let known = ONCE.iter().copied().filter(|_| !is_chosen);
    for seed in known.chain(seeds.start..last) {
        if !is_long && began.elapsed() > TIME_MAX && total.seeds >= SEEDS_LEAST {
            break;
        }
        let place = (seed % VERSIONS.len() as u64) as usize;
        let world = worlds[place].get_or_insert_with(|| World::pooled(VERSIONS[place]));
        match run(world, seed) {
            Ok(report) => total.add(report),
            Err((script, difference)) => {
                println!("seed {seed} shows a difference.\n\n{script}\n{difference}\n");
                wrong.push(seed);
            }
        }
        if wrong.len() >= if is_long { 10 } else { 1 } {
            break;
        }
    }
    let replayed = |world: &World| {
        let class = world.governor.settings().class_named("low").expect("it has that class");
        world.governor.statistics.class(class).replays_verified.load(Ordering::Relaxed)
    };
    let replayed: u64 = worlds.iter().flatten().map(replayed).sum();
    println!("{total:?}; {replayed} were replayed and nobody noticed");
    assert!(wrong.is_empty(), "seeds with differences: {wrong:?}");
    let is_tested = total.intruded as u64 > total.seeds && total.kept > 0 && total.preempted > 0 && replayed > 0;
    assert!(is_chosen || is_tested, "too little was done to sessions");
}

/// Canary: without its settings, a session on another's connection is found out.
#[test]
fn settings_that_are_not_restored_are_found_out() {
    let mut world = World::pooled(None);
    world.interposer.set_canary(Some(Canary::KeepsSettings));
    for seed in SEED..SEED + SEEDS_OF_CANARIES {
        if let Err(difference) = play(&mut world, &for_pool(generate::script(seed))) {
            println!("found out by seed {seed}: {difference}");
            assert!(["answers", "rival"].contains(&difference.kind), "for another reason: {difference}");
            return;
        }
    }
    panic!("not found out within {SEEDS_OF_CANARIES} seeds");
}
