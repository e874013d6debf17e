//! What an error of the store means, and what to do about it.

use std::error::Error as _;

use object_store::Error;

use crate::storage::Advised;

/// The most characters of an error that is passed on as it is.
const TEXT_MAX: usize = 400;

/// Marks in an error's text, what they mean, and the remedy. The first that fits counts.
const FAULTS: &[(&[&str], &str, &str)] = &[
    (&["NoSuchBucket"], "the bucket does not exist", "create it, or name another one"),
    (
        &["169.254.169.254", "MissingCredentials", "NoCredentials"],
        "there are no credentials",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where an instance has a role",
    ),
    (
        &["redirect", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"],
        "the bucket is in another region",
        "set AWS_REGION to the region of the bucket",
    ),
    (
        &["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidClientTokenId"],
        "the credentials are refused",
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    ),
    (
        &["AccessDenied", "403 Forbidden", "401 Unauthorized"],
        "access is denied",
        "give these credentials the rights s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject there",
    ),
    (
        &["NotImplemented", "501 Not Implemented"],
        "the store does not know conditional writes (If-None-Match, If-Match)",
        "export to a folder and copy it there, the manifest last",
    ),
    (
        &["error sending request", "HTTP error", "Connect", "dns error"],
        "the store cannot be reached",
        "check AWS_ENDPOINT_URL, AWS_REGION and the network; an earlier export there is unchanged",
    ),
];

/// An error with its remedy. Requests are signed in headers, which no text of the client has, so that no secret is shown.
pub(super) fn advised(error: &Error) -> Advised {
    let text = chain(error);
    let known = FAULTS.iter().find(|(marks, _, _)| marks.iter().any(|mark| text.contains(mark)));
    match known {
        Some((_, why, remedy)) => Advised { why: (*why).to_owned(), remedy },
        None => Advised { why: text.chars().take(TEXT_MAX).collect(), remedy: "an earlier export there is unchanged" },
    }
}

/// Whether only the object is missing, and not the bucket.
pub(super) fn is_missing_object(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !chain(error).contains("NoSuchBucket")
}

/// An error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let own = one.to_string();
        // Some errors have their causes in their own texts.
        if !text.contains(&own) {
            text += ": ";
            text += &own;
        }
        cause = one.source();
    }
    text
}
