//! The fake against the kernel's documentation (Documentation/filesystems/resctrl.rst) and the texts of its source.

use super::*;

fn kernel(shape: Shape) -> FakeKernel {
    FakeKernel::new(shape, [1234, 5678, 5679])
}

fn errno(outcome: io::Result<()>) -> Option<Errno> {
    outcome.err().and_then(|error| Errno::from_io_error(&error))
}

/// A line of a file without its padding.
fn line(kernel: &FakeKernel, path: &str, resource: &str) -> String {
    let text = kernel.read(path).unwrap();
    let line = text.lines().map(str::trim).find(|line| line.starts_with(&format!("{resource}:")));
    line.unwrap_or_else(|| panic!("no {resource} in {text}")).to_owned()
}

#[test]
fn example_1_two_groups_on_two_sockets() {
    let kernel = kernel(Shape::four_bits());
    kernel.make_group("p0").unwrap();
    kernel.make_group("p1").unwrap();
    kernel.write("p0/schemata", "L3:0=3;1=c\nMB:0=50;1=50\n").unwrap();
    kernel.write("p1/schemata", "L3:0=3;1=3\nMB:0=50;1=50\n").unwrap();
    assert_eq!(line(&kernel, "schemata", "L3"), "L3:0=f;1=f", "the default group is unmodified");
    assert_eq!(line(&kernel, "p0/schemata", "L3"), "L3:0=3;1=c");
    assert_eq!(line(&kernel, "p0/schemata", "MB"), "MB:0=  50;1=  50");
    assert_eq!(kernel.read("info/last_cmd_status").unwrap(), "ok\n");
}

#[test]
fn example_2_tasks_with_a_quarter_of_20_bits() {
    let mut shape = Shape::four_bits();
    shape.l3.as_mut().unwrap().full = 0xfffff;
    let kernel = kernel(shape);
    kernel.write("schemata", "L3:0=3ff;1=fffff\nMB:0=50;1=100\n").unwrap();
    kernel.make_group("p0").unwrap();
    kernel.write("p0/schemata", "L3:0=f8000;1=fffff\n").unwrap();
    kernel.write("p0/tasks", "1234\n").unwrap();
    kernel.make_group("p1").unwrap();
    kernel.write("p1/schemata", "L3:0=7c00;1=fffff\n").unwrap();
    kernel.write("p1/tasks", "5678\n").unwrap();
    assert_eq!(kernel.read("p0/tasks").unwrap(), "1234\n");
    assert_eq!(kernel.read("tasks").unwrap(), "5679\n");
    kernel.remove_group("p0").unwrap();
    assert_eq!(kernel.read("tasks").unwrap(), "1234\n5679\n", "tasks go back");
}

#[test]
fn example_4_two_groups_on_a_level_2_cache() {
    let cache = CacheShape { full: 0xff, bits_min: 1, sparse: false, shareable: 0, closids: 4, size: 1 << 20 };
    let kernel = kernel(Shape { l3: None, l2: Some(cache), bandwidth: None, ..Shape::intel() });
    assert_eq!(line(&kernel, "schemata", "L2"), "L2:0=ff;1=ff");
    kernel.make_group("p0").unwrap();
    kernel.write("p0/schemata", "L2:0=0x3;1=0x3\n").unwrap();
    assert_eq!(line(&kernel, "p0/size", "L2"), "L2:0=262144;1=262144");
    kernel.make_group("p1").unwrap();
    kernel.write("p1/schemata", "L2:0=0xfc;1=0xfc\n").unwrap();
    assert_eq!(line(&kernel, "p1/schemata", "L2"), "L2:0=fc;1=fc");
    assert_eq!(line(&kernel, "p1/size", "L2"), "L2:0=786432;1=786432");
}

#[test]
fn code_and_data_of_four_domains_written_in_part() {
    let mut shape = Shape::four_bits();
    shape.l3.as_mut().unwrap().full = 0xfffff;
    let kernel = kernel(Shape { domains: vec![0, 1, 2, 3], code_and_data: true, ..shape });
    kernel.write("schemata", "L3DATA:2=3c0;\n").unwrap();
    assert_eq!(line(&kernel, "schemata", "L3DATA"), "L3DATA:0=fffff;1=fffff;2=3c0;3=fffff");
    assert_eq!(line(&kernel, "schemata", "L3CODE"), "L3CODE:0=fffff;1=fffff;2=fffff;3=fffff");
    assert_eq!(kernel.read("info/L3CODE/num_closids").unwrap(), "8\n", "each group needs two ids");
}

#[test]
fn eighths_of_a_gigabyte_on_amd() {
    let kernel = kernel(Shape::amd());
    kernel.write("schemata", "MB:1=16\n").unwrap();
    assert_eq!(line(&kernel, "schemata", "MB"), "MB:0=2048;1=  16");
}

#[test]
fn monitoring_without_allocation() {
    let kernel = kernel(Shape { l3: None, bandwidth: None, ..Shape::intel() });
    assert_eq!(errno(kernel.make_group("p0")), Some(Errno::PERM));
    assert_eq!(kernel.folders("info").unwrap(), ["L3_MON"]);
}

#[test]
fn ids_run_out() {
    let mut shape = Shape::four_bits();
    shape.bandwidth = Some([10, 10, 100, 3]);
    shape.monitoring.as_mut().unwrap().rmids = 2;
    let few_counted = kernel(shape.clone());
    few_counted.make_group("a").unwrap();
    assert_eq!(errno(few_counted.make_group("b")), Some(Errno::NOSPC));
    assert_eq!(few_counted.read("info/last_cmd_status").unwrap(), "Out of RMIDs\n");
    few_counted.remove_group("a").unwrap();
    few_counted.make_group("b").unwrap();
    shape.monitoring.as_mut().unwrap().rmids = 4;
    let kernel = kernel(shape);
    kernel.make_group("a").unwrap();
    kernel.make_group("b").unwrap();
    assert_eq!(errno(kernel.make_group("c")), Some(Errno::NOSPC));
    assert_eq!(kernel.read("info/last_cmd_status").unwrap(), "Out of CLOSIDs\n");
    assert_eq!(errno(kernel.make_group("a")), Some(Errno::EXIST));
    assert_eq!(errno(kernel.make_group("info")), Some(Errno::EXIST));
    assert_eq!(errno(kernel.remove_group("")), Some(Errno::PERM));
}

/// A refused change leaves the state unchanged, and gives the reason.
#[test]
fn refusals_and_their_texts() {
    let mut haswell = Shape::intel();
    haswell.l3.as_mut().unwrap().bits_min = 2;
    let kernel = kernel(haswell);
    kernel.make_group("p").unwrap();
    let before = kernel.snapshot();
    let check = |file: &str, text: &str, expect: Errno, told: &str| {
        assert_eq!(errno(kernel.write(file, text)), Some(expect), "{text}");
        assert_eq!(kernel.read("info/last_cmd_status").unwrap(), format!("{told}\n"), "{text}");
        assert_eq!(kernel.snapshot(), before, "{text}");
    };
    let schemata = |text: &str, told: &str| check("p/schemata", &format!("{text}\n"), Errno::INVAL, told);
    schemata("L3:0=f7", "The mask f7 has non-consecutive 1-bits");
    schemata("L3:0=0", "Mask out of range");
    schemata("L3:0=fff", "Mask out of range");
    schemata("L3:0=1", "Need at least 2 bits in the mask");
    schemata("L3:0=xy", "Non-hex character in the mask xy");
    schemata("L3:0=3;0=7", "Duplicate domain 0");
    schemata("L3:7=3", "ok");
    schemata("L3:0", "Missing '=' or non-numeric domain");
    schemata("L3:a=3", "Missing '=' or non-numeric domain");
    schemata("L3:", "Missing 'L3' value");
    schemata("L3", "Missing ':'");
    schemata("L4:0=3", "Unknown or unsupported resource name 'L4'");
    schemata("MB:0=5", "MB value 5 out of range [10,100]");
    schemata("MB:0=101", "MB value 101 out of range [10,100]");
    schemata("MB:0=ten", "Invalid MB value ten");
    schemata("L3:0=3\nMB:0=5", "MB value 5 out of range [10,100]");
    check("p/tasks", "4711\n", Errno::SRCH, "No task 4711\nError while processing task 4711");
    check("p/tasks", "-1\n", Errno::INVAL, "Invalid pid -1");
    check("p/tasks", "x\n", Errno::INVAL, "Task list parsing error pid x");
    kernel.write("p/tasks", "1234\n").unwrap();
    assert_eq!(kernel.read("info/last_cmd_status").unwrap(), "ok\n");
    assert_eq!(errno(kernel.write("p/schemata", "L3:0=3")), Some(Errno::INVAL), "without a newline");
    assert_eq!(errno(kernel.write("q/schemata", "L3:0=3\n")), Some(Errno::NOENT));
}

#[test]
fn bandwidth_is_rounded_up_or_kept_as_megabytes() {
    let percent = kernel(Shape::intel());
    percent.write("schemata", "MB:0=11\n").unwrap();
    assert_eq!(line(&percent, "schemata", "MB"), "MB:0=  20;1= 100");
    let megabytes = kernel(Shape { megabytes: true, ..Shape::intel() });
    assert_eq!(line(&megabytes, "schemata", "MB"), "MB:0=4294967295;1=4294967295");
    megabytes.write("schemata", "MB:0=1024;1=500\n").unwrap();
    assert_eq!(line(&megabytes, "schemata", "MB"), "MB:0=1024;1= 500");
    assert_eq!(megabytes.read("mba_MBps_event").unwrap(), "mbm_local_bytes\n");
}

#[test]
fn masks_with_holes_and_of_nothing_on_amd() {
    let kernel = kernel(Shape::amd());
    kernel.write("schemata", "L3:0=a5;1=0\n").unwrap();
    assert_eq!(line(&kernel, "schemata", "L3"), "L3:0=a5;1=0");
}
