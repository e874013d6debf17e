//! Services that rent servers out, as far as a server or its name shows which one it belongs to.
//!
//! Such a server is reached by SQL alone: its machine is the service's. The marks are those that the services
//! document (`docs/governor-rented.md` has the sources). They matter for what is said to operators; no lever is switched
//! by them where it works.

use plimsoll_pg::connection::Connection;

use crate::watch::statements::SERVICE;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Rds,
    Aurora,
    CloudSql,
    Azure,
    Supabase,
    Neon,
    CloudNativePg,
}

/// What a server shows of its service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Marks {
    roles: Vec<String>,
    is_of_neon: bool,
    socket_folders: String,
    has_aurora: bool,
}

/// Roles that the servers of a service have, and no others.
const ROLES: [(Service, [&str; 2]); 4] = [
    (Service::Rds, ["rds_superuser", "rdsadmin"]),
    (Service::CloudSql, ["cloudsqlsuperuser", "cloudsqladmin"]),
    (Service::Azure, ["azure_pg_admin", "azuresu"]),
    (Service::Supabase, ["supabase_admin", "authenticator"]),
];

/// The ends of the names of servers. A server with a name of its user's own shows its roles.
const HOSTS: [(Service, &str); 7] = [
    (Service::Rds, ".rds.amazonaws.com"),
    (Service::Rds, ".rds.amazonaws.com.cn"),
    (Service::Azure, ".postgres.database.azure.com"),
    (Service::Supabase, ".supabase.co"),
    (Service::Supabase, ".pooler.supabase.com"),
    (Service::Neon, ".neon.tech"),
    (Service::Neon, ".neon.build"),
];

/// The folder of the sockets in a pod of CloudNativePG.
const CONTROLLER: &str = "/controller/run";

impl Service {
    /// The service of a server; `None` if it is of none that is known. A server that refuses the question is of none.
    pub(crate) fn of(connection: &mut Connection) -> Option<Service> {
        let mut marks = Marks::default();
        let asked = connection.text_rows(SERVICE, &mut |row| {
            let text = |at: usize| row.get(at).copied().flatten();
            marks = Marks {
                roles: text(0).unwrap_or_default().split(' ').map(str::to_owned).collect(),
                is_of_neon: text(1).is_some_and(|timeline| !timeline.is_empty()),
                socket_folders: text(2).unwrap_or_default().to_owned(),
                has_aurora: text(3) == Some("t"),
            };
        });
        if let Err(error) = asked {
            tracing::debug!(%error, "whether the server is rented is not known");
        }
        Service::by(&marks)
    }

    fn by(marks: &Marks) -> Option<Service> {
        let has = |name: &str| marks.roles.iter().any(|role| role == name);
        let of_roles =
            || ROLES.iter().find(|(_, roles)| roles.iter().all(|role| has(role))).map(|(service, _)| *service);
        if marks.is_of_neon || has("neon_superuser") {
            return Some(Service::Neon);
        }
        if has("streaming_replica") && marks.socket_folders.contains(CONTROLLER) {
            return Some(Service::CloudNativePg);
        }
        of_roles().map(|service| if service == Service::Rds && marks.has_aurora { Service::Aurora } else { service })
    }

    /// The service of a server with that host name, and whether the name is that of a pooler.
    pub(crate) fn of_host(host: &str) -> Option<(Service, bool)> {
        let host = host.to_ascii_lowercase();
        let (service, end) = HOSTS.iter().find(|(_, end)| host.ends_with(end))?;
        let endpoint = host.split('.').next().unwrap_or_default();
        let is_pooler = end.starts_with(".pooler.") || *service == Service::Neon && endpoint.ends_with("-pooler");
        Some((*service, is_pooler))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Rds => "Amazon RDS",
            Service::Aurora => "Amazon Aurora",
            Service::CloudSql => "Google Cloud SQL",
            Service::Azure => "Azure Database for PostgreSQL",
            Service::Supabase => "Supabase",
            Service::Neon => "Neon",
            Service::CloudNativePg => "CloudNativePG",
        }
    }

    /// Whether users can run programs on the machine of the server. In a Kubernetes cluster a governor can be a container
    /// of the server's pod.
    pub(crate) fn shows_host(self) -> bool {
        self == Service::CloudNativePg
    }

    /// Who can create the governor's role, since there is no superuser.
    pub(crate) fn administrator(self) -> &'static str {
        match self {
            Service::Rds | Service::Aurora => "the master user",
            Service::CloudSql => "`postgres`",
            Service::Azure => "the server's administrator",
            Service::Supabase => "`postgres`",
            Service::Neon => "the owner of the project's database",
            Service::CloudNativePg => "`postgres`, by `kubectl cnpg psql`, or in `.spec.managed.roles`",
        }
    }

    /// What to know about its servers besides.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Service::Rds | Service::Aurora => {
                "clients and governor need TLS where `rds.force_ssl` is 1, which is the default from version 15 on; do not put \
                 RDS Proxy between the governor and the server"
            }
            Service::CloudSql => {
                "reach it by its private address, or by the Cloud SQL Auth Proxy on the governor's machine, which encrypts by \
                 itself (`sslmode=disable` to the proxy)"
            }
            Service::Azure => {
                "use port 5432: the built-in pgbouncer at 6432 hides which server process works for which client"
            }
            Service::Supabase => {
                "use the direct connection (port 5432 of `db.PROJECT.supabase.co`): the pooler hides which server process \
                 works for which client"
            }
            Service::Neon => {
                "use the endpoint without `-pooler`; the governor's own questions count as activity, so that the compute is \
                 not suspended while the governor runs"
            }
            Service::CloudNativePg => {
                "use the service `CLUSTER-rw`, not a Pooler; in a container of the server's pod with `shareProcessNamespace` \
                 all levers would work, which the operator does not offer, so that by default it is SQL alone"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_marks_together() {
        let check = |roles: &str, change: fn(&mut Marks), expect: Option<Service>| {
            let mut marks = Marks { roles: roles.split(' ').map(str::to_owned).collect(), ..Marks::default() };
            change(&mut marks);
            assert_eq!(Service::by(&marks), expect, "{marks:?}");
        };
        check("", |_| {}, None);
        check("rds_superuser rdsadmin", |_| {}, Some(Service::Rds));
        check("rds_superuser rdsadmin", |marks| marks.has_aurora = true, Some(Service::Aurora));
        // A role that somebody has created for a test, and a function of that name.
        check("rds_superuser", |marks| marks.has_aurora = true, None);
        check("cloudsqladmin cloudsqlsuperuser", |_| {}, Some(Service::CloudSql));
        check("azure_pg_admin azuresu", |_| {}, Some(Service::Azure));
        check("authenticator supabase_admin", |_| {}, Some(Service::Supabase));
        // PostgREST, without Supabase.
        check("authenticator", |_| {}, None);
        check("neon_superuser", |_| {}, Some(Service::Neon));
        check("", |marks| marks.is_of_neon = true, Some(Service::Neon));
        check("streaming_replica", |_| {}, None);
        check("streaming_replica", |marks| marks.socket_folders = CONTROLLER.to_owned(), Some(Service::CloudNativePg));
    }

    #[test]
    fn names_of_servers_tell_the_service_and_its_poolers() {
        for (host, expect) in [
            ("shop.abc.eu-central-1.rds.amazonaws.com", Some((Service::Rds, false))),
            ("shop.postgres.database.azure.com", Some((Service::Azure, false))),
            ("db.abcdef.supabase.co", Some((Service::Supabase, false))),
            ("aws-0-eu-central-1.pooler.supabase.com", Some((Service::Supabase, true))),
            ("ep-cool-1234.eu-central-1.aws.neon.tech", Some((Service::Neon, false))),
            ("ep-cool-1234-pooler.eu-central-1.aws.neon.tech", Some((Service::Neon, true))),
            ("db.example.com", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(Service::of_host(host), expect, "{host}");
        }
    }
}
