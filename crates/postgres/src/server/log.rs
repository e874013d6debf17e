//! The end of the server's log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The number of lines that an error message shows.
const LINES: usize = 12;

/// Bytes that surely hold `LINES` lines.
const TAIL_BYTES: u64 = 16 << 10;

/// The last lines of a file, or why it cannot be read.
pub(super) fn tail(path: &Path) -> String {
    match read_from(path, |length| length.saturating_sub(TAIL_BYTES)) {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(LINES)..].join("\n")
        }
        Err(error) => format!("({} cannot be read: {error})", path.display()),
    }
}

/// The text written to a file since it had that many bytes.
pub(super) fn since(path: &Path, bytes: u64) -> String {
    read_from(path, |length| bytes.min(length)).unwrap_or_default()
}

pub(super) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn read_from(path: &Path, start: impl FnOnce(u64) -> u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(start(length)))?;
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_and_what_came_since() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(tail(&path).contains("cannot be read"));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(tail(&path), "one\ntwo");
        let before = length(&path);
        let many: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, format!("one\ntwo\n{many}")).unwrap();
        assert_eq!(tail(&path).lines().count(), LINES);
        assert!(tail(&path).ends_with("line 9999"));
        assert!(since(&path, before).starts_with("line 0\n"));
        assert_eq!(since(&path, u64::MAX), "");
    }
}
