//! Runs a hog and prints its report. `hog llc:8 CORE,CORE 5` runs for five seconds on two cores; without cores, on any.

use std::time::Duration;

use plimsoll_machine::hog::{HogPlace, HogSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(spec) = arguments.first() else {
        print!("{}", HogSpec::help());
        return Ok(());
    };
    let cores = arguments.get(1).map_or("", String::as_str).split(',').filter(|core| !core.is_empty());
    let cores = cores.map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let seconds = arguments.get(2).map_or(Ok(3), |seconds| seconds.parse())?;
    let place = HogPlace { cores, folder: std::env::current_dir()? };
    let mut hog = spec.parse::<HogSpec>()?.start(&place)?;
    hog.report();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        let report = hog.report();
        println!("{report} {:?} {:?}", report.figures, report.notes);
    }
    Ok(())
}
