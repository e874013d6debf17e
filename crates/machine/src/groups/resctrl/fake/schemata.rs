//! The kernel's rules for writes to `schemata`.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::shape::{CacheShape, Shape};
use super::{Outcome, refuse};

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

/// By resource and domain.
pub(super) type Values = BTreeMap<(String, u32), u32>;

impl Schema {
    pub(super) fn defaults(&self, shape: &Shape) -> Values {
        let value = match self.kind {
            ResourceKind::Cache(cache) => cache.full,
            ResourceKind::Bandwidth { megabytes: true, .. } => u32::MAX,
            ResourceKind::Bandwidth { max, .. } => max,
        };
        shape.domains.iter().map(|id| ((self.name.clone(), *id), value)).collect()
    }

    /// As the kernel shows it.
    pub(super) fn text(&self, value: u32) -> String {
        match self.kind {
            ResourceKind::Cache(_) => format!("{value:x}"),
            ResourceKind::Bandwidth { .. } => format!("{value:>4}"),
        }
    }

    /// Bytes of a mask; a bandwidth limit is unchanged.
    pub(super) fn size(&self, value: u32) -> u32 {
        match self.kind {
            ResourceKind::Cache(cache) => cache.size / cache.full.count_ones() * value.count_ones(),
            ResourceKind::Bandwidth { .. } => value,
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
pub(super) fn write(shape: &Shape, group: &mut Values, text: &str) -> Outcome<()> {
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
            staged.insert((schema.name.clone(), id), schema.parse(value)?);
        }
    }
    group.extend(staged);
    Ok(())
}
