//! Budgets for waits that are made up, and what they cost against budgets that know them.

use super::*;

/// Numbers from 0 to 1, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With an exponential distribution.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

fn ready(rule: SpinRule) -> Spin {
    let mut spin = Spin::new(rule);
    spin.on_look(Some(1.0));
    spin
}

/// Lets a relay wait for that long, as it would see it; what that has cost.
fn wait(spin: &mut Spin, awaited: Awaited, waited: f64) -> f64 {
    let budget = spin.budget(awaited).as_secs_f64() * 1e6;
    let has_slept = waited > budget;
    let seen = if has_slept { waited + WAKE_US } else { waited };
    spin.on_message(awaited, Duration::from_secs_f64(seen / 1e6), has_slept);
    cost(budget, waited)
}

/// The mean cost of waits, that of the best budget for them, and that of sleeping always.
fn costs(mut next: impl FnMut() -> f64) -> (f64, f64, f64) {
    const WAITS: usize = 20_000;
    let mut spin = ready(SpinRule::Learned);
    let waits: Vec<f64> = (0..WAITS).map(|_| next()).collect();
    let mean =
        |cost_of: &mut dyn FnMut(f64) -> f64| waits.iter().map(|waited| cost_of(*waited)).sum::<f64>() / WAITS as f64;
    let own = mean(&mut |waited| wait(&mut spin, Awaited::Server, waited));
    let fixed = BUDGETS_US.map(|budget| mean(&mut |waited| cost(budget, waited)));
    (own, fixed.into_iter().fold(f64::INFINITY, f64::min), fixed[0])
}

#[test]
fn rules_are_read_and_written_alike() {
    let check = |text: &str, expect: Option<SpinRule>| {
        assert_eq!(SpinRule::parse(text), expect, "{text}");
        if let Some(rule) = expect {
            assert_eq!(rule.to_string(), text);
        }
    };
    check("off", Some(SpinRule::Off));
    check("auto", Some(SpinRule::Learned));
    check("50us", Some(SpinRule::Fixed(Duration::from_micros(50))));
    check("1ms", Some(SpinRule::Fixed(Duration::from_millis(1))));
    for text in ["", "on", "0us", "2ms", "50", "-1us"] {
        check(text, None);
    }
}

#[test]
fn quick_answers_are_polled_for_and_slow_ones_are_not() {
    let check = |waited: f64, least: f64, most: f64| {
        let mut spin = ready(SpinRule::Learned);
        for _ in 0..100 {
            wait(&mut spin, Awaited::Server, waited);
        }
        let budget = spin.budget(Awaited::Server).as_secs_f64() * 1e6;
        assert!((least..=most).contains(&budget), "{waited} us: {budget} us");
    };
    check(5.0, 10.0, 10.0);
    check(40.0, 45.0, 45.0);
    check(95.0, 100.0, 100.0);
    check(105.0, 0.0, 0.0);
    check(5_000.0, 0.0, 0.0);
}

#[test]
fn what_clients_think_says_nothing_of_the_server() {
    let mut spin = ready(SpinRule::Learned);
    for _ in 0..100 {
        wait(&mut spin, Awaited::Server, 30.0);
        wait(&mut spin, Awaited::Client, 3_000.0);
    }
    assert_eq!(spin.budget(Awaited::Server), Duration::from_micros(30));
    assert_eq!(spin.budget(Awaited::Client), Duration::ZERO);
}

#[test]
fn without_an_idle_core_everybody_sleeps() {
    let fixed = SpinRule::Fixed(Duration::from_micros(50));
    for rule in [fixed, SpinRule::Learned] {
        let mut spin = Spin::new(rule);
        for _ in 0..100 {
            spin.on_message(Awaited::Server, Duration::from_micros(10), false);
        }
        let mut check = |change: &dyn Fn(&mut Spin), polls: bool| {
            change(&mut spin);
            assert_eq!(spin.budget(Awaited::Server) > Duration::ZERO, polls, "{rule}");
        };
        check(&|_| {}, false);
        check(&|spin| spin.on_look(Some(1.2)), true);
        check(&|spin| spin.on_look(Some(0.5)), false);
        check(&|spin| spin.on_look(Some(0.9)), true);
        check(&|spin| spin.on_look(None), false);
        check(&|spin| spin.on_look(Some(0.9)), true);
        check(&|spin| spin.on_crowd(), false);
        check(&|spin| spin.on_look(Some(0.9)), true);
    }
    let mut off = ready(SpinRule::Off);
    off.on_message(Awaited::Server, Duration::ZERO, false);
    assert_eq!((off.budget(Awaited::Server), off.is_on()), (Duration::ZERO, false));
}

/// Of whatever kind waits are, what is learned costs little more than the budget that somebody would choose who knew them all.
#[test]
fn learned_budgets_cost_little_more_than_the_best() {
    let mut chance = Chance(7);
    let mut check = |name: &str, next: &mut dyn FnMut(&mut Chance) -> f64| {
        let (own, best, asleep) = costs(|| next(&mut chance));
        assert!(own <= 1.10 * best + 0.5, "{name}: {own:.1}, the best budget {best:.1}");
        assert!(own <= 1.05 * asleep + 0.5, "{name}: {own:.1}, asleep {asleep:.1}");
    };
    for mean in [5.0, 20.0, 50.0, 100.0, 200.0, 1_000.0, 10_000.0] {
        check(&format!("exponential, {mean} us"), &mut |chance| chance.exponential(mean));
        check(&format!("even, up to {mean} us"), &mut |chance| chance.next() * mean);
    }
    for share in [0.05, 0.3, 0.5, 0.7, 0.95] {
        let mut two = |chance: &mut Chance| {
            if chance.next() < share { 20.0 + chance.next() } else { 2_000.0 }
        };
        check(&format!("two kinds, {share} of them quick"), &mut two);
    }
}

#[test]
fn a_change_of_the_load_is_learned_within_a_hundred_waits() {
    let mut spin = ready(SpinRule::Learned);
    for (waited, budget) in [(25.0, 30), (900.0, 0), (25.0, 30)] {
        for _ in 0..100 {
            wait(&mut spin, Awaited::Server, waited);
        }
        assert_eq!(spin.budget(Awaited::Server), Duration::from_micros(budget), "{waited}");
    }
}
