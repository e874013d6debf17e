//! The text on a terminal.

mod readme;

use plimsoll_display::WIDTH;

use super::*;
use crate::report::fixture::derive;
use crate::report::fixture::policies::policies;
use crate::report::fixture::server::on_server;
use crate::report::fixture::{poor_study, study};

#[test]
fn study_reads_like_this() {
    let files = vec!["runs/study-20260314T092653Z/report.html".to_string()];
    insta::assert_snapshot!(render(&study(), &files), @r#"
    study: shop (tpcc, 100 clients) and reports (tpch, 2 clients)
    AMD EPYC 7742 64-Core Processor, 16 cores usable; 6 points of 20.0 s; took 4 min
      6 s; ± and ranges are 95 % intervals

    Attempts run again
      shop: 48 deadlock victims beside 179 487 completed requests
      reports: 48 deadlock victims beside 154 completed requests

    shop
      throughput  alone       3.17 k/s  ± 3.4 %  (62 400 completed)
                  together    1.31 k/s  ± 3.4 %  (25 800 completed)
      together / alone            0.41  (0.40 to 0.43, noise floor 3.4 %)
      latency                     mean       p50       p95       p99
        all       alone      3.31 ms   2.45 ms   5.70 ms   10.3 ms
                  together   10.3 ms   5.90 ms   21.5 ms   53.1 ms
        high      alone      3.14 ms   2.33 ms   5.42 ms   9.77 ms
                  together   9.81 ms   5.61 ms   20.4 ms   50.4 ms
        low       alone      3.31 ms   2.45 ms   5.70 ms   10.3 ms
                  together   10.3 ms   5.90 ms   21.5 ms   53.1 ms
      time share              Run   Wait   Disk   Lock  other
                  alone      61 %    6 %   11 %   14 %    8 %  RRRRRRRRRRRRWDDDLL..
                  together   27 %   49 %    6 %   13 %    5 %  RRRRRWWWWWWWWWWDLLL.
      counters                IPC   L1D/1k   LLC/1k branch/1k  counted
                  alone      1.12     21.0     2.10      5.20     83 %
                  together   0.81     21.0     5.30      5.20     83 %

    reports
      throughput  alone        2.01 /s  ± 3.6 %  (41 completed)
                  together     1.83 /s  ± 3.6 %  (37 completed)
      together / alone            0.91  (0.87 to 0.94, noise floor 3.4 %)
      latency                     mean       p50       p95       p99
        all       alone       1.79 s    1.42 s         –         –
                  together    2.03 s    1.59 s         –         –
        –: fewer than ten requests lie beyond that percentile
      time share              Run   Wait   Disk   Lock  other
                  alone      72 %    3 %    0 %    0 %   25 %  RRRRRRRRRRRRRRW.....
                  together   66 %   12 %    0 %    0 %   22 %  RRRRRRRRRRRRRWWW....
      counters                IPC   L1D/1k   LLC/1k branch/1k  counted
                  alone      1.64     21.0     6.40      5.20     83 %
                  together   1.55     21.0     7.00      5.20     83 %

    What it means
      - Beside reports, shop runs at 0.41 of its speed alone: 1.31 k/s instead of
        3.17 k/s, p99 latency 53.1 ms instead of 10.3 ms (95 % interval 0.40 to
        0.43, noise floor 3.4 %).
      - Of the 7.02 ms that a request of shop takes longer, 4.86 ms is spent waiting
        for a core (49 % of response time, 6 % alone): cores are what they compete
        for; give the important one its own cores or limit the degree of parallelism
        of the other.
      - Beside shop, reports runs at 0.91 of its speed alone: 1.83 /s instead of
        2.01 /s, p50 latency 1.59 s instead of 1.42 s (95 % interval 0.87 to 0.94,
        noise floor 3.4 %).
      - Side by side they do 1.32 times the work of taking turns (95 % interval 1.27
        to 1.37).

    Warnings
      - the clock rate of the cores changed between blocks (2.25 GHz to 2.60 GHz)

    Written
      runs/study-20260314T092653Z/report.html
    "#);
}

/// A container with a quarter of a core: figures of a throttled process must not look like those of a slow database.
#[test]
fn a_cpu_quota_is_named_in_the_header() {
    let mut results = study();
    (results.machine.cores_usable, results.machine.cpu_quota) = (1, Some(0.25));
    let text = render(&results, &[]);
    assert!(text.contains("1 core usable, CPU quota 0.25 cores;"), "{text}");
}

#[test]
fn a_poor_study_shows_its_holes() {
    insta::assert_snapshot!(render(&poor_study(), &[]), @r#"
    study: shop (tpcc, 100 clients) and re</script><b>ports</b> & "co" 'x' (tpch, 2
      clients)
    AMD EPYC 7742 64-Core Processor, 16 cores usable; 3 points of 20.0 s, 1 invalid
      and left out; took 4 min 6 s

    Invalid runs
      alone:re</script><b>ports</b> & "co" 'x', repeat 1: cores: wanted 2, got 1.1
        <b>

    Attempts run again
      shop: 24 deadlock victims beside 88 200 completed requests
      re</script><b>ports</b> & "co" 'x': 24 deadlock victims beside 41 completed
        requests

    shop
      throughput  alone       3.12 k/s  (62 400 completed)
                  together    1.29 k/s  (25 800 completed)
      together / alone            0.41  (one repeat, noise floor unknown)
      latency                     mean       p50       p95       p99
        all       alone      3.31 ms   2.45 ms   5.70 ms   10.3 ms
                  together   10.3 ms   5.90 ms   21.5 ms   53.1 ms
        high      alone      3.14 ms   2.33 ms   5.42 ms   9.77 ms
                  together   9.81 ms   5.61 ms   20.4 ms   50.4 ms
        low       alone      3.31 ms   2.45 ms   5.70 ms   10.3 ms
                  together   10.3 ms   5.90 ms   21.5 ms   53.1 ms
      time share              Run   Wait   Disk   Lock  other
                  alone         –      –      –   20 %   80 %  LLLL................
      counters    none: not permitted (perf_event_paranoid is 3); ask for 2 or less

    re</script><b>ports</b> & "co" 'x'
      throughput  alone              –  no valid run, 1 invalid
                  together        0 /s  (0 completed)
      counters    none: not permitted (perf_event_paranoid is 3); ask for 2 or less

    Claims
      not judged  </script><i>claim</i>
                  <b>why</b>

    What it means
      - Beside re</script><b>ports</b> & "co" 'x', shop runs at 0.41 of its speed
        alone: 1.29 k/s instead of 3.12 k/s, p99 latency 53.1 ms instead of 10.3 ms
        (1 repeat: noise unknown).
      - re</script><b>ports</b> & "co" 'x': no result, because 0 of its runs alone
        are valid (1 left out).

    Warnings
      - hardware counters: not permitted (perf_event_paranoid is 3); ask for 2 or
        less
      - cpu_wait: <b>schedstat</b> is off
    "#);
}

#[test]
fn nothing_at_all_is_still_readable() {
    let mut results = study();
    results.points.clear();
    results.advice = vec!["There are no results: 0 points were measured.".to_string()];
    insta::assert_snapshot!(render(&results, &[]), @r#"
    study: shop and reports
    AMD EPYC 7742 64-Core Processor, 16 cores usable; 0 points; took 4 min 6 s

    What it means
      - There are no results: 0 points were measured.

    Warnings
      - the clock rate of the cores changed between blocks (2.25 GHz to 2.60 GHz)
    "#);
}

#[test]
fn the_parts_of_a_server_read_like_this() {
    let mut results = on_server();
    // As a study without a sweep, which is described workload by workload.
    results.points.truncate(3);
    results.points.iter_mut().for_each(|point| point.setting.clear());
    results.experiment.sweep.clear();
    results.estimates = derive::estimates(&results.points);
    let text = render(&results, &[]);
    let from = text.find("  time share").expect("it is told");
    let to = text.find("  counters").expect("they are told");
    insta::assert_snapshot!(&text[from..to], @r"
      time share              Run   Wait   Disk Behind   Lock Client  other
                  alone      40 %   12 %    5 %    6 %   10 %   20 %    7 %
        high                 40 %   12 %    5 %    8 %    2 %   20 %   13 %
        low                  42 %   12 %    5 %    8 %    0 %   20 %   13 %
        delivery             30 %   12 %    5 %    8 %   12 %   20 %   13 %
        new_order            32 %   12 %    5 %    8 %   10 %   20 %   13 %
        order_status         34 %   12 %    5 %    8 %    8 %   20 %   13 %
        payment              36 %   12 %    5 %    8 %    6 %   20 %   13 %
                  together   40 %   12 %    5 %    6 %   10 %   20 %    7 %
        high                 40 %   12 %    5 %    8 %    2 %   20 %   13 %
        low                  42 %   12 %    5 %    8 %    0 %   20 %   13 %
        delivery             30 %   12 %    5 %    8 %   12 %   20 %   13 %
        new_order            32 %   12 %    5 %    8 %   10 %   20 %   13 %
        order_status         34 %   12 %    5 %    8 %    8 %   20 %   13 %
        payment              36 %   12 %    5 %    8 %    6 %   20 %   13 %
    ");
    let from = text.find("Looked at").expect("what it cost");
    insta::assert_snapshot!(text[from..].lines().take(3).collect::<Vec<_>>().join("\n"), @r"
    Looked at the server 7 470 times, 125 a second (30 left out), 310 µs each, 4 %
      of the time; that took 1.1 % of a core here and 2.2 % of one on the server
    ");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}

#[test]
fn lines_fit() {
    let mut results = study();
    results.warnings = (0..9).map(|i| format!("{i}: a warning that is long {}", "and longer ".repeat(12))).collect();
    let plain = render(&results, &[]);
    for line in plain.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end(), "nothing trails");
    }
    assert!(plain.contains("and 4 more, with --json"));
    assert!(render(&results, &["report.html".to_owned()]).contains("and 4 more, in the report"));
}

#[test]
fn policies_and_lock_waits_read_like_this() {
    let text = render(&policies(), &[]);
    let from = text.find("Lock waiting").expect("two classes waited");
    let to = text[from..].find("\nWritten").unwrap_or(text.len() - from);
    insta::assert_snapshot!(&text[from..from + to], @r#"
    Lock waiting by class
      shop, alone:shop
                      waits  queue time     excess  remainder   of time   preempted
      lock_policy=standard, think=exp 20ms
        high           0.63     3.00 ms     900 µs    2.10 ms      59 %         0 %
        low            0.63     3.00 ms     900 µs    2.10 ms      56 %         0 %
      lock_policy=standard, think=exp 5ms
        high           0.63     3.00 ms     900 µs    2.10 ms      34 %         0 %
        low            0.63     3.00 ms     900 µs    2.10 ms      32 %         0 %
      lock_policy=nprio, think=exp 20ms
        high           0.63      862 µs     850 µs    12.0 µs      43 %         0 %
        low            0.63     3.45 ms     950 µs    2.50 ms      59 %         0 %
      lock_policy=nprio, think=exp 5ms
        high           0.63      862 µs     850 µs    12.0 µs      24 %         0 %
        low            0.63     3.45 ms     950 µs    2.50 ms      32 %         0 %
      lock_policy=pabort, think=exp 20ms
        high           0.63      325 µs     320 µs    5.00 µs      32 %         0 %
        low            0.63     5.20 ms    1.30 ms    3.90 ms      42 %        21 %
      lock_policy=pabort, think=exp 5ms
        high           0.63      325 µs     320 µs    5.00 µs      18 %         0 %
        low            0.63     5.20 ms    1.30 ms    3.90 ms      24 %        21 %
      lock_policy=cr(300ms), think=exp 20ms
        high           0.63      708 µs     700 µs    8.00 µs      41 %         0 %
        low            0.63     3.58 ms     980 µs    2.60 ms      57 %       0.6 %
      lock_policy=cr(300ms), think=exp 5ms
        high           0.63      708 µs     700 µs    8.00 µs      22 %         0 %
        low            0.63     3.58 ms     980 µs    2.60 ms      32 %       0.6 %

    Who gains, who pays: mean response times of shop in alone:shop against
      lock_policy=standard, over 2 settings
                                                  times     95 % interval  preempted
      nprio
        high                gains                  2.53      2.44 to 2.62        0 %
        low                 pays                   1.11      1.07 to 1.15        0 %
      pabort
        high                gains                  5.03      5.03 to 5.03        0 %
        low                 pays                   2.29      2.29 to 2.29       21 %
      cr(300ms)
        high                gains                  2.91      2.80 to 3.01        0 %
        low                 pays                   1.18      1.14 to 1.22      0.6 %
    "#);
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}

#[test]
fn lock_waits_are_told_without_a_sweep_too() {
    let mut results = policies();
    results.points.retain(|point| point.setting["lock_policy"] == "pabort" && point.setting["think"] == "exp 5ms");
    results.points.iter_mut().for_each(|point| point.setting.clear());
    results.estimates.truncate(1);
    results.estimates[0].setting.clear();
    (results.experiment.sweep, results.policies) = (Vec::new(), Vec::new());
    let text = render(&results, &[]);
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Lock waiting")).skip(3).take(2).collect();
    assert!(rows[0].starts_with("    high ") && rows[1].starts_with("    low "), "{text}");
}

#[test]
fn words_longer_than_a_line_stay_whole() {
    let path = "x".repeat(100);
    assert_eq!(wrap(&format!("a {path} b"), "- ", "  "), ["- a".to_string(), format!("  {path}"), "  b".to_string()]);
}
