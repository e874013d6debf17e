//! Whether the files of an export are those that its manifest names.

use crate::manifest::{MANIFEST, Manifest};
use crate::run::{ExportError, digest};
use crate::storage::Storage;

/// Reads all files of an export. Returns its manifest and a sentence for each file that is missing or differs.
pub fn verify(storage: &dyn Storage) -> Result<(Manifest, Vec<String>), ExportError> {
    let place = storage.place(MANIFEST);
    let bytes = storage.read(MANIFEST)?.ok_or_else(|| ExportError::NoExport { place: place.clone() })?;
    let manifest = Manifest::parse(&bytes, &place)?;
    let mut faults = Vec::new();
    for file in manifest.files() {
        let place = storage.place(&file.path);
        match storage.read(&file.path)? {
            None => faults.push(format!("{place} is missing")),
            Some(bytes) if bytes.len() as u64 != file.bytes => {
                faults.push(format!("{place} has {} bytes instead of {}", bytes.len(), file.bytes));
            }
            Some(bytes) if digest(&bytes) != file.sha256 => faults.push(format!("{place} has other contents")),
            Some(_) => {}
        }
    }
    Ok((manifest, faults))
}
