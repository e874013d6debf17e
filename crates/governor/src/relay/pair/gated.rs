//! Clients of a pool that the governor lets in itself, and connections that it opens without a client.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_pg::scram::binding::end_point;

use super::dial::{Dial, Purpose};
use super::pooled::made_up_key;
use super::{Conduct, Moving, Pair, Phase};
use crate::credentials::{
    FailureKind, Found, Gate, Known, LoginFailure, Origin, Refused, ServerCredentials, ServerLogin, ServerSession,
    Step, Terms,
};
use crate::governor::Repeated;
use crate::pool::connection::PooledConnection;
use crate::pool::pools::{Means, Place, PoolKey, Welcome};
use crate::pool::settings::{APPLICATION_NAME, Reports};
use crate::relay::WorkerInbox;
use crate::relay::context::{Context, Lending, Note, Unwelcome};
use crate::relay::listener::Peer;
use crate::relay::login::key_message;
use crate::relay::refusal::Refusal;
use crate::relay::socket::Socket;
use crate::session::{Reported, parameter_status, ready_for_query};
use crate::settings::{CpuShare, Settings};
use crate::statistics::count;

/// A client that the governor lets in itself.
#[derive(Debug, Default)]
pub(super) struct Gated {
    /// What asks the client for its proof, once it is known what to compare it with.
    gate: Option<Gate>,
    origin: Option<Origin>,
    /// The client has proved who it is, and waits for what its server says of itself.
    is_in: bool,
}

impl Gated {
    /// Whether bytes of the client are accepted.
    pub(super) fn asks(&self) -> bool {
        self.gate.is_some() && !self.is_in
    }
}

/// A connection that is opened without a client.
#[derive(Debug)]
pub(super) struct Opening {
    key: PoolKey,
    means: Arc<Means>,
    began: Instant,
    login: Option<ServerLogin>,
}

impl Pair {
    /// Asks a client of a pool for a proof, if the governor knows passwords; returns whether it does.
    pub(super) fn begin_gate(&mut self, settings: &Settings, context: &mut Context, now: Instant) -> bool {
        let Some(card) = self.card.clone().filter(|_| settings.login.has_source()) else { return false };
        let (id, WorkerInbox { notes, waker }) = (self.id, context.inbox.clone());
        let answer = move |known: Known| {
            // A worker that has ended has no clients.
            if notes.send(Note::Known(id, known)).is_ok() {
                let _ = waker.wake();
            }
        };
        self.phase = Phase::Gate(Box::default());
        let governor = Arc::clone(&context.governor);
        if let Found::Now(known) = governor.credentials.find(&settings.login, &card.login.user, now, Box::new(answer)) {
            self.on_known(known, context, now);
        }
        true
    }

    /// It is known what the client's proof is compared with.
    pub(in crate::relay) fn on_known(&mut self, known: Known, context: &mut Context, now: Instant) {
        let has_shown_its_name = self.has_shown_its_name();
        let (Phase::Gate(gated), Some(client), Some(card)) = (&mut self.phase, &mut self.client, &self.card) else {
            return;
        };
        gated.origin = Some(known.origin);
        let mut out = Vec::new();
        if has_shown_its_name {
            let secret = Some(&known.secret).filter(|_| known.origin != Origin::Nobody);
            let credentials = Gate::by_certificate(secret, &mut out);
            client.send(&out, &mut context.spare);
            return self.on_proved(credentials, context, now);
        }
        let settings = context.governor.settings();
        let own = settings.listen.certificate.as_ref().filter(|_| client.wire().is_encrypted());
        let bound_to = own.and_then(|own| end_point(own));
        gated.gate = Some(Gate::new(&card.login.user, &known, bound_to.as_deref(), &mut out));
        client.send(&out, &mut context.spare);
        // What has arrived meanwhile is offered again.
        client.is_blocked = !client.held.is_empty();
    }

    /// Bytes of a client that is to prove who it is; returns how many are taken.
    pub(super) fn on_gate(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        let (Phase::Gate(gated), Some(client), Some(card)) = (&mut self.phase, &mut self.client, &self.card) else {
            return bytes.len();
        };
        let Some(gate) = gated.gate.as_mut().filter(|_| !gated.is_in) else { return 0 };
        let mut out = Vec::new();
        let (taken, step) = gate.on_client(bytes, &mut out);
        client.send(&out, &mut context.spare);
        match step {
            Step::More => return taken,
            Step::In(credentials) => self.on_proved(credentials, context, now),
            Step::Refused(why) => {
                let user = &card.login.user;
                if let (Refused::Proof(_), Some(Origin::Server)) = (&why, gated.origin) {
                    context.governor.credentials.forget(user, now);
                }
                if context.governor.logs(Repeated::ClientRefused) {
                    tracing::info!(peer = %self.peer, user, "client refused: {why:?}");
                }
                count(&context.governor.statistics.clients_refused);
                self.close(context, now);
            }
        }
        taken
    }

    /// The client is who it says.
    fn on_proved(&mut self, credentials: ServerCredentials, context: &mut Context, now: Instant) {
        let Some(key) = self.pool_key() else { return };
        let (Phase::Gate(gated), Some(card)) = (&mut self.phase, &self.card) else { return };
        gated.is_in = true;
        let of_pool = |name: &str| !name.eq_ignore_ascii_case("plimsoll.class");
        let parameters = card.startup.get().into_iter().flatten().filter(|(name, _)| of_pool(name)).cloned();
        let means = Means { credentials, parameters: parameters.collect() };
        let place = Place { worker: context.worker, pair: self.id };
        let settings = context.governor.settings();
        let of = (&*settings, context.governor.generation());
        match context.governor.pools.admits(&key, means, place, of) {
            Some(welcome) => self.on_welcome(Ok(welcome), context, now),
            None => context.lending.push_back(Lending::Opens(key)),
        }
    }

    /// What the client's server says of itself is known, or that it has none.
    pub(in crate::relay) fn on_welcome(
        &mut self,
        welcome: Result<Welcome, Unwelcome>,
        context: &mut Context,
        now: Instant,
    ) {
        let (Phase::Gate(gated), Some(client), Some(card)) = (&self.phase, &mut self.client, &self.card) else {
            return;
        };
        if !gated.is_in {
            return;
        }
        let Welcome { reported, reports } = match welcome {
            Ok(welcome) => welcome,
            Err((_, Some(error))) => {
                client.send(&error, &mut context.spare);
                return self.close(context, now);
            }
            Err((why, None)) => {
                let refusal = Refusal::new("08001", format!("no server connection can be opened: {why}"));
                return self.refuse(&refusal, context, now);
            }
        };
        let mut reports: Reports = (*reports).clone();
        // As the server does (`pg_clean_ascii`).
        let clean = |byte: u8| if (32..127).contains(&byte) { byte } else { b'?' };
        let application: Box<[u8]> = card.login.application_name.bytes().map(clean).collect();
        reports.insert(APPLICATION_NAME.into(), application);
        let own = made_up_key();
        let mut out: Vec<u8> = reports
            .iter()
            .flat_map(|(name, value)| parameter_status(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value)))
            .collect();
        out.extend(key_message(&own));
        out.extend(ready_for_query(crate::session::Status::Idle));
        client.send(&out, &mut context.spare);
        self.on_login((Conduct::Pooled, Some(own)), (None, reported, reports), context, now);
    }

    /// A connection that is opened for a pool.
    pub(in crate::relay) fn opening(
        id: u64,
        key: PoolKey,
        means: Arc<Means>,
        context: &mut Context,
        now: Instant,
    ) -> Self {
        let settings = context.governor.settings();
        let deadline = Some(now + settings.listen.login_timeout);
        let opening = Box::new(Opening { key, means, began: now, login: None });
        let mut pair = Pair { deadline, opening: Some(opening), ..Pair::empty(id, Peer::Local) };
        pair.dial(Dial::new(settings, Purpose::Pool, now), context, now);
        pair
    }

    /// The server of a connection that is opened is there: the login begins.
    pub(super) fn log_in(&mut self, context: &mut Context) {
        let (Some(opening), Some(server)) = (&mut self.opening, &mut self.server) else { return };
        let is_private = server.wire().is_encrypted() || matches!(server.wire().socket(), Socket::Unix(_));
        // The client whose credentials these are has proved who it is.
        let terms = Terms { is_private, must_be_asked: false };
        let PoolKey { user, database, .. } = &opening.key;
        let parameters: Vec<(&str, &str)> =
            opening.means.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut out = Vec::new();
        match ServerLogin::new(user, database, &parameters, opening.means.credentials.clone(), terms, &mut out) {
            Ok(login) => {
                opening.login = Some(login);
                server.send(&out, &mut context.spare);
                self.phase = Phase::OwnLogin;
            }
            Err(error) => self.fails_to_open(error.to_string(), None, context),
        }
    }

    /// Bytes of a server at which the governor logs in; returns how many are taken.
    pub(super) fn on_own_login(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        let (Some(opening), Some(server)) = (&mut self.opening, &mut self.server) else { return bytes.len() };
        let Some(login) = &mut opening.login else { return bytes.len() };
        let mut out = Vec::new();
        let stepped = login.on_server(bytes, &mut out);
        server.send(&out, &mut context.spare);
        match stepped {
            Ok(stepped) => {
                if let Some(session) = stepped.session {
                    self.on_opened(session, context);
                }
                stepped.taken
            }
            Err(LoginFailure { kind, message, error }) => {
                if kind == FailureKind::Secret {
                    context.governor.credentials.forget(&opening.key.user, now);
                }
                self.fails_to_open(message, error, context);
                bytes.len()
            }
        }
    }

    fn on_opened(&mut self, session: ServerSession, context: &mut Context) {
        let (Some(opening), Some(side)) = (self.opening.take(), self.server.take()) else { return };
        self.phase = Phase::Over;
        let mut reported = Reported::default();
        for (name, value) in &session.parameters {
            reported.on_parameter(&[name, &b"\0"[..], value, b"\0"].concat());
        }
        let reports: Reports =
            session.parameters.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        // A pooler behind this one may send no key: then nothing can be cancelled.
        let key = session.key.unwrap_or_else(made_up_key);
        let connection = Box::new(PooledConnection::new(key, reported, Arc::new(reports), opening.began));
        let moving = Moving { side, connection, key: opening.key, share: CpuShare::Untouched };
        context.lending.push_back(Lending::Joins(moving, None));
    }

    /// The connection cannot be opened.
    pub(super) fn fails_to_open(&mut self, why: String, error: Option<Box<[u8]>>, context: &mut Context) {
        if let Some(opening) = self.opening.take() {
            let Opening { key, began, .. } = *opening;
            context.lending.push_back(Lending::OpenFailed { key, began, why, error });
            self.phase = Phase::Over;
        }
    }
}
