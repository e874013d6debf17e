//! The PROXY protocol, version 2: a header before all other bytes that contains the client's address.
//!
//! Sent to servers that support it, accepted from proxies that the settings list. Only its addresses are used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, command, family, length.
const HEAD_BYTES: usize = 16;

/// The longest header that is accepted; the fields that proxies add to the addresses are short.
const LENGTH_MAX: usize = 2048;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNKNOWN: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// A header with the two addresses of a client's connection; without them, one that says that the connection is the
/// sender's own.
pub(super) fn header(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let Some((client, local)) = ends else {
        header.extend([LOCAL, UNKNOWN, 0, 0]);
        return header;
    };
    let (family, addresses) = match (client.ip().to_canonical(), local.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(local)) => (TCP4, [client.octets(), local.octets()].concat()),
        (client, local) => (TCP6, [as_v6(client).octets(), as_v6(local).octets()].concat()),
    };
    header.extend([PROXY, family]);
    header.extend((addresses.len() as u16 + 4).to_be_bytes());
    header.extend(addresses);
    header.extend(client.port().to_be_bytes());
    header.extend(local.port().to_be_bytes());
    header
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The client's address, if the header has one.
    pub(super) client: Option<SocketAddr>,
    pub(super) length: usize,
}

/// The header at the beginning, `None` while it is incomplete; the error describes the defect.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Header>, String> {
    let signature = SIGNATURE.len().min(bytes.len());
    if bytes[..signature] != SIGNATURE[..signature] {
        return Err("the connection does not begin with a header of the PROXY protocol, version 2".to_owned());
    }
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let (command, family) = (head[12], head[13]);
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if !matches!(command, LOCAL | PROXY) {
        return Err(format!("a header of the PROXY protocol with the version and command {command:#04x}"));
    }
    if length > LENGTH_MAX {
        return Err(format!("a header of the PROXY protocol with {length} bytes; {LENGTH_MAX} are taken"));
    }
    let Some(body) = bytes.get(HEAD_BYTES..HEAD_BYTES + length) else { return Ok(None) };
    let client = if command == PROXY { client(family, body)? } else { None };
    Ok(Some(Header { client, length: HEAD_BYTES + length }))
}

fn client(family: u8, body: &[u8]) -> Result<Option<SocketAddr>, String> {
    let port = |at: usize| body.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let client = match family {
        TCP4 => body.first_chunk::<4>().map(|octets| IpAddr::from(Ipv4Addr::from(*octets))).zip(port(8)),
        TCP6 => body.first_chunk::<16>().map(|octets| IpAddr::from(Ipv6Addr::from(*octets))).zip(port(32)),
        // Unix sockets, or a proxy that does not know the addresses.
        _ => return Ok(None),
    };
    let client =
        client.ok_or_else(|| "a header of the PROXY protocol that is too short for its addresses".to_owned())?;
    Ok(Some(SocketAddr::from(client)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        for (client, local) in
            [("10.1.2.3:4567", "10.0.0.1:6432"), ("[2001:db8::1]:4567", "[::1]:6432"), ("10.1.2.3:1", "[::1]:2")]
        {
            let (client, local): (SocketAddr, SocketAddr) = (client.parse().unwrap(), local.parse().unwrap());
            let header = header(Some((client, local)));
            for end in 0..header.len() {
                assert_eq!(read(&header[..end]), Ok(None));
            }
            let found = read(&[&header[..], b"rest"].concat()).unwrap().unwrap();
            assert_eq!(found.length, header.len());
            let found = found.client.unwrap();
            assert_eq!((found.ip().to_canonical(), found.port()), (client.ip(), client.port()));
        }
        assert_eq!(read(&header(None)), Ok(Some(Header { client: None, length: 16 })));
    }

    /// The example of the specification's section 2.2, as HAProxy sends it.
    #[test]
    fn bytes_are_those_of_the_specification() {
        let written = header(Some(("1.2.3.4:258".parse().unwrap(), "5.6.7.8:772".parse().unwrap())));
        assert_eq!(written, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\x03\x04");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(read(b"PROXY TCP4 1.2.3.4").is_err() && read(&[0, 0, 0, 8]).is_err());
        let with = |rest: &[u8]| [&SIGNATURE[..], rest].concat();
        assert!(read(&with(&[0x31, TCP4, 0, 0])).is_err());
        assert!(read(&with(&[PROXY, TCP4, 0xff, 0xff])).is_err());
        assert!(read(&with(&[PROXY, TCP4, 0, 2, 1, 2])).is_err());
    }
}
