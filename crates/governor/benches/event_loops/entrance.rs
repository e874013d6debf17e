//! What all loops have in common: the governor, and letting a client in.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use plimsoll_governor::governor::Governor;
use plimsoll_governor::registry::{Phase, SessionCard};
use plimsoll_governor::relay::{self, Address};
use plimsoll_governor::session::{Outbox, Reported, Session};
use plimsoll_governor::settings::*;
use plimsoll_policy::{
    ClassIndex, ClassLimits, ClassRules, ClassTerms, Login, PreemptionPolicy, Priority, SpinRule, StarvationBound,
};
use plimsoll_postgres::url::ServerUrl;

/// A governor in front of that server: two classes, nobody limited, nobody preempted.
pub fn governor(server: SocketAddr, event_loop: EventLoop) -> Arc<Governor> {
    let class = |name: &str, priority| ClassSettings {
        name: name.to_owned(),
        limits: ClassLimits { priority, mpl: None, queue_max: None, timeout: None },
        settable_by: Vec::new(),
        idle_in_transaction_timeout: None,
        cpu: CpuShare::Untouched,
        disk: DiskUse::Untouched,
        control_groups: Arc::default(),
        preemptible: priority == Priority::LOW,
        replay: true,
        retries: true,
        retry_aborted: 0,
        workers_max: None,
        is_paused: false,
        target: None,
        mpl_min: None,
        held: Held::default(),
    };
    let classes = vec![class("high", Priority::HIGH), class("low", Priority::LOW)];
    let terms = classes.iter().map(|class| ClassTerms {
        name: class.name.clone(),
        priority: class.limits.priority,
        settable_by: Vec::new(),
    });
    let settings = Settings {
        is_beside: false,
        listen: Listen {
            addresses: vec!["127.0.0.1:0".parse().unwrap()],
            socket_folders: Vec::new(),
            clients_max: 1000,
            logins_max_per_address: 1000,
            login_timeout: std::time::Duration::from_secs(30),
            handover: None,
            proxy_protocol_from: Vec::new(),
            workers: 1,
            event_loop,
            spin: SpinRule::Off,
            tls: None,
            certificate: None,
            tls_required: false,
        },
        server: ServerUrl::parse_in(&format!("postgres://nobody@{server}/none?sslmode=disable"), &|_| None).unwrap(),
        passing_on: PassingOn { trust_clients: true, announce_class: false, proxy_protocol: false },
        control: None,
        rules: ClassRules::new(terms.collect(), Vec::new(), ClassIndex(1)),
        classes,
        total_mpl: None,
        auto_mpl: false,
        preemption: Preemption {
            policy: PreemptionPolicy::parse("never").unwrap(),
            threshold: std::time::Duration::from_millis(2),
            look_interval: std::time::Duration::from_millis(2),
            weigh: true,
            idle_counts_as_waiting: true,
            bound: StarvationBound::default(),
            replay_bytes_max: 1 << 20,
            replay_functions: Vec::new(),
        },
        cpu: Cpu { shares: false, inheritance: false },
        disk: DiskLimits { limits: false, floor_percent: 50 },
        admin: Admin { database: "console".to_owned(), users: Vec::new() },
        http: None,
        break_glass: Vec::new(),
        log: Log { is_json: false, level: tracing::Level::INFO },
    };
    Arc::new(Governor::new(settings, Instant::now()))
}

/// Says where clients come in, and ends when nobody reads that any more.
pub fn announce(address: SocketAddr) {
    println!("{address}");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

/// The relay as it is.
pub fn serve_with_the_relay(server: SocketAddr, event_loop: EventLoop) {
    let running = relay::start(governor(server, event_loop)).unwrap();
    let Some(Address::Tcp(address)) = running.addresses().first() else { panic!("no address") };
    announce(*address);
    running.join();
}

/// A client's session with the server, which lets everybody in.
pub fn let_in(governor: &Arc<Governor>, client: &mut TcpStream, server: SocketAddr) -> Option<(TcpStream, Session)> {
    let mut server = TcpStream::connect(server).ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let mut head = [0; 4];
    client.read_exact(&mut head).ok()?;
    let mut packet = vec![0; u32::from_be_bytes(head).checked_sub(4)? as usize];
    client.read_exact(&mut packet).ok()?;
    if packet == [0x04, 0xd2, 0x16, 0x2f] {
        client.write_all(b"N").ok()?;
        return let_in(governor, client, server.peer_addr().ok()?);
    }
    server.write_all(&[&head[..], &packet].concat()).ok()?;
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head).ok()?;
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        server.read_exact(&mut body).ok()?;
        client.write_all(&[&head[..], &body].concat()).ok()?;
        if head[0] == b'Z' {
            break;
        }
    }
    let (now, login) = (Instant::now(), Login::default());
    let class = governor.settings().rules.of_login(&login).class;
    let card = SessionCard::new(governor.registry.next_id(), 0, "bench".to_owned(), login, class, now);
    card.state().phase = Phase::Idle;
    let card = Arc::new(card);
    governor.registry.insert(Arc::clone(&card));
    Some((server, Session::new(Arc::clone(governor), card, Reported::default(), now)))
}

/// What a step of a session puts out.
#[derive(Debug, Default)]
pub struct Kept {
    pub server: Vec<u8>,
    pub client: Vec<u8>,
}

impl Outbox for Kept {
    fn to_server(&mut self, bytes: &[u8]) {
        self.server.extend_from_slice(bytes);
    }

    fn to_client(&mut self, bytes: &[u8]) {
        self.client.extend_from_slice(bytes);
    }
}

/// Offers bytes to a session, after those that it has left; false if it has had enough.
pub fn offer(session: &mut Session, is_client: bool, bytes: &[u8], held: &mut Vec<u8>, kept: &mut Kept) -> bool {
    let now = Instant::now();
    let mut take = |bytes: &[u8]| match is_client {
        true => session.on_client(bytes, now, kept),
        false => session.on_server(bytes, now, kept),
    };
    if held.is_empty() {
        let Ok(taken) = take(bytes) else { return false };
        held.extend_from_slice(&bytes[taken..]);
    } else {
        held.extend_from_slice(bytes);
        let Ok(taken) = take(held) else { return false };
        held.drain(..taken);
    }
    !session.has_ended()
}
