//! `GOVERN 'statement' key = value …` and `UNGOVERN 'statement'`.

use plimsoll_settings::governed::{Governed, fingerprint_of};

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::reload::{ReloadError, Reloaded};

/// The console's notation, for messages.
const FORM: &str = "GOVERN 'statement' class = NAME, or GOVERN 'statement' rate = 5/s guards = warn";

/// Governs a statement until it is taken back.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let statement = wish(call)?;
    let lines = lines(call, &statement)?;
    let (fingerprint, class) = (format!("{:016x}", statement.fingerprint), statement.class.clone());
    let reloaded = call.governor.govern(statement).map_err(refused)?;
    tracing::warn!(user = call.user, fingerprint, class, "console: GOVERN");
    let keep = format!(
        "It holds until UNGOVERN '{fingerprint}' or the governor's end. To keep it, add these lines to the settings file:\n{lines}"
    );
    Ok(told(reloaded, keep))
}

/// Takes it back.
pub fn take_back(call: &Call<'_>) -> Result<Answer, Refusal> {
    let [statement] = call.arguments else {
        return Err(Refusal::new("42601", "write UNGOVERN 'statement'").hint("SHOW GOVERNED has the fingerprints."));
    };
    let fingerprint = fingerprint_of(statement);
    let Some(reloaded) = call.governor.take_back(fingerprint).map_err(refused)? else {
        let message = format!("the statement {fingerprint:016x} is not governed from the console");
        return Err(
            Refusal::new("42704", message).hint("SHOW GOVERNED has those that are; others are in the settings file.")
        );
    };
    tracing::warn!(user = call.user, fingerprint = format!("{fingerprint:016x}"), "console: UNGOVERN");
    Ok(told(reloaded, format!("The statement {fingerprint:016x} is in the class that the settings file gives it.")))
}

/// What the arguments ask for.
pub(crate) fn wish(call: &Call<'_>) -> Result<Governed, Refusal> {
    let Some((statement, mut rest)) = call.arguments.split_first() else {
        return Err(Refusal::new("42601", format!("write {FORM}")));
    };
    let mut keys = Vec::new();
    while let Some(word) = rest.first() {
        rest = match rest {
            [comma, after @ ..] if comma == "," => after,
            [key, sign, value, after @ ..] if sign == "=" => {
                keys.push((key.to_ascii_lowercase(), value.clone()));
                after
            }
            _ => return Err(Refusal::new("42601", format!("`{word}` has no value; write {FORM}"))),
        };
    }
    Governed::new(statement, keys, &call.governor.settings()).map_err(|why| Refusal::new("22023", why))
}

/// The lines that would go into the settings file.
pub(crate) fn lines(call: &Call<'_>, statement: &Governed) -> Result<String, Refusal> {
    let text = match call.governor.file_text() {
        // Those for a new file.
        Err(ReloadError::NoFile) => String::new(),
        text => text.map_err(refused)?,
    };
    statement.lines(&text).map_err(|why| Refusal::new("F0000", format!("the settings file cannot be read: {why}")))
}

fn refused(error: ReloadError) -> Refusal {
    match error {
        ReloadError::Governed(why) => Refusal::new("22023", format!("the settings stay as they are: {why}")),
        ReloadError::GovernedByFile => Refusal::new("55000", error.to_string()),
        error => Refusal::new("F0000", format!("the settings stay as they are: {error}")),
    }
}

fn told(reloaded: Reloaded, last: String) -> Answer {
    let mut notices = reloaded.notices();
    notices.push(last);
    Answer { notices, ..Answer::default() }
}
