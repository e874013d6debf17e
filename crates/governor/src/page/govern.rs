//! `/govern.json?words=…`: the lines by which a statement would be governed, for the live page. It changes nothing: the
//! console does, and only for users that may.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use plimsoll_pg::url::decoded;
use serde::Serialize;

use crate::admin::command::Call;
use crate::admin::show::govern;
use crate::admin::words::statements;
use crate::governor::Governor;

/// Either the lines or why there are none.
#[derive(Debug, Default, Serialize)]
struct Preview {
    lines: Option<String>,
    error: Option<String>,
}

pub(super) async fn preview(State(governor): State<Arc<Governor>>, uri: Uri) -> Response {
    let preview = match lines(&governor, uri.query().unwrap_or_default()) {
        Ok(lines) => Preview { lines: Some(lines), ..Preview::default() },
        Err(error) => Preview { error: Some(error), ..Preview::default() },
    };
    let text = serde_json::to_string(&preview).expect("two texts");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn lines(governor: &Arc<Governor>, query: &str) -> Result<String, String> {
    let words = query.strip_prefix("words=").ok_or("write /govern.json?words=… with what would follow GOVERN")?;
    let words = decoded(words, "query").map_err(|error| error.to_string())?;
    let mut statements = statements(&words)?;
    let arguments = match statements.len() {
        0 => Vec::new(),
        1 => statements.remove(0),
        _ => return Err("a `;` outside of quotes ends the statement; put the statement in quotes".to_owned()),
    };
    let call = Call { governor, user: "", now: Instant::now(), arguments: &arguments };
    let answer = govern::run(&call).map_err(|refusal| refusal.message)?;
    Ok(answer.rows.iter().flatten().filter_map(|cell| cell.shown()).map(|line| line + "\n").collect())
}
