//! `prefetchers`: whether the processor fetches lines that it guesses. For the whole machine.
//!
//! Intel: model-specific register 0x1A4, bits 0 to 3 turn off the L2 streamer, the L2 adjacent line, the L1 next line and
//! the L1 stride prefetcher ("Disclosure of Hardware Prefetcher Control on Some Intel Processors"; SDM volume 4,
//! MISC_FEATURE_CONTROL). AMD from family 19h on: register 0xC0000108, bits 0 to 3 and 5 turn off L1 stream, L1 stride, L1
//! region, L2 stream and L2 up/down (PPR, Prefetch Control); bit 4 is reserved.

use std::collections::BTreeMap;

use super::{Amount, Control, ControlContext, ControlError, Undo, Unknown, Verdict, Window};
use crate::availability::Availability;
use crate::facts::guest::hypervisor;
use crate::facts::processor::{Identity, online_cores};
use crate::host::Host;

#[derive(Debug)]
pub(super) struct Prefetchers;

const KEY: &str = "prefetchers";

/// The register of this processor, and its bits; each bit turns a prefetcher off.
#[derive(Debug, Clone, Copy)]
struct Switches {
    register: u32,
    bits: u64,
}

const INTEL: Switches = Switches { register: 0x1a4, bits: 0b1111 };
const AMD: Switches = Switches { register: 0xc000_0108, bits: 0b10_1111 };

impl Control for Prefetchers {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "on or off"
    }

    fn meaning(&self) -> &'static str {
        "hardware prefetchers of every core of the machine"
    }

    fn probe(&self, host: &Host) -> Availability {
        match switches(host) {
            Ok(switches) => Availability::yes(format!("model-specific register {:#x}", switches.register)),
            Err(unavailable) => unavailable,
        }
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        is_on(amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let on = is_on(amount)?;
        let host = context.host;
        let switches = switches(host).map_err(|no| no.error(KEY))?;
        let path = |core: usize| format!("register {:#x} of core {core}", switches.register);
        let mut values = BTreeMap::new();
        for core in online_cores(host) {
            let value = host.register(core, switches.register);
            values.insert(core, value.map_err(|error| ControlError::refused("read", path(core), error))?);
        }
        context.undo.note(Undo::Register { register: switches.register, values: values.clone() })?;
        for (core, value) in values {
            let value = if on { value & !switches.bits } else { value | switches.bits };
            host.set_register(core, switches.register, value)
                .map_err(|error| ControlError::refused(format!("write {value:#x} to"), path(core), error))?;
        }
        Ok(())
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let host = window.host;
        let Switches { register, bits } = switches(host).map_err(|no| no.reason)?;
        let wanted = if is_on(window.amount)? { 0 } else { bits };
        let is_other = |core: &usize| !host.register(*core, register).is_ok_and(|value| value & bits == wanted);
        match online_cores(host).into_iter().filter(is_other).count() {
            0 => Ok(Verdict::held(window.amount.clone())),
            other => Err(format!("register {register:#x} of {other} cores is not as set").into()),
        }
    }
}

fn is_on(amount: &Amount) -> Result<bool, ControlError> {
    match amount {
        Amount::Text(text) if text == "on" => Ok(true),
        Amount::Text(text) if text == "off" => Ok(false),
        _ => Err(ControlError::amount(KEY, amount, "it is `on` or `off`")),
    }
}

/// The switches of this processor, if they are known and can be read and written.
fn switches(host: &Host) -> Result<Switches, Availability> {
    if let Some(hypervisor) = hypervisor(host) {
        let reason = format!("this machine is a guest ({hypervisor}), whose registers are not those of the processor");
        return Err(Availability::no(reason, Some("run on bare metal")));
    }
    let identity = Identity::read(host);
    let switches = match (identity.vendor.as_str(), identity.family) {
        ("GenuineIntel", Some(6)) => INTEL,
        ("AuthenticAMD", Some(family)) if family >= 0x19 => AMD,
        _ => {
            let reason = format!("no register is known for this processor ({})", identity.id());
            return Err(Availability::no(reason, None));
        }
    };
    for core in online_cores(host) {
        let file = format!("/dev/cpu/{core}/msr");
        if !host.exists(&file) {
            return Err(Availability::no(format!("there is no {file}"), Some("as root: modprobe msr")));
        }
        if !host.writable(&file) {
            return Err(Availability::no(format!("{file} is not ours to write"), Some("run as root (CAP_SYS_RAWIO)")));
        }
        host.register(core, switches.register).map_err(|error| {
            let reason = format!("register {:#x} of core {core} cannot be read: {error}", switches.register);
            Availability::no(reason, Some("boot without kernel lockdown; older processors do not have it"))
        })?;
    }
    Ok(switches)
}
