//! Questions for the server, in SQL that means the same in every session.
//!
//! The client may have set any `search_path`, and other users may have created functions, operators and tables that this path
//! finds first. The questions therefore qualify every table, function, type and operator. They avoid `IN`, `BETWEEN`,
//! `NULLIF`, `USING` and `IS DISTINCT FROM`, because these look up an operator without a schema.
//!
//! The questions read catalogs only. They call no function that opens a relation of a user, such as `pg_get_viewdef`, because
//! that waits for its locks; they read expressions in the form in which the server keeps them (see `tree`).
//!
//! The questions are not recursive; [`Inquiry`](super::Inquiry) asks again instead. The planner overestimates the cost
//! of a recursive query so far that the server would compile it (`jit`). Planning is most of their cost, so that a question has
//! only the branches that it needs.
//!
//! Objects that PostgreSQL does not provide have numbers from 16384 on.

mod branch;
mod part;

pub(super) use branch::{Branch, Proof};
pub(super) use part::Part;

/// The texts of prepared statements, by name.
pub(crate) const PREPARED: &str = "select p.name, p.statement from pg_catalog.pg_prepared_statements p \
    where p.name operator(pg_catalog.=) any ($1::pg_catalog.text[])";

/// Whether the session has cursors. Those that remain after ROLLBACK are older than the transaction. The cursor without a name
/// is the portal that runs this question.
pub(super) const CURSORS: &str = "select 'cursor' from pg_catalog.pg_cursors c \
    where c.name operator(pg_catalog.<>) ''::pg_catalog.text limit 1";

/// A statement without rows, to be sent before a question and with it: bounds how long the question may take, and how long it may
/// wait for a lock on a catalog. On a busy machine a question takes long without waiting for one. The settings end with the
/// question's transaction.
pub const LIMITS: &str = "select from (select pg_catalog.set_config('statement_timeout', '2000', true), \
    pg_catalog.set_config('lock_timeout', '100', true)) s (a, b) where s.a is null";

/// The values of a question's parameters.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub names: Vec<u8>,
    pub calls: Vec<u8>,
    pub operators: Vec<u8>,
    pub any_schema: Vec<u8>,
    pub relations: Vec<u8>,
    pub written: Vec<u8>,
    pub functions: Vec<u8>,
    pub types: Vec<u8>,
    pub numbers: Vec<u8>,
}

impl Values {
    pub(super) fn bytes(&self) -> usize {
        let Values { names, calls, operators, any_schema, relations, written, functions, types, numbers } = self;
        [names, calls, operators, any_schema, relations, written, functions, types, numbers].map(Vec::len).iter().sum()
    }
}

/// The columns of every row.
pub(super) const COLUMNS: usize = 10;

/// The schemas that a name may mean: those of the session's path, those whose names occur, and that of `"$user"`.
/// The session's own temporary schema counts by what is in it.
const REACHED: &str = "with reached as materialized (select n.oid,
  case when n.oid [<>] pc.pg_my_temp_schema() then n.xmin end as version from pc.pg_namespace n where {any_schema}
  or n.nspname [=] any (pc.current_schemas(true)) or n.nspname [=] any ({names}) or n.nspname [=] current_user)\n";

/// The version of a relation's name and schema: that of its row type, which changes with both, if it has one. A GRANT changes
/// only the relation's own row.
const OF_RELATION: &str = "coalesce((select y.xmin from pc.pg_type y where y.oid [=] c.reltype), c.xmin)::pc.text";

/// Extensions have thousands of functions in C; those that are not volatile are safe.
const NOT_PLAIN: &str = "(p.oid [<] 16384::pc.oid or p.provolatile [=] 'v'::pc.\"char\"
  or not p.prolang [=] any ('{12,13}'::pc.oid[]))";

/// Rows: the ground (`g`, next transaction, schemas of the path, start of the server, oldest transaction); numbers of further objects (`R`,
/// `F`, `T`); expressions and queries (`n`), and those of defaults (`d`); the server's own functions that are called (`b`);
/// functions (`f`, number, name, language, volatility, body, parsed body, defaults, settings); foreign-data wrappers
/// (`w`, name, whether it runs a program); triggers (`t`, function, relation, condition); identity columns (`i`);
/// sequences (`q`); sizes of relations (`l`, pages); that the session has temporary objects (`m`).
///
/// The numbers from 1646 to 1653 are the trigger functions of foreign keys with ON DELETE or ON UPDATE CASCADE, SET NULL or
/// SET DEFAULT.
pub(super) const BRANCHES: &[Branch] = &[
    Branch {
        part: Part::Ground,
        versions: "null",
        columns: &[
            "'g'",
            "pc.pg_snapshot_xmax(pc.pg_current_snapshot())::pc.text",
            "pc.concat(pc.current_schemas(true), ' ', current_user)",
            "(pc.date_part('epoch'::pc.text, pc.pg_postmaster_start_time()) [*] 1000000::pc.float8)::pc.int8::pc.text",
            "pc.pg_snapshot_xmin(pc.pg_current_snapshot())::pc.text",
        ],
        from: "",
        proof: Proof::Row,
    },
    Branch {
        part: Part::Names,
        versions: "r.version::pc.text",
        columns: &["'x'"],
        from: "from reached r",
        proof: Proof::Row,
    },
    Branch {
        part: Part::Names,
        versions: OF_RELATION,
        columns: &["'R'", "c.oid::pc.text"],
        from: "from pc.pg_class c where c.relname [=] any ({names})
  and (c.oid [>=] 16384::pc.oid or c.relkind [=] 'v'::pc.\"char\") and c.relnamespace [=] any (array(select r.oid from reached r))",
        proof: Proof::Number("plimsoll_t"),
    },
    Branch {
        part: Part::Names,
        versions: "p.xmin::pc.text",
        columns: &["'F'", "p.oid::pc.text"],
        from: "from pc.pg_proc p where p.proname [=] any ({names}) and p.oid [>=] 16384::pc.oid
  and p.pronamespace [=] any (array(select r.oid from reached r))",
        proof: Proof::Number("plimsoll_f"),
    },
    Branch {
        part: Part::Names,
        versions: "y.xmin::pc.text",
        columns: &["'T'", "y.oid::pc.text"],
        from: "from pc.pg_type y where y.typname [=] any ({names}) and y.oid [>=] 16384::pc.oid
  and y.typnamespace [=] any (array(select r.oid from reached r))",
        proof: Proof::Number("plimsoll_domain"),
    },
    Branch {
        part: Part::Names,
        versions: "pc.concat(o.xmin, ',', p.xmin)",
        columns: &["'F'", "p.oid::pc.text"],
        from: "from pc.pg_operator o join pc.pg_proc p on p.oid [=] o.oprcode::pc.oid
where o.oprname [=] any ({operators}) and o.oid [>=] 16384::pc.oid
  and o.oprnamespace [=] any (array(select r.oid from reached r)) and {not_plain}",
        proof: Proof::Number("plimsoll_f2"),
    },
    // Only superusers can create operator classes, and casts between types of the server.
    Branch {
        part: Part::Names,
        versions: "pc.concat(a.xmin, ',', p.xmin)",
        columns: &["'F'", "p.oid::pc.text"],
        from: "from pc.pg_amproc a join pc.pg_proc p on p.oid [=] a.amproc::pc.oid
where a.oid [>=] 16384::pc.oid and {not_plain}",
        proof: Proof::Taken,
    },
    Branch {
        part: Part::Names,
        versions: "pc.concat(c.xmin, ',', p.xmin)",
        columns: &["'F'", "p.oid::pc.text"],
        from: "from pc.pg_cast c join pc.pg_proc p on p.oid [=] c.castfunc
where c.oid [>=] 16384::pc.oid and c.castsource [<] 16384::pc.oid and c.casttarget [<] 16384::pc.oid and {not_plain}",
        proof: Proof::Taken,
    },
    Branch {
        part: Part::Calls,
        versions: "null",
        columns: &["'b'", "p.proname::pc.text", "p.provolatile::pc.text"],
        from: "from pc.pg_proc p where p.proname [=] any ({calls}) and p.oid [<] 16384::pc.oid
  and p.provolatile [<>] 'i'::pc.\"char\"",
        proof: Proof::Texts(&["random", "v"]),
    },
    Branch {
        part: Part::Events,
        versions: "e.xmin::pc.text",
        columns: &["'F'", "e.evtfoid::pc.text"],
        from: "from pc.pg_event_trigger e where e.evtevent [<>] 'login'::pc.name",
        proof: Proof::Taken,
    },
    // The schema remains when they are dropped.
    Branch {
        part: Part::Temporary,
        versions: "null",
        columns: &["'m'"],
        from: "where pc.pg_my_temp_schema() [<>] 0::pc.oid and exists (
  select from pc.pg_class c where c.relnamespace [=] pc.pg_my_temp_schema())",
        proof: Proof::Taken,
    },
    Branch {
        part: Part::Relations,
        versions: OF_RELATION,
        columns: &["'T'", "c.reltype::pc.text"],
        from: "from pc.pg_class c where c.oid [=] any ({relations})",
        proof: Proof::Row,
    },
    // Its size may change without a change of what the verdict rests on.
    Branch {
        part: Part::Relations,
        versions: "null",
        columns: &["'l'", "c.relpages::pc.text"],
        from: "from pc.pg_class c where c.oid [=] any ({relations}) and c.relpages [>] 0",
        proof: Proof::Row,
    },
    Branch {
        part: Part::Relations,
        versions: "i.xmin::pc.text",
        columns: &["'R'", "i.inhrelid::pc.text"],
        from: "from pc.pg_inherits i where i.inhparent [=] any ({relations})",
        proof: Proof::Number("plimsoll_child"),
    },
    Branch {
        part: Part::Relations,
        versions: "a.xmin::pc.text",
        columns: &["'T'", "a.atttypid::pc.text"],
        from: "from pc.pg_attribute a where a.attrelid [=] any ({relations})
  and (a.atttypid [>=] 16384::pc.oid or a.atttypid [=] any ('{700,701}'::pc.oid[]))",
        proof: Proof::Number("plimsoll_domain"),
    },
    Branch {
        part: Part::Relations,
        versions: "q.xmin::pc.text",
        columns: &["'q'"],
        from: "from pc.pg_sequence q where q.seqrelid [=] any ({relations})",
        proof: Proof::Row,
    },
    Branch {
        part: Part::Relations,
        versions: "w.xmin::pc.text",
        columns: &["'n'", "w.ev_action::pc.text", "w.ev_qual::pc.text"],
        from: "from pc.pg_rewrite w where w.ev_class [=] any ({relations}) and w.rulename [=] '_RETURN'::pc.name",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Relations,
        versions: "l.xmin::pc.text",
        columns: &["'n'", "l.polqual::pc.text", "l.polwithcheck::pc.text"],
        from: "from pc.pg_policy l where l.polrelid [=] any ({relations})",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Relations,
        versions: "x.xmin::pc.text",
        columns: &["'n'", "x.indexprs::pc.text", "x.indpred::pc.text"],
        from: "from pc.pg_index x where x.indrelid [=] any ({relations})
  and (x.indexprs is not null or x.indpred is not null)",
        proof: Proof::Calls("plimsoll_i"),
    },
    Branch {
        part: Part::Relations,
        versions: "n.xmin::pc.text",
        columns: &["'n'", "n.conbin::pc.text"],
        from: "from pc.pg_constraint n where n.conrelid [=] any ({relations}) and n.conbin is not null",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Relations,
        versions: "d.xmin::pc.text",
        columns: &["'n'", "d.partexprs::pc.text"],
        from: "from pc.unnest({relations}) r (oid)
cross join lateral pc.pg_partition_ancestors(r.oid::pc.regclass) a (relid)
join pc.pg_partitioned_table d on d.partrelid [=] a.relid::pc.oid",
        proof: Proof::Calls("plimsoll_i"),
    },
    Branch {
        part: Part::Relations,
        versions: "pc.concat(b.xmin, ',', s.xmin, ',', w.xmin)",
        columns: &["'w'", "w.fdwname::pc.text", "(pc.strpos(b.ftoptions::pc.text, 'program=') [>] 0)::pc.text"],
        from: "from pc.pg_foreign_table b
join pc.pg_foreign_server s on s.oid [=] b.ftserver
join pc.pg_foreign_data_wrapper w on w.oid [=] s.srvfdw where b.ftrelid [=] any ({relations})",
        proof: Proof::Taken,
    },
    Branch {
        part: Part::Written,
        versions: "d.xmin::pc.text",
        columns: &["'d'", "d.adbin::pc.text"],
        from: "from pc.pg_attrdef d where d.adrelid [=] any ({written})",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Written,
        versions: "a.xmin::pc.text",
        columns: &["'i'"],
        from: "from pc.pg_attribute a where a.attrelid [=] any ({written})
  and a.attidentity [=] any ('{a,d}'::pc.\"char\"[])",
        proof: Proof::Row,
    },
    Branch {
        part: Part::Written,
        versions: "t.xmin::pc.text",
        columns: &[
            "'t'",
            "t.tgfoid::pc.text",
            "case when t.tgfoid [=] any ('{1646,1647,1650,1651,1652,1653}'::pc.oid[]) or exists (
    select from pc.pg_class c where c.oid [=] t.tgconstrrelid and c.relforcerowsecurity)
  then t.tgconstrrelid::pc.text end",
            "t.tgqual::pc.text",
        ],
        from: "from pc.pg_trigger t where t.tgrelid [=] any ({written})",
        proof: Proof::Number("plimsoll_trigger"),
    },
    Branch {
        part: Part::Written,
        versions: "w.xmin::pc.text",
        columns: &["'n'", "w.ev_action::pc.text", "w.ev_qual::pc.text"],
        from: "from pc.pg_rewrite w where w.ev_class [=] any ({written}) and w.rulename [<>] '_RETURN'::pc.name",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Functions,
        versions: "p.xmin::pc.text",
        columns: &[
            "'f'",
            "p.oid::pc.text",
            "p.proname::pc.text",
            "l.lanname::pc.text",
            "p.provolatile::pc.text",
            "p.prosrc",
            "{parsed_body}",
            "p.proargdefaults::pc.text",
            "pc.concat(pc.array_to_string(p.proconfig, ' '), ' ',
  case when p.prosecdef then pc.quote_ident(pc.pg_get_userbyid(p.proowner)::pc.text) end)",
        ],
        from: "from pc.pg_proc p join pc.pg_language l on l.oid [=] p.prolang where p.oid [=] any ({functions})",
        proof: Proof::Texts(&["plimsoll_f", "sql", "v", "select $1"]),
    },
    Branch {
        part: Part::Functions,
        versions: "g.xmin::pc.text",
        columns: &["'F'", "support.oid::pc.text"],
        from: "from pc.pg_aggregate g
cross join lateral (values (g.aggtransfn::pc.oid), (g.aggfinalfn::pc.oid),
  (g.aggcombinefn::pc.oid), (g.aggserialfn::pc.oid), (g.aggdeserialfn::pc.oid),
  (g.aggmtransfn::pc.oid), (g.aggminvtransfn::pc.oid), (g.aggmfinalfn::pc.oid)) support (oid)
where g.aggfnoid::pc.oid [=] any ({functions})",
        proof: Proof::Number("177"),
    },
    Branch {
        part: Part::Functions,
        versions: "p.xmin::pc.text",
        columns: &["'T'", "argument.oid::pc.text"],
        from: "from pc.pg_proc p cross join lateral (
  select p.prorettype union all select pc.unnest(p.proargtypes::pc.oid[])
  union all select pc.unnest(p.proallargtypes)
) argument (oid)
where p.oid [=] any ({functions}) and argument.oid [>=] 16384::pc.oid",
        proof: Proof::Number("plimsoll_domain"),
    },
    Branch {
        part: Part::Types,
        versions: "y.xmin::pc.text",
        columns: &["'T'", "part.oid::pc.text"],
        from: "from pc.pg_type y cross join lateral (
  select y.typbasetype union all select y.typelem
  union all select a.atttypid from pc.pg_attribute a where a.attrelid [=] y.typrelid
  union all select g.rngsubtype from pc.pg_range g where g.rngtypid [=] y.oid or y.typtype [=] 'm'::pc.\"char\"
) part (oid)
where y.oid [=] any ({types}) and part.oid [>=] 16384::pc.oid",
        proof: Proof::Number("plimsoll_domain"),
    },
    Branch {
        part: Part::Types,
        versions: "g.xmin::pc.text",
        columns: &["'F'", "support.oid::pc.text"],
        from: "from pc.pg_range g
cross join lateral (values (g.rngcanonical::pc.oid), (g.rngsubdiff::pc.oid)) support (oid)
where g.rngtypid [=] any ({types})",
        proof: Proof::Number("plimsoll_differ"),
    },
    Branch {
        part: Part::Types,
        versions: "n.xmin::pc.text",
        columns: &["'n'", "n.conbin::pc.text"],
        from: "from pc.pg_constraint n where n.contypid [=] any ({types})",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Types,
        versions: "y.xmin::pc.text",
        columns: &["'n'", "y.typdefaultbin::pc.text"],
        from: "from pc.pg_type y where y.oid [=] any ({types})",
        proof: Proof::Calls("plimsoll_f"),
    },
    Branch {
        part: Part::Types,
        versions: "pc.concat(c.xmin, ',', p.xmin)",
        columns: &["'F'", "p.oid::pc.text"],
        from: "from pc.pg_cast c join pc.pg_proc p on p.oid [=] c.castfunc
where (c.castsource [=] any ({types}) or c.casttarget [=] any ({types})) and {not_plain}",
        proof: Proof::Number("plimsoll_cast"),
    },
    Branch {
        part: Part::Numbers,
        versions: "o.xmin::pc.text",
        columns: &["'F'", "o.oprcode::pc.oid::pc.text"],
        from: "from pc.pg_operator o where o.oid [=] any ({numbers})",
        proof: Proof::Number("plimsoll_f2"),
    },
];

/// A question with the given parts, and its parameters. If `only_versions`, its rows are the same, without what they tell.
pub(super) fn question(
    parts: &[Part],
    only_versions: bool,
    server_version_num: u32,
    values: &Values,
) -> (String, Vec<Vec<u8>>) {
    let branches: Vec<&Branch> = BRANCHES.iter().filter(|branch| parts.contains(&branch.part)).collect();
    assemble(&branches, only_versions, server_version_num, values)
}

fn assemble(
    branches: &[&Branch],
    only_versions: bool,
    server_version_num: u32,
    values: &Values,
) -> (String, Vec<Vec<u8>>) {
    let selects: Vec<String> = branches.iter().map(|branch| branch.select(only_versions)).collect();
    let reached = if branches.iter().any(|branch| branch.part == Part::Names) { REACHED } else { "" };
    // Before PostgreSQL 14, every body is a text.
    let parsed_body = if server_version_num < 140_000 { "null" } else { "p.prosqlbody::pc.text" };
    let mut sql = format!("{reached}{}", selects.join("\nunion all\n"));
    sql = sql.replace("{not_plain}", NOT_PLAIN).replace("{parsed_body}", parsed_body).replace("pc.", "pg_catalog.");
    for operator in ["=", "<>", "<", ">", ">=", "*"] {
        sql = sql.replace(&format!("[{operator}]"), &format!("operator(pg_catalog.{operator})"));
    }
    let mut parameters = Vec::new();
    for (name, kind, value) in [
        ("{names}", "name[]", &values.names),
        ("{calls}", "name[]", &values.calls),
        ("{operators}", "name[]", &values.operators),
        ("{any_schema}", "bool", &values.any_schema),
        ("{relations}", "oid[]", &values.relations),
        ("{written}", "oid[]", &values.written),
        ("{functions}", "oid[]", &values.functions),
        ("{types}", "oid[]", &values.types),
        ("{numbers}", "oid[]", &values.numbers),
    ] {
        if sql.contains(name) {
            parameters.push(value.clone());
            sql = sql.replace(name, &format!("${}::pg_catalog.{kind}", parameters.len()));
        }
    }
    (sql, parameters)
}
