//! A malicious server, or a peer that is not a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use postgres_protocol::message::frontend;

use super::super::client::{Client, message};
use super::super::governed::Governed;
use super::GROWTH_MAX;

/// The server's message to a client that has named its user, and whether it then disconnects.
#[derive(Clone)]
struct Script {
    says: Vec<u8>,
    hangs_up: bool,
}

/// A server that follows the same script with every client.
fn serve(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = script.clone();
            thread::spawn(move || converse(stream.unwrap(), &script));
        }
    });
    address
}

fn converse(mut stream: TcpStream, script: &Script) {
    let mut chunk = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The first message fits one read, because the governor sends it whole. A request for encryption is declined.
    while let Ok(length) = stream.read(&mut chunk) {
        if length == 0 {
            return;
        }
        let is_question = chunk[4..8] == 80_877_103_u32.to_be_bytes() || chunk[4..8] == 80_877_104_u32.to_be_bytes();
        if !is_question {
            break;
        }
        let _ = stream.write_all(b"N");
    }
    let _ = stream.write_all(&script.says);
    if script.hangs_up {
        return;
    }
    while stream.read(&mut chunk).is_ok_and(|length| length > 0) {}
}

/// All messages by which a server admits a client.
fn welcome() -> Vec<u8> {
    [message(b'R', &[0; 4]), message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]), message(b'Z', b"I")].concat()
}

fn check(governed: &mut Governed, what: &str, resident_bytes: u64) {
    let mut client = Client::bare(governed.address).unwrap();
    client.write(|out| frontend::startup_message([("user", "low"), ("database", "any")], out)).unwrap();
    // A client that is admitted sends a query that is not answered, and disconnects.
    let _ = client.send_query("SELECT 1");
    let _ = client.close_sending();
    assert!(client.is_closed(), "{what}: the client hangs");
    governed.assert_alive();
    let growth = governed.resident_bytes().saturating_sub(resident_bytes);
    assert!(growth < GROWTH_MAX, "{what}: the governor grew by {growth} bytes");
}

#[test]
fn servers_may_say_anything() {
    let sasl = |code: u8, rest: &[u8]| message(b'R', &[&[0, 0, 0, code][..], rest].concat());
    let error = |body: &[u8]| message(b'E', body);
    let nonce = [b"r=".as_slice(), &b"n".repeat(5_000_000), b",s=QUJD,i=4096"].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", vec![]),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("zeros", vec![0; 10_000]),
        ("ones", vec![0xff; 10_000]),
        ("length 0", b"R\0\0\0\0".to_vec()),
        ("length 3", b"R\0\0\0\x03".to_vec()),
        ("length 2 GB", b"R\x7f\xff\xff\xff".to_vec()),
        ("negative length", b"R\xff\xff\xff\xf0".to_vec()),
        ("an error without fields", error(b"\0")),
        ("an error without an end", error(b"SFATAL\0Mno code")),
        ("an error without SQLSTATE", error(b"SFATAL\0VFATAL\0Mno code\0\0")),
        ("an error with a short SQLSTATE", error(b"SFATAL\0C5\0Mcode\0\0")),
        ("an error of 5 MB", error(&[b"SFATAL\0M".as_slice(), &b"m".repeat(5_000_000), b"\0\0"].concat())),
        ("authentication without code", message(b'R', b"")),
        ("an unknown authentication", sasl(99, b"")),
        ("no mechanisms", sasl(10, b"\0")),
        ("mechanisms without an end", sasl(10, &b"SCRAM-SHA-256".repeat(500))),
        ("a nonce of 5 MB", [sasl(10, b"SCRAM-SHA-256\0\0"), sasl(11, &nonce)].concat()),
        ("final at once", sasl(12, b"v=AAAA")),
        ("ready before anybody is let in", message(b'Z', b"I")),
        ("ready without a state", [welcome(), message(b'Z', b"")].concat()),
        ("ready in no known state", [welcome(), message(b'Z', b"?")].concat()),
        ("ready again and again", [welcome(), message(b'Z', b"I").repeat(1000)].concat()),
        ("a key without bytes", [message(b'R', &[0; 4]), message(b'K', b""), message(b'Z', b"I")].concat()),
        ("a key of 3 bytes", [message(b'R', &[0; 4]), message(b'K', b"abc"), message(b'Z', b"I")].concat()),
        ("a key of 256 bytes", [message(b'R', &[0; 4]), message(b'K', &[7; 260]), message(b'Z', b"I")].concat()),
        ("a key of 100 kB", [message(b'R', &[0; 4]), message(b'K', &[7; 100_000]), message(b'Z', b"I")].concat()),
        ("no key", [message(b'R', &[0; 4]), message(b'Z', b"I")].concat()),
        ("a parameter without value", [message(b'R', &[0; 4]), message(b'S', b"a"), message(b'Z', b"I")].concat()),
        ("many parameters", [message(b'R', &[0; 4]), message(b'S', b"a\0b\0").repeat(100_000)].concat()),
        ("notices without end", message(b'N', b"SNOTICE\0C00000\0Mhear\0\0").repeat(100_000)),
        ("a question back", message(b'v', b"\0\x03\0\0\0\0\0\0")),
        ("nonsense after the welcome", [welcome(), vec![0xfe; 10_000]].concat()),
        ("length 0 after the welcome", [welcome(), b"T\0\0\0\0".to_vec()].concat()),
        ("negative length after the welcome", [welcome(), b"Z\xff\xff\xff\xff".to_vec()].concat()),
        ("an error without fields after the welcome", [welcome(), error(b"")].concat()),
        ("copy both ways", [welcome(), message(b'W', b"\0\0\0"), message(b'd', b"x")].concat()),
    ];
    for (what, says) in cases {
        for hangs_up in [true, false] {
            let address = serve(Script { says: says.clone(), hangs_up });
            let server = format!("postgres://{address}/?sslmode=disable");
            let mut governed = Governed::start_at(&server, "", "login_timeout = \"500ms\"", "mpl = 4");
            let resident_bytes = governed.resident_bytes();
            for _ in 0..2 {
                check(&mut governed, what, resident_bytes);
            }
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("postgres://{nobody}/?sslmode=disable");
    let mut governed = Governed::start_at(&server, "", "", "mpl = 4");
    for _ in 0..50 {
        let failure = Client::connect(governed.address, "low", "any").expect_err("there is no server");
        assert_eq!(failure.state(), Some("08001"), "{failure}");
    }
    governed.assert_alive();
}
