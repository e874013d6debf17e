//! Scripts as text: reading and writing.

use std::fmt;

use super::{CopyPart, Injection, PROBE, Request, Script, ScriptStep, Settles, Transaction, Unit, User};

impl Script {
    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        let mut injections = Vec::new();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut leaves: Option<fn(Box<Unit>) -> Unit> = None;
            let unit = match word {
                "#" => {
                    script.story.push(rest.to_owned());
                    continue;
                }
                "transaction" => {
                    script.transactions.push(Transaction::default());
                    continue;
                }
                "user" => {
                    let user = User::ALL.into_iter().find(|user| user.name() == rest);
                    script.user = user.ok_or(format!("{rest:?} is no user"))?;
                    continue;
                }
                "!" => {
                    injections.push(injection(rest)?);
                    continue;
                }
                "ahead" => {
                    let last = script.transactions.last_mut().and_then(|transaction| transaction.steps.last_mut());
                    last.ok_or("nothing to send ahead")?.ahead = true;
                    continue;
                }
                "leave" if rest.is_empty() => Unit::Leave(None),
                "leave-after" => {
                    leaves = Some(|unit| Unit::Leave(Some(unit)));
                    unit(rest, &mut lines)?
                }
                "finish-after" => {
                    leaves = Some(Unit::Finish);
                    unit(rest, &mut lines)?
                }
                _ => unit(line, &mut lines)?,
            };
            let unit = match leaves {
                Some(leaves) => leaves(Box::new(unit)),
                None => unit,
            };
            let steps = &mut script.transactions.last_mut().ok_or("a unit before the first transaction")?.steps;
            steps.push(ScriptStep { injections: std::mem::take(&mut injections), unit, ahead: false });
        }
        Ok(script)
    }
}

fn injection(text: &str) -> Result<Injection, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number =
        |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).ok_or(format!("a number in {text:?}"));
    let settles = match words.last() {
        Some(&"early") => Settles::Early,
        Some(&"late") => Settles::After,
        _ => Settles::Before,
    };
    match words[..] {
        ["idle"] => Ok(Injection::Idle),
        ["cancel", ..] => Ok(Injection::Cancel { at: number(1)?, after: number(3)?, settles }),
        ["missed", ..] => Ok(Injection::Missed { after: number(2)?, settles }),
        ["abort", ..] => Ok(Injection::Abort { at: number(1)?, after: number(3)? }),
        ["change", ..] => Ok(Injection::Change { account: number(1)? as u32 }),
        ["replace", ..] => Ok(Injection::Replace { version: number(1)? }),
        ["client-cancel", "missed"] => Ok(Injection::ClientCancelMissed),
        ["client-cancel", ..] => Ok(Injection::ClientCancel { at: number(1)? }),
        _ => Err(format!("{text:?} cannot be done to a unit")),
    }
}

type Lines<'a, I> = std::iter::Peekable<I>;

fn unit<'a, I: Iterator<Item = &'a str>>(line: &'a str, lines: &mut Lines<'a, I>) -> Result<Unit, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "probe" => Ok(Unit::Query(vec![PROBE.to_owned()])),
        "query" => Ok(Unit::Query(rest.split(" ;; ").map(str::to_owned).collect())),
        "call" => Ok(Unit::Call(rest.parse().map_err(|_| format!("a number, not {rest:?}"))?)),
        "copy" | "copy-as" => {
            let mut parts = Vec::new();
            let fails = loop {
                match lines.next() {
                    Some("done") => break false,
                    Some("fail") => break true,
                    Some("sync") => parts.push(CopyPart::Sync),
                    Some("flush") => parts.push(CopyPart::Flush),
                    Some(line) if line.starts_with("line ") => parts.push(CopyPart::Line(line[5..].to_owned())),
                    other => return Err(format!("a copy ends with done or fail, not with {other:?}")),
                }
            };
            let (name, sql) = match rest.split_once(' ').filter(|_| word == "copy-as") {
                Some((name, sql)) => (Some(name.to_owned()), sql),
                None => (None, rest),
            };
            Ok(Unit::Copy { sql: sql.to_owned(), name, parts, fails })
        }
        "extended" => {
            let mut requests = Vec::new();
            while let Some(request) = lines.peek().and_then(|line| request(line)) {
                requests.push(request);
                lines.next();
            }
            Ok(Unit::Extended(requests))
        }
        _ => Err(format!("{line:?} is no unit")),
    }
}

fn request(line: &str) -> Option<Request> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = |at: usize| words.get(at).map(|word| if *word == "-" { String::new() } else { (*word).to_owned() });
    let value = |word: &&str| if *word == "null" { None } else { Some((*word).to_owned()) };
    Some(match *words.first()? {
        "parse" => Request::Parse { name: name(1)?, sql: line.splitn(3, ' ').nth(2)?.to_owned() },
        "bind" => {
            Request::Bind { portal: name(1)?, statement: name(2)?, values: words[3..].iter().map(value).collect() }
        }
        "describe-statement" => Request::DescribeStatement(name(1)?),
        "describe-portal" => Request::DescribePortal(name(1)?),
        "execute" => Request::Execute { portal: name(1)?, rows: words.get(2)?.parse().ok()? },
        "close-statement" => Request::CloseStatement(name(1)?),
        "close-portal" => Request::ClosePortal(name(1)?),
        "flush" => Request::Flush,
        _ => return None,
    })
}

/// A name as it is written in a script.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "-" } else { self.0 })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "# {line}")?;
        }
        if self.user != User::Report {
            writeln!(f, "user {}", self.user.name())?;
        }
        for transaction in &self.transactions {
            writeln!(f, "transaction")?;
            for step in &transaction.steps {
                write!(f, "{step}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for injection in &self.injections {
            writeln!(f, "! {injection}")?;
        }
        write!(f, "{}", self.unit)?;
        if self.ahead { writeln!(f, "ahead") } else { Ok(()) }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Query(statements) if *statements == [PROBE] => writeln!(f, "probe"),
            Unit::Query(statements) => writeln!(f, "query {}", statements.join(" ;; ")),
            Unit::Extended(requests) => {
                writeln!(f, "extended")?;
                requests.iter().try_for_each(|request| writeln!(f, "  {request}"))
            }
            Unit::Copy { sql, name, parts, fails } => {
                match name {
                    Some(name) => writeln!(f, "copy-as {name} {sql}")?,
                    None => writeln!(f, "copy {sql}")?,
                }
                parts.iter().try_for_each(|part| match part {
                    CopyPart::Line(line) => writeln!(f, "  line {line}"),
                    CopyPart::Sync => writeln!(f, "  sync"),
                    CopyPart::Flush => writeln!(f, "  flush"),
                })?;
                writeln!(f, "  {}", if *fails { "fail" } else { "done" })
            }
            Unit::Call(value) => writeln!(f, "call {value}"),
            Unit::Leave(None) => writeln!(f, "leave"),
            Unit::Leave(Some(unit)) => write!(f, "leave-after {unit}"),
            Unit::Finish(unit) => write!(f, "finish-after {unit}"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Parse { name, sql } => write!(f, "parse {} {sql}", Name(name)),
            Request::Bind { portal, statement, values } => {
                write!(f, "bind {} {}", Name(portal), Name(statement))?;
                values.iter().try_for_each(|value| write!(f, " {}", value.as_deref().unwrap_or("null")))
            }
            Request::DescribeStatement(name) => write!(f, "describe-statement {}", Name(name)),
            Request::DescribePortal(name) => write!(f, "describe-portal {}", Name(name)),
            Request::Execute { portal, rows } => write!(f, "execute {} {rows}", Name(portal)),
            Request::CloseStatement(name) => write!(f, "close-statement {}", Name(name)),
            Request::ClosePortal(name) => write!(f, "close-portal {}", Name(name)),
            Request::Flush => write!(f, "flush"),
        }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Injection::Idle => write!(f, "idle"),
            Injection::Cancel { at, after, settles } => write!(f, "cancel {at} after {after}{settles}"),
            Injection::Missed { after, settles } => write!(f, "missed after {after}{settles}"),
            Injection::Abort { at, after } => write!(f, "abort {at} after {after}"),
            Injection::Change { account } => write!(f, "change {account}"),
            Injection::Replace { version } => write!(f, "replace {version}"),
            Injection::ClientCancel { at } => write!(f, "client-cancel {at}"),
            Injection::ClientCancelMissed => write!(f, "client-cancel missed"),
        }
    }
}

impl fmt::Display for Settles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Settles::Early => " early",
            Settles::Before => "",
            Settles::After => " late",
        })
    }
}
