//! libpq binds its login to the governor's certificate, with certificates of several signatures.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use plimsoll_governor::credentials::{Gate, Known, Origin, ServerCredentials, Step};
use plimsoll_pg::scram::binding::end_point;
use plimsoll_pg::scram::server::hash_password;
use plimsoll_pg::secret::Secret;
use plimsoll_testing::openssl;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const PASSWORD: &str = "geheim";

/// An error for a client that was let in: there is no server behind this gate.
const PROVED: &[u8] = b"E\0\0\0\x22SFATAL\0C08006\0Mproved itself\0\0";

/// The settings of TLS, and the certificate.
fn tls(folder: &Path) -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let certificate = CertificateDer::from_pem_file(folder.join("own.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("own.key")).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    (Arc::new(builder.with_single_cert(vec![certificate.clone()], key).unwrap()), certificate)
}

/// Lets one client in, and tells it so.
fn serve(mut client: TcpStream, config: Arc<ServerConfig>, bound_to: Option<&[u8]>) -> io::Result<()> {
    client.read_exact(&mut [0; 8])?;
    client.write_all(b"S")?;
    let mut client = StreamOwned::new(ServerConnection::new(config).unwrap(), client);
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize - 4])?;
    let secret = Secret::parse("ann", &hash_password(PASSWORD)).unwrap();
    let (mut out, mut got, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    let mut gate = Gate::new("ann", &Known { secret, origin: Origin::File }, bound_to, &mut out);
    loop {
        client.write_all(&std::mem::take(&mut out))?;
        client.flush()?;
        let read = client.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        got.extend_from_slice(&chunk[..read]);
        let (taken, step) = gate.on_client(&got, &mut out);
        got.drain(..taken);
        match step {
            Step::More => continue,
            Step::In(ServerCredentials::Keys(_)) => out.extend(PROVED),
            Step::In(other) => panic!("{other:?}"),
            Step::Refused(_) => {}
        }
        client.write_all(&out)?;
        client.conn.send_close_notify();
        return client.flush();
    }
}

/// What psql says after a login with that demand for channel binding.
fn psql(config: &Arc<ServerConfig>, bound_to: Option<&[u8]>, binding: &str, password: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let said = std::thread::scope(|scope| {
        // A client may leave when it sees what it does not believe.
        scope.spawn(|| serve(listener.accept()?.0, config.clone(), bound_to));
        let mut psql = Command::new("psql");
        psql.args(["-XAtc", "SELECT 1"]).env("PGHOST", "127.0.0.1").env("PGPORT", port).env("PGUSER", "ann");
        psql.env("PGPASSWORD", password).env("PGDATABASE", "shop").env("PGSSLMODE", "require");
        psql.env("PGCHANNELBINDING", binding).env("PGGSSENCMODE", "disable").output().unwrap()
    });
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[test]
fn libpq_binds_its_login_to_the_governors_certificate() {
    let ec = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1";
    for (key, hash) in
        [(ec, "-sha256"), (ec, "-sha384"), ("-newkey rsa:2048", "-sha256"), ("-newkey rsa:2048", "-sha512")]
    {
        let folder = tempfile::tempdir().unwrap();
        openssl(
            folder.path(),
            &format!("req -x509 {key} {hash} -nodes -days 2 -subj /CN=x -keyout own.key -out own.crt"),
        );
        let (config, certificate) = tls(folder.path());
        let bound_to = end_point(&certificate).unwrap();
        for binding in ["require", "prefer", "disable"] {
            let said = psql(&config, Some(&bound_to), binding, PASSWORD);
            assert!(said.contains("proved itself"), "{key} {hash} {binding}: {said}");
        }
        let said = psql(&config, Some(&bound_to), "require", "wrong");
        assert!(said.contains("password authentication failed for user \"ann\""), "{said}");
        // Another certificate than the client sees, as of somebody between them.
        let said = psql(&config, Some(&vec![7; bound_to.len()]), "prefer", PASSWORD);
        assert!(said.contains("password authentication failed"), "{key} {hash}: {said}");
        // Without an offer, a client that does not demand it is let in.
        assert!(psql(&config, None, "prefer", PASSWORD).contains("proved itself"));
        assert!(!psql(&config, None, "require", PASSWORD).contains("proved itself"));
    }
}
