//! Checks for options that exclude each other, that may be a mistake, or that require something this machine lacks.

use plimsoll_engine::delta::{Propagation, Recency};
use plimsoll_engine::table::IndexKind;
use plimsoll_machine::placement::process_cores;
use plimsoll_machine::thread_share::own_slice;

use super::EmbeddedOptions;

/// Why options exclude each other; `None` if they do not.
pub(crate) fn conflict(options: &EmbeddedOptions) -> Option<String> {
    if options.columns_in_files && options.delta.propagation != Propagation::Off {
        let reason = "`column_store=file` models columns that are read from the disk, and `propagation` would move those that \
                      change into memory; use `column_store=memory` or `propagation=off`";
        return Some(reason.to_owned());
    }
    if options.column_memory_mib.is_some() && !options.columns_in_files {
        let reason = "`column_memory_mib` limits how much of columns in files stays in memory, and `column_store=memory` keeps \
                      all of them there; use `column_store=file`, or leave `column_memory_mib` out";
        return Some(reason.to_owned());
    }
    if options.index == IndexKind::Hash && options.log.data_folder.is_some() {
        let reason = "a database that is recovered has trees, because its log does not say of which keys ranges are read, so that \
                      `index=hash` would hold until it is opened again only; use `index=tree`, or leave `data_folder` out";
        return Some(reason.to_owned());
    }
    options.delta.conflict()
}

/// An effect of options that may be a mistake; `None` if there is none.
pub(crate) fn caution(options: &EmbeddedOptions) -> Option<String> {
    let is_meant = options.delta.propagation != Propagation::Paused || options.delta.recency != Recency::Latest;
    (!is_meant).then(|| {
        "propagation=paused with freshness=latest: nothing is brought to the columns, so that each query merges all changes since \
         loading or the last check and takes longer than the one before. That measures mu_merge; for anything else say \
         propagation=background"
            .to_owned()
    })
}

/// What this machine lacks for the options; `None` if it lacks nothing.
pub(crate) fn lacking(options: &EmbeddedOptions) -> Option<String> {
    if let Err(error) = options.placement.check() {
        return Some(error.to_string());
    }
    if options.transaction_slice.is_some() && own_slice().is_none() {
        let why =
            "transaction_slice: this kernel has no slices of threads (Linux before 6.12); use transaction_slice=kernel";
        return Some(why.to_owned());
    }
    let (threads, cores) = (options.delta.threads, process_cores().len().max(1));
    let is_too_many = options.delta.propagation != Propagation::Off && threads > cores;
    (is_too_many && !options.propagation_oversubscribe).then(|| {
        format!(
            "propagation_threads={threads} are more than the {cores} cores of this process, so that they would take turns; take at \
             most {cores}, or say propagation_oversubscribe=on"
        )
    })
}
