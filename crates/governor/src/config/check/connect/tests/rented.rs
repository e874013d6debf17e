//! The recipes for rented servers, run as the guide has them against a server that is set up like each service: no user is a
//! superuser, the owner has CREATEROLE and may grant monitoring and signalling, TLS is required, and the governor does not
//! have the server's key.

use std::path::PathBuf;

use super::*;

const GUIDE: &str = include_str!("../../../../../../../docs/governor-rented.md");

/// A service: its heading in the guide, the roles that its servers have (the last one is the owner's), what else shows it,
/// and how the check names it.
struct Like {
    heading: &'static str,
    roles: &'static [&'static str],
    mark: &'static str,
    undo: &'static str,
    name: &'static str,
}

const LIKE: [Like; 6] = [
    Like {
        heading: "Amazon RDS and Aurora",
        roles: &["rdsadmin", "rds_superuser"],
        mark: "",
        undo: "",
        name: "Amazon RDS",
    },
    Like {
        heading: "Amazon RDS and Aurora",
        roles: &["rdsadmin", "rds_superuser"],
        mark: "CREATE FUNCTION public.aurora_version() RETURNS text LANGUAGE sql AS 'SELECT ''15.4.0'''",
        undo: "DROP FUNCTION public.aurora_version()",
        name: "Amazon Aurora",
    },
    Like {
        heading: "Google Cloud SQL",
        roles: &["cloudsqladmin", "cloudsqlsuperuser"],
        mark: "",
        undo: "",
        name: "Google Cloud SQL",
    },
    Like {
        heading: "Azure Database for PostgreSQL",
        roles: &["azuresu", "azure_pg_admin"],
        mark: "",
        undo: "",
        name: "Azure Database for PostgreSQL",
    },
    Like {
        heading: "Supabase and Neon",
        roles: &["authenticator", "supabase_admin", "supabase_owners"],
        mark: "",
        undo: "",
        name: "Supabase",
    },
    Like { heading: "Supabase and Neon", roles: &["neon_superuser"], mark: "", undo: "", name: "Neon" },
];

/// The section of the guide below a heading, and its first block in that language.
fn block(heading: &str, language: &str) -> &'static str {
    let section = GUIDE.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("the guide has no section {heading}"));
    let (_, block) =
        section.split_once(&format!("```{language}\n")).unwrap_or_else(|| panic!("{heading}: no {language}"));
    block.split("```").next().expect("a block ends")
}

/// The URLs of a recipe, towards our server, whose certificate is for no host.
fn urls(heading: &str, address: &str) -> [ServerUrl; 2] {
    let table: toml::Table = block(heading, "toml").parse().unwrap_or_else(|error| panic!("{heading}: {error}"));
    ["server", "control"].map(|key| {
        let text = table[key].as_str().expect("a URL");
        // `server` needs no user: clients bring theirs.
        let user = |name: &str| (name == "PGUSER").then(|| "plimsoll_governor".to_owned());
        let url = ServerUrl::parse_in(text, &user).unwrap_or_else(|error| panic!("{heading}: {text}: {error}"));
        assert!([SslMode::VerifyFull, SslMode::VerifyCa].contains(&url.ssl_mode), "{heading}: {text}");
        let ours = format!("postgres://{}:right@{address}/{}?sslmode=require", url.user, url.database);
        ServerUrl::parse_in(&ours, &|_| None).unwrap_or_else(|error| panic!("{ours}: {error}"))
    })
}

/// Runs a recipe's SQL as the owner, who logs in over TLS as the governor does, and checks.
fn checked(stage: &Stage, heading: &str, address: &str) -> Found {
    let [server, control] = urls(heading, address);
    let owner = ServerUrl { user: "owner".to_owned(), database: "postgres".to_owned(), ..control.clone() };
    let sql = block(heading, "sql").replace("'…'", "'right'");
    let mut connection = Connection::open(&owner).unwrap_or_else(|error| panic!("{heading}: {error}"));
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        connection.run(statement).unwrap_or_else(|error| panic!("{heading}: {statement}: {error}"));
    }
    assert!(connection.run("SELECT FROM pg_authid").is_err(), "the owner is too much of a superuser");
    let found = probe(Tried {
        server: Some(&server),
        control: Some(&control),
        observes: true,
        shares: true,
        disk: true,
        ..Tried::default()
    });
    stage.run("DROP ROLE plimsoll_governor");
    found
}

fn check_recipe(found: &Found, name: &str) {
    check(found, "server", true, &["over TLS"]);
    check(found, "control", true, &["plimsoll_governor logs in"]);
    check(found, "rights", true, &["may cancel statements of others"]);
    check(found, "sessions", true, &["may see what every session does"]);
    check(found, "service", true, &[name]);
    assert!(found.probes.iter().all(|probe| probe.is_good), "{found:?}");
}

#[test]
fn the_recipes_of_the_guide_work_without_a_superuser() {
    let mut stage = Stage::start();
    let folder = tempfile::tempdir().expect("a folder");
    testing::certificate(folder.path());
    let rules = "local all plimsoll trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n";
    let host = stage.speak_tls(folder.path(), rules);
    let address = format!("{host}:{}", stage.own.port());
    // Where the governor's own questions are asked.
    let there = |stage: &Stage, sql: &str| {
        let mut connection = Connection::open(&stage.url("plimsoll", None)).unwrap_or_else(|error| panic!("{error}"));
        connection.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    for like in LIKE {
        let roles = like.roles.join(", ");
        let group = like.roles.last().expect("a role of the owner");
        like.roles.iter().for_each(|role| stage.run(&format!("CREATE ROLE {role}")));
        stage.run(&format!(
            "GRANT pg_monitor, pg_signal_backend TO {group} WITH ADMIN OPTION; \
             CREATE ROLE owner LOGIN CREATEROLE CREATEDB PASSWORD 'right' IN ROLE {group}"
        ));
        there(&stage, like.mark);
        let found = checked(&stage, like.heading, &address);
        check_recipe(&found, like.name);
        let away = found.by_sql_alone.as_deref().unwrap_or_default();
        assert!(away.contains(like.name) && away.contains("does not show the machine"), "{found:?}");
        assert!(found.warnings.iter().all(|warning| !warning.contains("superuser")), "{found:?}");
        there(&stage, like.undo);
        stage.run(&format!("DROP ROLE owner; DROP ROLE {roles}"));
    }
    like_cloud_native_pg(&mut stage, &host, folder.path());
}

/// Its operator creates the role from a manifest, with the rights that the statements have, as a superuser.
fn like_cloud_native_pg(stage: &mut Stage, host: &str, folder: &Path) {
    const HEADING: &str = "CloudNativePG";
    let manifest = block(HEADING, "yaml");
    for line in ["name: plimsoll_governor", "login: true", "- pg_monitor", "- pg_signal_backend"] {
        assert!(manifest.contains(line), "no `{line}` in {manifest}");
    }
    let sockets: PathBuf = folder.join("controller/run");
    std::fs::create_dir_all(&sockets).expect("a folder");
    for folder in [folder, &folder.join("controller"), &sockets] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("the folder is ours");
    }
    let own = stage.own.socket_folder().display().to_string();
    stage.run(&format!("ALTER SYSTEM SET unix_socket_directories = '{own}', '{}'", sockets.display()));
    stage.run("CREATE ROLE streaming_replica REPLICATION; CREATE ROLE owner LOGIN CREATEROLE PASSWORD 'right'");
    stage.own.restart().unwrap_or_else(|error| panic!("{error}"));
    let address = format!("{host}:{}", stage.own.port());
    let found = checked(stage, HEADING, &address);
    check_recipe(&found, "CloudNativePG");
    assert_eq!(found.by_sql_alone, None, "a governor can be a container of the pod");
}

/// The reader of a recipe learns from the same page which levers are gone.
#[test]
fn the_guide_names_every_lever_that_needs_the_machine() {
    for lever in crate::settings::levers::OF_HOST {
        assert!(GUIDE.contains(lever), "the guide does not say what becomes of {lever}");
    }
}
