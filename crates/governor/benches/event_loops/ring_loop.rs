//! Sessions on io_uring: one thread, a buffer for each socket, one call of the system for all that is ready.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};
use plimsoll_governor::session::Session;

use crate::entrance::{self, Kept};

/// What a socket is read into.
const BUFFER_BYTES: usize = 16 << 10;

/// Above this many bytes that a peer has not taken, the other is not read.
const PENDING_MAX: usize = 256 << 10;

/// The bell's number; sockets have theirs below it.
const BELL: u64 = u64::MAX;

/// Do not raise a signal if the peer has gone, and do not come back before all was sent.
const SEND_FLAGS: i32 = 0x4000 | 0x100;

/// One socket of a session.
struct End {
    stream: TcpStream,
    buffer: Box<[u8]>,
    held: Vec<u8>,
    /// What the kernel is sending.
    sending: Vec<u8>,
    /// What is to be sent then.
    pending: Vec<u8>,
    is_receiving: bool,
}

struct Pair {
    session: Session,
    /// The client, and the server.
    ends: [End; 2],
    is_over: bool,
}

/// Serves until the process ends.
pub fn serve(server: SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    entrance::announce(listener.local_addr().unwrap());
    let governor = entrance::governor(server);
    let (sender, entered) = mpsc::channel();
    let (mut rope, bell) = UnixStream::pair().unwrap();
    // Logins are no part of what is measured; they are done by a thread that may wait.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if let Some((server, session)) = entrance::let_in(&governor, &mut client, server) {
                sender.send((client, server, session)).unwrap();
                rope.write_all(&[1]).unwrap();
            }
        }
    });
    let ring = IoUring::builder().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(1024).unwrap();
    Loop { ring, pairs: Vec::new(), kept: Kept::default() }.run(&entered, bell);
}

struct Loop {
    ring: IoUring,
    pairs: Vec<Option<Pair>>,
    kept: Kept,
}

impl Loop {
    fn run(mut self, entered: &mpsc::Receiver<(TcpStream, TcpStream, Session)>, mut bell: UnixStream) {
        let watch = |bell: &UnixStream| opcode::PollAdd::new(types::Fd(bell.as_raw_fd()), 1).build().user_data(BELL);
        self.push(&watch(&bell));
        let mut done = Vec::new();
        loop {
            self.ring.submit_and_wait(1).unwrap();
            done.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            for (number, result) in done.drain(..) {
                if number == BELL {
                    let _ = bell.read(&mut [0]).unwrap();
                    let (client, server, session) = entered.recv().unwrap();
                    self.add(client, server, session);
                    self.push(&watch(&bell));
                } else {
                    self.on_done(number, result);
                }
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: every entry points to a buffer of an `End`, which stays where it is until no operation on it is
            // under way: `reap` drops a pair only then, and a buffer that is being sent or received into is not touched.
            match unsafe { self.ring.submission().push(entry) } {
                Ok(()) => return,
                Err(_) => drop(self.ring.submit().unwrap()),
            }
        }
    }

    fn add(&mut self, client: TcpStream, server: TcpStream, session: Session) {
        let end = |stream| End {
            stream,
            buffer: vec![0; BUFFER_BYTES].into(),
            held: Vec::new(),
            sending: Vec::new(),
            pending: Vec::new(),
            is_receiving: false,
        };
        let pair = Pair { session, ends: [end(client), end(server)], is_over: false };
        let place = self.pairs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        self.pairs[place] = Some(pair);
        self.go_on(place);
    }

    /// A number is a pair's place, which end, and whether it was sent.
    fn on_done(&mut self, number: u64, result: i32) {
        let (place, end, was_sent) = ((number >> 2) as usize, (number >> 1 & 1) as usize, number & 1 == 1);
        let pair = self.pairs[place].as_mut().expect("an operation keeps its pair");
        if was_sent {
            pair.ends[end].sending.clear();
            pair.is_over |= result < 0;
        } else {
            pair.ends[end].is_receiving = false;
            if result <= 0 {
                pair.is_over = true;
            } else if !pair.is_over {
                let Pair { session, ends, is_over } = pair;
                let End { buffer, held, .. } = &mut ends[end];
                *is_over = !entrance::offer(session, end == 0, &buffer[..result as usize], held, &mut self.kept);
                for (end, kept) in ends.iter_mut().zip([&mut self.kept.client, &mut self.kept.server]) {
                    end.pending.append(kept);
                }
            }
        }
        self.go_on(place);
    }

    /// Asks for what can be done.
    fn go_on(&mut self, place: usize) {
        let pair = self.pairs[place].as_mut().expect("it is there");
        if pair.is_over {
            return self.reap(place);
        }
        let mut entries = [None, None, None, None];
        for end in 0..2 {
            let has_room = pair.ends[1 - end].pending.len() <= PENDING_MAX;
            let takes = end == 1 || pair.session.takes_client_bytes();
            let End { stream, buffer, sending, pending, is_receiving, .. } = &mut pair.ends[end];
            let (fd, number) = (types::Fd(stream.as_raw_fd()), (place << 2 | end << 1) as u64);
            if sending.is_empty() && !pending.is_empty() {
                std::mem::swap(sending, pending);
                let send = opcode::Send::new(fd, sending.as_ptr(), sending.len() as u32).flags(SEND_FLAGS);
                entries[end] = Some(send.build().user_data(number | 1));
            }
            if !*is_receiving && has_room && takes {
                *is_receiving = true;
                let receive = opcode::Recv::new(fd, buffer.as_mut_ptr(), buffer.len() as u32);
                entries[2 + end] = Some(receive.build().user_data(number));
            }
        }
        entries.into_iter().flatten().for_each(|entry| self.push(&entry));
    }

    /// Ends a pair as soon as nothing is under way.
    fn reap(&mut self, place: usize) {
        let pair = self.pairs[place].as_mut().expect("it is there");
        for end in &pair.ends {
            let _ = end.stream.shutdown(std::net::Shutdown::Both);
        }
        if pair.ends.iter().all(|end| !end.is_receiving && end.sending.is_empty()) {
            pair.session.close(Instant::now());
            self.pairs[place] = None;
        }
    }
}

/// Sessions cross threads once, on their way in.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Arc<plimsoll_governor::governor::Governor>>();
    is_send::<Session>();
};
