//! URLs as people write them.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn parsed(text: &str) -> ServerUrl {
    ServerUrl::parse_in(text, &nothing).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn urls_are_understood() {
    for (text, expect) in [
        ("postgres://ann@db.example/shop", "postgres://ann@db.example:5432/shop?sslmode=prefer"),
        ("postgresql://ann@[::1]:6000/shop", "postgres://ann@[::1]:6000/shop?sslmode=prefer"),
        ("postgres://ann@h", "postgres://ann@h:5432/ann?sslmode=prefer"),
        ("postgres://ann%40x:p%3Aw@h/a%20b", "postgres://ann%40x@h:5432/a%20b?sslmode=prefer"),
        ("postgres://ann:a@b@h/", "postgres://ann@h:5432/ann?sslmode=prefer"),
        (
            "postgres://ann@/shop?host=/tmp/my%20sockets&port=6001",
            "postgres://ann@/shop?host=/tmp/my%20sockets&port=6001&sslmode=prefer",
        ),
        ("postgres:///shop?host=h&user=ann&sslmode=verify-full", "postgres://ann@h:5432/shop?sslmode=verify-full"),
        ("postgres://ann@h?sslrootcert=system", "postgres://ann@h:5432/ann?sslmode=verify-full"),
        (
            "postgres://ann@h?sslmode=require&sslnegotiation=direct",
            "postgres://ann@h:5432/ann?sslmode=require&sslnegotiation=direct",
        ),
    ] {
        assert_eq!(parsed(text).to_string(), expect, "{text}");
    }
    let url = parsed("postgres://ann:p%3Aw@h/d?sslrootcert=/etc/ca.pem&application_name=me&connect_timeout=3");
    assert_eq!(url.password, Some(Password::new("p:w")));
    assert_eq!(url.ssl_root_certificate, Some("/etc/ca.pem".into()));
    assert_eq!((url.application_name.as_str(), url.connect_timeout), ("me", Duration::from_secs(3)));
    assert_eq!(parsed("postgres://a:a@b@h").password, Some(Password::new("a@b")));
}

#[test]
fn what_is_wrong_is_said() {
    for (text, expect) in [
        ("mysql://h", "begins with `postgres://`"),
        ("postgres://a@h:70000/d", "port `70000` is not a number from 1 to 65535"),
        ("postgres://a@h:0/d", "port `0`"),
        ("postgres://a@h/d?sslmod=require", "no parameter `sslmod` (did you mean `sslmode`?)"),
        ("postgres://a@h/d?sslmode=requires", "(did you mean `require`?); it can be `disable`, `prefer`"),
        ("postgres://a@h/d?sslmode", "`sslmode` has no value"),
        ("postgres://a@h/d?sslnegotiation=fast", "sslnegotiation cannot be `fast`; it can be `postgres`, `direct`"),
        ("postgres://a@h/d?sslnegotiation=direct", "sslnegotiation=direct needs sslmode=require"),
        ("postgres://a@h/d?sslrootcert=system&sslmode=require", "sslrootcert=system needs sslmode=verify-full"),
        ("postgres://a@h/d?sslcert=/a.crt", "sslcert needs sslkey"),
        ("postgres://a@h/d?sslkey=/a.key", "sslkey needs sslcert"),
        ("postgres://a%4@h/d", "the user in the URL is not percent-encoded"),
        ("postgres://a:%ff@h/d", "the password in the URL is not percent-encoded"),
        ("postgres://a%00@h/d", "not percent-encoded"),
        ("postgres://a@h,i/d", "several hosts"),
        ("postgres://a@::1/d", "write `host:5432` or `[::1]:5432`"),
        ("postgres://a@[::1/d", "is no host and port"),
        ("postgres://a@h/d?connect_timeout=soon", "`soon` is not a number of seconds"),
        ("postgres://h/d", "names no user"),
        ("postgres://a@h/d#x", "write it as `%23`"),
        ("postgres://a:p/w@h/d", "write `/` as `%2F`"),
        ("postgres://a:p?w@h/d", "`?` as `%3F`"),
    ] {
        let error = ServerUrl::parse_in(text, &nothing).expect_err(text).to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
}

#[test]
fn the_environment_fills_what_is_left_out() {
    let environment = |name: &str| {
        let value = match name {
            "PGHOST" => "/sockets",
            "PGPORT" => "6543",
            "PGUSER" => "eve",
            "PGPASSWORD" => "secret",
            "PGDATABASE" => "books",
            "USER" => "root",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let url = ServerUrl::parse_in("postgres://", &environment).unwrap();
    assert_eq!(url.to_string(), "postgres://eve@/books?host=/sockets&port=6543&sslmode=prefer");
    assert_eq!(url.socket(), Some("/sockets/.s.PGSQL.6543".into()));
    assert_eq!(url.password, Some(Password::new("secret")));
    let url = ServerUrl::parse_in("postgres://ann:other@h:1/shop", &environment).unwrap();
    assert_eq!(url.to_string(), "postgres://ann@h:1/shop?sslmode=prefer");
    assert_eq!(url.password, Some(Password::new("other")));
}

#[test]
fn passwords_come_from_the_password_file_and_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pgpass");
    std::fs::write(&file, "# mine\nh:5432:*:bob:wrong\nh:*:d\\:1:ann:s\\:e\\\\cret\n*:*:*:*:last\n").unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    let environment = |name: &str| (name == "PGPASSFILE").then(|| file.display().to_string());
    let password = |text: &str| ServerUrl::parse_in(text, &environment).unwrap().password;
    mode(0o600);
    assert_eq!(password("postgres://ann@h/d:1"), Some(Password::new("s:e\\cret")));
    assert_eq!(password("postgres://ann@other/d"), Some(Password::new("last")));
    assert_eq!(password("postgres://ann:own@h/d"), Some(Password::new("own")));
    mode(0o644);
    assert_eq!(password("postgres://ann@other/d"), None, "others may read the file");

    let url = parsed("postgres://ann:hunter2@h/d?sslmode=require");
    assert!(!format!("{url} {url:?} {:?}", url.password).contains("hunter2"));
    for text in ["postgres://a:hunter2@h:x/d", "postgres://a:hunter2@h/d?x=1", "postgres://a:hunter2/x@h/d"] {
        let error = ServerUrl::parse_in(text, &nothing).expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_leads_to_the_same_server(
        user in "[^\0]{1,8}", database in "[^\0]{1,8}", host in "(/[^\0]{0,8})|([a-z][a-z0-9.-]{0,8})", port in 1_u16..,
    ) {
        let host = if host.starts_with('/') { ServerHost::Socket(host.into()) } else { ServerHost::Tcp(host) };
        let url = ServerUrl { host, ..ServerUrl::of_socket("/", port, &user, &database) };
        let again = ServerUrl::parse_in(&url.to_string(), &nothing).expect("it was shown");
        prop_assert_eq!(again, url);
    }

    #[test]
    fn nothing_typed_makes_it_panic(text in ".{0,40}") {
        let _ = ServerUrl::parse_in(&format!("postgres://{text}"), &nothing);
    }
}
