//! The kernel's rules for what is written to `schemata`.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::shape::{CacheShape, Shape};
use super::{FakeGroup, Outcome, parent_of, refuse};

/// One line of `schemata`.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) kind: ResourceKind,
    pub(super) closids: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ResourceKind {
    Cache(CacheShape),
    Bandwidth { min: u32, step: u32, max: u32, megabytes: bool },
}

type Groups = BTreeMap<String, FakeGroup>;
type Values = BTreeMap<(String, u32), u32>;

impl Schema {
    /// What the default group has at first.
    pub(super) fn defaults(&self, shape: &Shape) -> Values {
        let value = match self.kind {
            ResourceKind::Cache(cache) => cache.full,
            ResourceKind::Bandwidth { megabytes: true, .. } => u32::MAX,
            ResourceKind::Bandwidth { max, .. } => max,
        };
        shape.domains.iter().map(|id| ((self.name.clone(), *id), value)).collect()
    }

    /// What a fresh group has: everything that no group has for itself alone, as far as it is in one piece.
    pub(super) fn initial(&self, shape: &Shape, groups: &Groups) -> Outcome<Values> {
        let mut values = self.defaults(shape);
        let ResourceKind::Cache(cache) = self.kind else { return Ok(values) };
        for ((_, id), value) in &mut values {
            let (mut used, mut open) = (cache.shareable, cache.shareable);
            for (path, group) in groups {
                for name in self.same_ways() {
                    let Some(mask) = group.values.get(&(name, *id)).filter(|_| parent_of(path).is_none()) else {
                        continue;
                    };
                    used |= mask;
                    open |= if group.exclusive { 0 } else { *mask };
                }
            }
            open |= cache.full & !used;
            *value = first_run(open);
            if value.count_ones() < cache.bits_min {
                return refuse(Errno::NOSPC, format!("No space on {}:{id}", self.name));
            }
        }
        Ok(values)
    }

    /// As the kernel shows it.
    pub(super) fn text(&self, value: u32) -> String {
        match self.kind {
            ResourceKind::Cache(_) => format!("{value:x}"),
            ResourceKind::Bandwidth { .. } => format!("{value:>4}"),
        }
    }

    /// Bytes of a mask; a limit of bandwidth stays what it is.
    pub(super) fn size(&self, value: u32) -> u32 {
        match self.kind {
            ResourceKind::Cache(cache) => cache.size / cache.full.count_ones() * value.count_ones(),
            ResourceKind::Bandwidth { .. } => value,
        }
    }

    /// The resources over the same ways: code and data are two.
    fn same_ways(&self) -> Vec<String> {
        match self.name.as_str() {
            "L3CODE" | "L3DATA" => vec!["L3CODE".to_owned(), "L3DATA".to_owned()],
            name => vec![name.to_owned()],
        }
    }

    fn parse(&self, text: &str) -> Outcome<u32> {
        match self.kind {
            ResourceKind::Cache(cache) => parse_mask(cache, text),
            ResourceKind::Bandwidth { min, step, max, megabytes } => {
                let Ok(limit) = text.parse::<u32>() else {
                    return refuse(Errno::INVAL, format!("Invalid MB value {text}"));
                };
                if megabytes {
                    return Ok(limit);
                }
                if limit < min || limit > max {
                    return refuse(Errno::INVAL, format!("MB value {limit} out of range [{min},{max}]"));
                }
                Ok(limit.next_multiple_of(step))
            }
        }
    }

    /// Whether a mask meets one of another group. Of all groups, devices included, or only of those that are exclusive.
    fn overlaps(&self, groups: &Groups, own: &str, id: u32, mask: u32, exclusive_only: bool) -> bool {
        let ResourceKind::Cache(cache) = self.kind else { return false };
        let others = groups.iter().filter(|(path, group)| {
            path.as_str() != own && parent_of(path).is_none() && (group.exclusive || !exclusive_only)
        });
        let meets = |(_, group): (&String, &FakeGroup)| {
            self.same_ways()
                .into_iter()
                .any(|name| group.values.get(&(name, id)).is_some_and(|other| other & mask != 0))
        };
        (!exclusive_only && cache.shareable & mask != 0) || others.into_iter().any(meets)
    }
}

/// The lowest ones of a mask as far as they follow each other.
fn first_run(mask: u32) -> u32 {
    let low = mask.trailing_zeros().min(31);
    let run = (mask >> low).trailing_ones();
    1u32.checked_shl(run).map_or(u32::MAX, |bit| bit - 1) << low
}

/// `cbm_validate` of the kernel.
fn parse_mask(cache: CacheShape, text: &str) -> Outcome<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let Ok(mask) = u64::from_str_radix(digits, 16) else {
        return refuse(Errno::INVAL, format!("Non-hex character in the mask {text}"));
    };
    if (mask == 0 && cache.bits_min > 0) || mask > u64::from(cache.full) {
        return refuse(Errno::INVAL, "Mask out of range");
    }
    let run = if mask == 0 { 0 } else { (mask >> mask.trailing_zeros()).trailing_ones() };
    if !cache.sparse && run != mask.count_ones() {
        return refuse(Errno::INVAL, format!("The mask {mask:x} has non-consecutive 1-bits"));
    }
    if run < cache.bits_min {
        return refuse(Errno::INVAL, format!("Need at least {} bits in the mask", cache.bits_min));
    }
    Ok(mask as u32)
}

/// Writes lines to the `schemata` of a group: all of them, or none.
pub(super) fn write(shape: &Shape, groups: &mut Groups, path: &str, text: &str) -> Outcome<()> {
    let schemas = shape.schemas();
    let mut staged = Values::new();
    for line in text.split('\n') {
        let Some((name, domains)) = line.split_once(':') else { return refuse(Errno::INVAL, "Missing ':'") };
        let name = name.trim();
        if domains.is_empty() {
            return refuse(Errno::INVAL, format!("Missing '{name}' value"));
        }
        let Some(schema) = schemas.iter().find(|schema| schema.name == name) else {
            return refuse(Errno::INVAL, format!("Unknown or unsupported resource name '{name}'"));
        };
        let mut rest = domains;
        // The kernel stops at an empty end, so that a semicolon may be the last.
        while !rest.is_empty() {
            let (domain, after) = rest.split_once(';').unwrap_or((rest, ""));
            rest = after;
            let parsed = domain.split_once('=').and_then(|(id, value)| Some((id.parse::<u32>().ok()?, value.trim())));
            let Some((id, value)) = parsed else {
                return refuse(Errno::INVAL, "Missing '=' or non-numeric domain");
            };
            if !shape.domains.contains(&id) {
                return refuse(Errno::INVAL, "");
            }
            if staged.contains_key(&(schema.name.clone(), id)) {
                return refuse(Errno::INVAL, format!("Duplicate domain {id}"));
            }
            let value = schema.parse(value)?;
            if schema.overlaps(groups, path, id, value, true) {
                return refuse(Errno::INVAL, "Overlaps with exclusive group");
            }
            if groups[path].exclusive && schema.overlaps(groups, path, id, value, false) {
                return refuse(Errno::INVAL, "Overlaps with other group");
            }
            staged.insert((schema.name.clone(), id), value);
        }
    }
    groups.get_mut(path).expect("the group was looked up before").values.extend(staged);
    Ok(())
}

/// Whether no way of a group is used by another or by devices.
pub(super) fn may_be_exclusive(shape: &Shape, groups: &Groups, path: &str) -> Outcome<()> {
    let caches = || shape.schemas().into_iter().filter(|schema| matches!(schema.kind, ResourceKind::Cache(_)));
    if caches().next().is_none() {
        return refuse(Errno::INVAL, "Cannot be exclusive without CAT/CDP");
    }
    for schema in caches() {
        for id in &shape.domains {
            let mask = groups[path].values[&(schema.name.clone(), *id)];
            if schema.overlaps(groups, path, *id, mask, false) {
                return refuse(Errno::INVAL, "Schemata overlaps");
            }
        }
    }
    Ok(())
}
