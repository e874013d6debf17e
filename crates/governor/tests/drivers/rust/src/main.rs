//! tokio-postgres: see ../README.md.

use std::env;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use futures::{SinkExt, TryStreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls, SimpleQueryMessage};

const CONTENDERS: usize = 6;
const ROUNDS: i64 = 12;

/// The longest time that any operation may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports a check that has passed.
fn ok(check: &str) {
    println!("ok {check}");
}

/// Reads libpq's environment variables.
fn config() -> Config {
    let variable = |name: &str| env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut config = Config::new();
    config.host(variable("PGHOST")).port(variable("PGPORT").parse().unwrap());
    config.user(variable("PGUSER")).password(variable("PGPASSWORD")).dbname(variable("PGDATABASE"));
    config
}

#[tokio::main]
async fn main() {
    let config = &config();
    simple(config).await;
    prepared(config).await;
    ok("prepared");
    pipeline(config).await;
    ok("pipeline");
    copy(config).await;
    ok("copy");
    cancel(config).await;
    ok("cancel");
    notify_and_notice(config).await;
    rollback(config).await;
    ok("rollback");
    large(config).await;
    ok("large");
    contended(config).await;
    ok("contended");
}

/// A connection, and the asynchronous messages of the server.
async fn connect(config: &Config) -> (Client, UnboundedReceiver<AsyncMessage>) {
    let (client, mut connection) = config.connect(NoTls).await.unwrap();
    let (tell, told) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            // The receiver may be gone; the connection is driven all the same.
            let _ = tell.send(message.unwrap());
        }
    });
    (client, told)
}

async fn client(config: &Config) -> Client {
    connect(config).await.0
}

fn assert_refused<T>(state: &SqlState, result: Result<T, Error>) {
    let error = result.err().unwrap_or_else(|| panic!("expected {state:?}"));
    assert_eq!(error.code(), Some(state), "{error:?}");
}

async fn simple(config: &Config) {
    let client = client(config.clone().application_name("tokio checks")).await;
    let row = client.query_one("SHOW application_name", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "tokio checks");
    ok("connect");
    let messages = client.simple_query("SELECT 1; SELECT 'zwei'; SELECT NULL").await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0)),
        _ => None,
    });
    assert_eq!(rows.collect::<Vec<_>>(), [Some("1"), Some("zwei"), None]);
    client.batch_execute("").await.unwrap();
    ok("simple");
}

async fn prepared(config: &Config) {
    let mut client = client(config).await;
    let statement = client.prepare("SELECT $1::int + 1, $2::text, $3::bytea").await.unwrap();
    for number in 0..50_i32 {
        let bytes = [0, 255, number as u8];
        let row = client.query_one(&statement, &[&number, &None::<&str>, &&bytes[..]]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, Option<&str>>(1)), (number + 1, None));
        assert_eq!(row.get::<_, &[u8]>(2), bytes);
    }
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT generate_series(1, 100)", &[]).await.unwrap();
    let mut total = 0;
    loop {
        let rows = transaction.query_portal(&portal, 7).await.unwrap();
        total += rows.iter().map(|row| row.get::<_, i32>(0)).sum::<i32>();
        if rows.len() < 7 {
            break;
        }
    }
    assert_eq!(total, 5050);
    transaction.commit().await.unwrap();
}

async fn pipeline(config: &Config) {
    let client = client(config).await;
    client.batch_execute("CREATE TEMP TABLE piped (number int CHECK (number <> 13))").await.unwrap();
    let insert = client.prepare("INSERT INTO piped VALUES ($1) RETURNING number").await.unwrap();
    // The driver pipelines queries that are polled together; every answer must reach its own query.
    let numbers = (0..200_i32).collect::<Vec<_>>();
    let results = join_all(numbers.iter().map(async |number| client.query_one(&insert, &[number]).await)).await;
    for (number, result) in (0..).zip(results) {
        match number {
            13 => assert_refused(&SqlState::CHECK_VIOLATION, result),
            _ => assert_eq!(result.unwrap().get::<_, i32>(0), number),
        }
    }
    let count = client.query_one("SELECT count(*) FROM piped", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 199);
}

async fn copy(config: &Config) {
    let client = client(config).await;
    client.batch_execute("CREATE TEMP TABLE copied (id int PRIMARY KEY, text text)").await.unwrap();
    let rows = (0..20_000).map(|number| format!("{number}\trow {number}\n")).collect::<Vec<_>>();
    let mut sink = pin!(client.copy_in("COPY copied FROM STDIN").await.unwrap());
    for chunk in rows.chunks(100) {
        sink.send(Bytes::from(chunk.concat())).await.unwrap();
    }
    assert_eq!(sink.as_mut().finish().await.unwrap(), 20_000);
    let out = client.copy_out("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT").await.unwrap();
    let chunks: Vec<Bytes> = out.try_collect().await.unwrap();
    assert!(chunks.concat() == rows.concat().into_bytes(), "what was copied in comes out differently");
    let mut sink = pin!(client.copy_in("COPY copied FROM STDIN").await.unwrap());
    // The server may refuse before all rows have been sent.
    let sent = sink.send(Bytes::from(rows[..100].concat())).await;
    let ended = match sent {
        Ok(()) => sink.finish().await.map(drop),
        Err(error) => Err(error),
    };
    assert_refused(&SqlState::UNIQUE_VIOLATION, ended);
    {
        // Dropped before its end, which the driver reports with CopyFail.
        let mut sink = pin!(client.copy_in::<_, Bytes>("COPY copied FROM STDIN").await.unwrap());
        sink.send(Bytes::from("20000\tnot to be\n")).await.unwrap();
    }
    let count = client.query_one("SELECT count(*) FROM copied", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 20_000);
}

async fn cancel(config: &Config) {
    let (client, watcher) = (client(config).await, client(config).await);
    // Not by its process: each transaction of a pool's client may have another one.
    let sleeps =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg\\_sleep(600)%' AND wait_event = 'PgSleep'";
    for _ in 0..3 {
        let token = client.cancel_token();
        let (slept, ()) = tokio::join!(client.batch_execute("SELECT pg_sleep(600)"), async {
            // There is nothing to cancel before the statement sleeps.
            let until_it_sleeps = async {
                while watcher.query_one(sleeps, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(PATIENCE, until_it_sleeps).await.expect("the statement begins");
            token.cancel_query(NoTls).await.unwrap();
        });
        assert_refused(&SqlState::QUERY_CANCELED, slept);
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    }
}

async fn notify_and_notice(config: &Config) {
    let (listener, mut told) = connect(config).await;
    listener.batch_execute("LISTEN tokio_news").await.unwrap();
    let speaker = client(config).await;
    speaker.batch_execute("NOTIFY tokio_news, 'first'").await.unwrap();
    speaker.execute("SELECT pg_notify('tokio_news', $1)", &[&"second"]).await.unwrap();
    for expected in ["first", "second"] {
        match timeout(PATIENCE, told.recv()).await.unwrap().unwrap() {
            AsyncMessage::Notification(notification) => assert_eq!(notification.payload(), expected),
            other => panic!("{other:?}"),
        }
    }
    ok("notify");
    listener.batch_execute("DO $$ BEGIN RAISE NOTICE 'hear %', 'me'; END $$").await.unwrap();
    match timeout(PATIENCE, told.recv()).await.unwrap().unwrap() {
        AsyncMessage::Notice(notice) => assert_eq!(notice.message(), "hear me"),
        other => panic!("{other:?}"),
    }
    ok("notice");
}

async fn rollback(config: &Config) {
    let mut client = client(config).await;
    client.batch_execute("CREATE TEMP TABLE kept (id int PRIMARY KEY)").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO kept VALUES (1)", &[]).await.unwrap();
    assert_refused(&SqlState::DIVISION_BY_ZERO, transaction.query_one("SELECT 1 / $1::int", &[&0]).await);
    assert_refused(&SqlState::IN_FAILED_SQL_TRANSACTION, transaction.batch_execute("SELECT 1").await);
    transaction.rollback().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO kept VALUES (2)", &[]).await.unwrap();
    let savepoint = transaction.savepoint("here").await.unwrap();
    assert_refused(&SqlState::UNIQUE_VIOLATION, savepoint.execute("INSERT INTO kept VALUES (2)", &[]).await);
    // Dropped, not committed: the driver sends the rollback with its next message.
    drop(savepoint);
    transaction.execute("INSERT INTO kept VALUES (3)", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    let sum = client.query_one("SELECT sum(id) FROM kept", &[]).await.unwrap();
    assert_eq!(sum.get::<_, i64>(0), 5);
}

async fn large(config: &Config) {
    let client = client(config).await;
    let rows = client.query("SELECT repeat('x', 1000) FROM generate_series(1, 10000)", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, &str>(0).len()).sum::<usize>(), 10_000_000);
    let row = client.query_one("SELECT repeat('y', 10000000)", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0).len(), 10_000_000);
    let row = client.query_one("SELECT length($1)", &[&"z".repeat(5_000_000)]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 5_000_000);
}

/// One transaction; whether it is to be tried again.
async fn transfer(client: &mut Client) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    for row in 1..=3_i32 {
        let before = transaction.query_one("SELECT low FROM hot WHERE id = $1 FOR UPDATE", &[&row]).await?;
        let update = "UPDATE hot SET low = low + 1 WHERE id = $1 RETURNING low";
        let after = transaction.query_one(update, &[&row]).await?;
        assert_eq!(after.get::<_, i64>(0), before.get::<_, i64>(0) + 1);
    }
    transaction.commit().await
}

async fn contend(config: &Config) -> Result<(), Error> {
    let mut client = client(config).await;
    let mut rounds = 0;
    while rounds < ROUNDS {
        match transfer(&mut client).await {
            Ok(()) => rounds += 1,
            Err(error) => {
                let again = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
                assert!(error.code().is_some_and(|code| again.contains(code)), "{error:?}");
            }
        }
    }
    Ok(())
}

async fn counts(client: &Client) -> Vec<i64> {
    let rows = client.query("SELECT low FROM hot WHERE id <= 3 ORDER BY id", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn contended(config: &Config) {
    let client = client(config).await;
    let before = counts(&client).await;
    try_join_all((0..CONTENDERS).map(|_| contend(config))).await.unwrap();
    let added = counts(&client).await.iter().zip(&before).map(|(after, before)| after - before).collect::<Vec<_>>();
    assert_eq!(added, [CONTENDERS as i64 * ROUNDS; 3]);
}
