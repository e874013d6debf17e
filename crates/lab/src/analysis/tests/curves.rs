//! Knees and scalability along sweeps of a target whose response is known.

use super::*;

const DOP: &str = r#"
name = "dop"
[[workload]]
name = "oltp"
kind = "tpcc"
[sweep]
policy = ["slow", "fast"]
dop = "1..12"
[run]
repeats = 3
"#;

/// Throughput rises up to a DOP that depends on the policy: a share of 0.9 is reached at 0.9 of that DOP.
fn knee_at(policy: &str) -> f64 {
    if policy == "slow" { 4.0 } else { 8.0 }
}

fn swept(seed: u64, response: impl Fn(&str, f64) -> f64) -> Results {
    let plan = plan(DOP);
    let mut noise = Noise::new(seed, 0.01);
    let records = measure(&plan, |_, setting, _| {
        let dop = setting.swept["dop"].as_f64().expect("a number");
        response(setting.swept["policy"].as_str().expect("text"), dop) * noise.factor()
    });
    results(&plan, &records)
}

#[test]
fn knees_come_out_within_one_step() {
    let (mut near, mut covered) = (0, 0);
    for seed in 0..100 {
        let results = swept(seed, |policy, dop| 1_000.0 * (dop / knee_at(policy)).min(1.0));
        assert_eq!(results.knees.len(), 2, "one for each policy");
        for knee in &results.knees {
            assert_eq!((knee.axis.as_str(), knee.setting.len(), knee.fit.len()), ("dop", 1, 12));
            assert!(knee.fit.is_sorted_by(|a, b| a.0.as_f64() < b.0.as_f64() && a.1 <= b.1));
            let truth = knee_at(knee.setting["policy"].as_str().expect("text"));
            assert_eq!(knee.levels.iter().map(|level| level.share).collect::<Vec<_>>(), [0.9, 0.95]);
            for level in &knee.levels {
                let number = |at: &Option<serde_json::Value>| at.as_ref().and_then(|at| at.as_f64());
                let found = number(&level.allocation).unwrap_or_else(|| panic!("{level:?}"));
                near += usize::from((found - truth).abs() <= 1.0);
                let (low, high) = (number(&level.low).expect("repeated"), number(&level.high).expect("repeated"));
                covered += usize::from((low..=high).contains(&truth));
            }
        }
    }
    assert!(near >= 380, "{near} of 400 within one step");
    assert!(covered >= 380, "{covered} of 400 intervals cover the knee");
}

/// README's own example: the full amount is a word, and so are amounts with units. A category is no place on the curve.
#[test]
fn words_take_part_in_knees() {
    let knee = |values: &str, knee: f64| {
        let text = format!(
            "name = \"words\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\ndop = {values}\n[run]\nrepeats = 3\n"
        );
        let plan = plan(&text);
        let amounts = crate::amounts::Amounts::of(&plan.axes[0].values);
        let mut noise = Noise::new(3, 0.005);
        let records = measure(&plan, |_, setting, _| {
            let amount = amounts.amount(&setting.swept["dop"]);
            1_000.0 * amount.map_or(0.4, |amount| (amount / knee).min(1.0)) * noise.factor()
        });
        let results = results(&plan, &records);
        let [knee] = &results.knees[..] else { panic!("{values}: {:?}", results.knees) };
        let fit = knee.fit.iter().map(|(value, _)| value.clone()).collect::<Vec<_>>();
        let text = crate::table::render(&results, &[]);
        (knee.levels[0].allocation.clone(), fit, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (found, fit, text) = knee("[1, 2, 4, 8, \"unlimited\"]", 5.0);
    assert_eq!((found, fit.last()), (Some(8.into()), Some(&"unlimited".into())));
    assert!(text.contains("90 % dop=8"), "{text}");
    let (found, fit, text) = knee("[\"4MB\", \"1GB\", \"64MB\", \"auto\"]", f64::from(200 << 20));
    assert_eq!((found, fit.len()), (Some("1GB".into()), 3), "a category has no place");
    assert!(text.contains("90 % dop=1GB"), "{text}");
    let (found, ..) = knee("[1, 2, \"unlimited\"]", 1e9);
    assert_eq!(found, Some("unlimited".into()));
}

#[test]
fn where_there_is_no_knee_it_is_said_why() {
    let results = swept(1, |policy, dop| match policy {
        "slow" => 1_000.0 / dop,
        _ => 0.0,
    });
    for knee in &results.knees {
        for level in &knee.levels {
            let why = level.why_not.as_deref().unwrap_or_else(|| panic!("{level:?}"));
            let expect = if knee.setting["policy"] == "slow" { "performance falls by 9" } else { "nothing completed" };
            assert!(level.allocation.is_none() && why.contains(expect), "{why}");
        }
    }
}

/// The law of 800 requests per second of one client, 5 % contention and a little coherency has its peak at
/// sqrt(0.95 / 0.001) = 30.8 clients.
#[test]
fn the_law_of_scalability_comes_out() {
    let text = "name = \"usl\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\n\
                clients = [1, 2, 4, 8, 16, 32, 64]\n[run]\nrepeats = 3\n";
    let plan = plan(text);
    let law = |n: f64| 800.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0));
    let mut covered = [0; 4];
    for seed in 0..100 {
        let mut noise = Noise::new(seed, 0.02);
        let records = measure(&plan, |_, setting, _| law(setting.workloads[0].clients.clients as f64) * noise.factor());
        let results = results(&plan, &records);
        assert!(results.knees.is_empty(), "clients are no allocation");
        let [shown] = &results.scalability[..] else { panic!("{:?}", results.scalability) };
        assert_eq!((shown.axis.as_str(), shown.fit.len(), &shown.why_not), ("clients", 7, &None));
        let figures =
            [(shown.gamma, 800.0), (shown.sigma, 0.05), (shown.kappa, 0.001), (shown.peak_clients, 950_f64.sqrt())];
        for (covered, (figure, truth)) in covered.iter_mut().zip(figures) {
            let figure = figure.expect("determined");
            *covered += usize::from(figure.low.expect("repeated") <= truth && truth <= figure.high.expect("repeated"));
        }
    }
    assert!(
        covered.iter().all(|covered| *covered >= 88),
        "{covered:?} of 100 intervals cover gamma, sigma, kappa, peak"
    );
}

#[test]
fn a_workload_scales_along_its_own_clients_alone() {
    let text = "name = \"usl\"\n[[workload]]\nname = \"a\"\nkind = \"tpcc\"\n[[workload]]\nname = \"b\"\nkind = \"rows\"\n\
                [sweep]\n\"a.clients\" = [1, 2, 4, 8]\n[run]\nrepeats = 2\n";
    let plan = plan(text);
    let mut noise = Noise::new(1, 0.01);
    let records =
        measure(&plan, |_, setting, _| 100.0 * (setting.workloads[0].clients.clients as f64).sqrt() * noise.factor());
    let results = results(&plan, &records);
    let shown = results.scalability.iter().map(|law| (law.arm.as_str(), law.workload.as_str())).collect::<Vec<_>>();
    assert_eq!(shown, [("alone:a", "a"), ("together", "a")]);
}
