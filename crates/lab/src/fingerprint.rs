//! Short hashes that distinguish settings and machines. They are the same on every machine and in every version.

use std::collections::BTreeMap;
use std::hash::Hasher;

use fnv::FnvHasher;
use plimsoll_machine::MachineFacts;
use serde_json::Value;

/// Hash of every setting by name and value.
pub fn settings_hash(settings: &BTreeMap<String, Value>) -> String {
    hash(settings.iter().map(|(name, value)| format!("{name}={value}\n")))
}

/// Hash of a text.
pub(crate) fn text_hash(text: &str) -> String {
    hash([text.to_owned()].into_iter())
}

/// Hash of the facts that distinguish machines for a database: processor, usable cores, caches, memory, kernel.
pub fn machine_fingerprint(machine: &MachineFacts) -> String {
    let caches = serde_json::to_string(&machine.caches).expect("plain data");
    let mut cores = format!("{}/{}/{}", machine.cores_usable, machine.cores_online, machine.threads_per_core);
    if let Some(quota) = machine.cpu_quota {
        cores += &format!("/{quota:.2}");
    }
    let memory = format!("{}/{:?}", machine.memory_bytes, machine.memory_limit_bytes);
    let parts = [&machine.cpu_model, &machine.cpu_id, &cores, &caches, &memory, &machine.kernel];
    hash(parts.into_iter().map(|part| format!("{part}\n")))
}

fn hash(parts: impl Iterator<Item = String>) -> String {
    // FNV-1a: not cryptographic, only for comparison.
    let mut hasher = FnvHasher::default();
    parts.for_each(|part| hasher.write(part.as_bytes()));
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_hash_depends_on_every_setting_and_on_nothing_else() {
        let settings = |entries: &[(&str, Value)]| {
            settings_hash(&entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
        };
        let one = settings(&[("a", 1.into()), ("b", "x".into())]);
        assert_eq!(one, settings(&[("b", "x".into()), ("a", 1.into())]));
        assert_ne!(one, settings(&[("a", 2.into()), ("b", "x".into())]));
        assert_ne!(one, settings(&[("a", 1.into())]));
        // Pinned: a run of today must be comparable with one of next year.
        assert_eq!(settings(&[("run.seed", 7.into())]), "9208c9bcb8fe5f11");
    }

    #[test]
    fn a_machine_with_less_memory_is_another_one() {
        let machine = fixture::study().machine;
        let smaller = MachineFacts { memory_bytes: machine.memory_bytes / 2, ..machine.clone() };
        assert_ne!(machine_fingerprint(&machine), machine_fingerprint(&smaller));
        let renamed = MachineFacts { capabilities: vec![], ..machine.clone() };
        assert_eq!(machine_fingerprint(&machine), machine_fingerprint(&renamed), "what can be measured may change");
    }
}
