//! A network between processes that records what goes over it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Both directions of each connection so far.
type Recorded = Arc<Mutex<Vec<Vec<u8>>>>;

/// Passes connections on to one server.
pub struct RecordingProxy {
    /// Where it listens.
    pub address: String,
    recorded: Recorded,
}

impl RecordingProxy {
    /// A proxy before the server at this address. Its threads end with their connections, and with the test.
    pub fn before(server: &str) -> RecordingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, recorded) = (server.to_owned(), Recorded::default());
        let records = Arc::clone(&recorded);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that has ended is for the client to find out.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
                for (from, to) in ways {
                    let (from, to, records) = (from.unwrap(), to.unwrap(), Arc::clone(&records));
                    thread::spawn(move || pass_on(from, to, &records));
                }
            }
        });
        RecordingProxy { address, recorded }
    }

    /// Whether each direction of each connection began with a record of TLS; `None` if there was no connection.
    pub fn is_encrypted(&self) -> Option<bool> {
        let recorded = self.recorded.lock().unwrap();
        let is_record = |bytes: &Vec<u8>| matches!(bytes.first(), None | Some(0x14..=0x17));
        (!recorded.is_empty()).then(|| recorded.iter().all(is_record))
    }

    /// How many bytes went over it.
    pub fn bytes(&self) -> u64 {
        self.recorded.lock().unwrap().iter().map(|bytes| bytes.len() as u64).sum()
    }

    /// Whether these bytes went over it.
    pub fn has_seen(&self, wanted: &[u8]) -> bool {
        let is_in = |bytes: &Vec<u8>| bytes.windows(wanted.len()).any(|window| window == wanted);
        self.recorded.lock().unwrap().iter().any(is_in)
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, records: &Recorded) {
    let number = {
        let mut records = records.lock().unwrap();
        records.push(Vec::new());
        records.len() - 1
    };
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        records.lock().unwrap()[number].extend_from_slice(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The other side may have closed it before.
    let _ = to.shutdown(Shutdown::Write);
}
