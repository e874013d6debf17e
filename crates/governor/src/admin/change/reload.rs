//! `RELOAD`.

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;

/// Reads the settings again; changes are reported as notices.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    tracing::info!(user = call.user, "console: RELOAD");
    let reloaded = call.governor.reload_file().map_err(|error| {
        // One fault per line, as in the output of `--check`.
        Refusal::new("F0000", format!("the settings stay as they are: {error}"))
            .hint("Correct the file and repeat RELOAD; `govern --check` reports the same faults.")
    })?;
    let mut notices = reloaded.notices();
    if reloaded.changed.is_empty() && reloaded.after_restart.is_empty() {
        notices.push("nothing is different".to_owned());
    }
    Ok(Answer { notices, ..Answer::default() })
}
