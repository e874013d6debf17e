//! Fake threads, and a real one.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use plimsoll_testing::{Need, skip};

use super::*;
use crate::host::fake::FakeHost;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A thread that began at tick `began`, has waited `waited` ticks and moved `bytes` bytes.
fn write(fake: &FakeHost, id: i32, began: u64, waited: u64, bytes: u64) {
    let zeros = "0 ".repeat(19);
    let stat = format!("{id} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {began} {zeros}{waited} 0\n");
    fake.write(&format!("/proc/{id}/task/{id}/stat"), &stat);
    fake.write(&format!("/proc/{id}/task/{id}/io"), &format!("rchar: 9\nread_bytes: {bytes}\nwrite_bytes: 0\n"));
}

#[test]
fn a_wait_is_believed_with_a_reason_only() {
    let check = |sysctl: &str, boot: &str, ticks: [u64; 2], bytes: [u64; 2], expect: Option<Duration>| {
        let fake = FakeHost::new(&[("/proc/sys/kernel/task_delayacct", sysctl), ("/proc/cmdline", boot)]);
        write(&fake, 10, 5, ticks[0], bytes[0]);
        let earlier = DelaySample::read(&fake.host(), &[10]);
        write(&fake, 10, 5, ticks[1], bytes[1]);
        let waited = DelaySample::read(&fake.host(), &[10]).since(&earlier);
        assert_eq!(waited.clone().ok(), expect, "{sysctl} {boot} {ticks:?} {bytes:?} {waited:?}");
    };
    check("0\n", "", [0, 0], [0, 0], None);
    check("1\n", "quiet", [3, 8], [0, 4096], Some(ms(50)));
    check("1\n", "quiet", [0, 0], [0, 0], Some(ms(0)));
    check("1\n", "quiet", [0, 0], [0, 4096], None);
    check("1\n", "quiet delayacct", [0, 0], [0, 4096], Some(ms(0)));
    check("0\n", "quiet delayacct", [3, 8], [0, 4096], None);
}

#[test]
fn a_part_does_not_pass_for_the_whole() {
    let fake = FakeHost::new(&[("/proc/sys/kernel/task_delayacct", "1\n")]);
    write(&fake, 10, 5, 1, 0);
    write(&fake, 11, 6, 2, 0);
    let earlier = DelaySample::read(&fake.host(), &[10, 11]);
    write(&fake, 10, 5, 4, 0);
    write(&fake, 11, 6, 4, 0);
    assert_eq!(DelaySample::read(&fake.host(), &[10, 11]).since(&earlier).expect("both are there"), ms(50));
    // The second id was given to another thread.
    write(&fake, 11, 900, 4, 0);
    let why = DelaySample::read(&fake.host(), &[10, 11]).since(&earlier).expect_err("one is gone");
    assert_eq!(why.reason, "1 of 2 threads had ended");
}

/// Ended when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_real_process_that_writes_waits_for_block_io() {
    let host = Host::real();
    if DelayAccounting::read(&host) == DelayAccounting::Off {
        return skip(Need::DiskWaits, "kernel.task_delayacct is 0, so no waiting for block I/O is measured");
    }
    let folder = tempfile::tempdir_in(".").unwrap();
    let file = format!("of={}", folder.path().join("file").display());
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", &file, "bs=4k", "count=20000", "oflag=direct,dsync"]).stderr(Stdio::null());
    let mut writer = Killed(command.spawn().expect("every system has dd"));
    let id = writer.0.id().cast_signed();
    let before = DelaySample::read(&host, &[id]);
    let began = Instant::now();
    loop {
        if DelaySample::read(&host, &[id]).since(&before).is_ok_and(|waited| {
            assert!(waited <= began.elapsed() + ms(10), "{waited:?}");
            waited >= ms(20)
        }) {
            return;
        }
        if writer.0.try_wait().expect("it is ours").is_some() {
            return skip(Need::Disk, "this file system writes without waiting, or not directly at all");
        }
    }
}
