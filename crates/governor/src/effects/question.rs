//! What the server is asked, in SQL that means the same in every session.
//!
//! The client may have set its `search_path` as it likes, and anybody may have made functions, operators, casts and tables
//! to be found there first. So everything is qualified: tables, functions, types, operators. `IN`, `BETWEEN`, `NULLIF`,
//! `USING` and `IS DISTINCT FROM` look for an operator without a schema, and are not used.

/// What prepared statements say, by name.
pub(super) const PREPARED: &str = "select p.name, p.statement from pg_catalog.pg_prepared_statements p \
    where p.name operator(pg_catalog.=) any ($1::pg_catalog.text[])";

/// Whether there is a cursor: after ROLLBACK those are left that are older than the transaction.
pub(super) const CURSORS: &str = "select 'cursor' from pg_catalog.pg_cursors c limit 1";

/// What things of some names may run: functions (`f`, oid, name, language, volatility, body, whether
/// that is a text or parsed), expressions and queries (`t`,
/// text), wrappers of foreign tables (`w`, name, whether it may run programs), and more of it than is read (`m`).
///
/// Parameters: the names; whether event triggers matter; whether what is used without a name does (casts, operators,
/// functions that support indexes).
///
/// 16384 is the first number of what is not PostgreSQL's own. C functions that are not volatile are trusted and left out. The
/// functions from 1646 to 1653 are those of foreign keys that change other tables: ON DELETE and ON UPDATE CASCADE, SET NULL
/// and SET DEFAULT.
macro_rules! catalogs {
    ($body:literal) => {
        concat!(
            "with recursive relation (oid) as (
  select c.oid from pg_catalog.pg_class c
  where c.relname operator(pg_catalog.=) any ($1::pg_catalog.name[])
    and c.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select step.oid from relation r cross join lateral (
    select i.inhrelid from pg_catalog.pg_inherits i where i.inhparent operator(pg_catalog.=) r.oid
    union all
    select t.tgconstrrelid from pg_catalog.pg_trigger t
    join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) t.tgconstrrelid
    where t.tgrelid operator(pg_catalog.=) r.oid and (c.relforcerowsecurity or t.tgfoid operator(pg_catalog.=)
      any ('{1646,1647,1650,1651,1652,1653}'::pg_catalog.oid[]))
  ) step (oid)
), called (oid) as (
  select p.oid from pg_catalog.pg_proc p
  where p.proname operator(pg_catalog.=) any ($1::pg_catalog.name[])
    and p.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select t.tgfoid from relation r join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
  where t.tgfoid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select e.evtfoid from pg_catalog.pg_event_trigger e
  where $2::pg_catalog.bool and e.evtevent operator(pg_catalog.<>) 'login'::pg_catalog.name
  union
  select c.castfunc from pg_catalog.pg_cast c
  where $3::pg_catalog.bool and c.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select o.oprcode::pg_catalog.oid from pg_catalog.pg_operator o
  where $3::pg_catalog.bool and o.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select a.amproc::pg_catalog.oid from pg_catalog.pg_amproc a
  where $3::pg_catalog.bool and a.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
), function (oid) as (
  select c.oid from called c
  union
  select support.oid from called c
  join pg_catalog.pg_aggregate g on g.aggfnoid::pg_catalog.oid operator(pg_catalog.=) c.oid
  cross join lateral (values (g.aggtransfn::pg_catalog.oid), (g.aggfinalfn::pg_catalog.oid),
    (g.aggcombinefn::pg_catalog.oid), (g.aggserialfn::pg_catalog.oid), (g.aggdeserialfn::pg_catalog.oid),
    (g.aggmtransfn::pg_catalog.oid), (g.aggminvtransfn::pg_catalog.oid), (g.aggmfinalfn::pg_catalog.oid)) support (oid)
), type (oid) as (
  select y.oid from pg_catalog.pg_type y
  where y.typname operator(pg_catalog.=) any ($1::pg_catalog.name[])
    and y.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select a.atttypid from relation r join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
  where a.attnum operator(pg_catalog.>) 0::pg_catalog.int2
    and a.atttypid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select argument.oid from function f join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) f.oid
  cross join lateral (
    select p.prorettype union all select pg_catalog.unnest(p.proargtypes::pg_catalog.oid[])
    union all select pg_catalog.unnest(p.proallargtypes)
  ) argument (oid)
  where argument.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union
  select part.oid from type k join pg_catalog.pg_type y on y.oid operator(pg_catalog.=) k.oid
  cross join lateral (
    select y.typbasetype union all select y.typelem
    union all select a.atttypid from pg_catalog.pg_attribute a where a.attrelid operator(pg_catalog.=) y.typrelid
    union all select g.rngsubtype from pg_catalog.pg_range g where g.rngtypid operator(pg_catalog.=) y.oid
      or y.typtype operator(pg_catalog.=) 'm'::pg_catalog.\"char\"
  ) part (oid)
  where part.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
), every (oid) as (
  select f.oid from function f
  union
  select support.oid from type k join pg_catalog.pg_range g on g.rngtypid operator(pg_catalog.=) k.oid
  cross join lateral (values (g.rngcanonical::pg_catalog.oid), (g.rngsubdiff::pg_catalog.oid)) support (oid)
), text (body) as (
  select pg_catalog.pg_get_viewdef(c.oid) from relation r
  join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) r.oid
  where c.relkind operator(pg_catalog.=) any ('{v,m}'::pg_catalog.\"char\"[])
  union all
  select pg_catalog.pg_get_ruledef(w.oid) from relation r
  join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
  where w.rulename operator(pg_catalog.<>) '_RETURN'::pg_catalog.name
  union all
  select pg_catalog.pg_get_expr(d.adbin, d.adrelid) from relation r
  join pg_catalog.pg_attrdef d on d.adrelid operator(pg_catalog.=) r.oid
  union all
  select pg_catalog.pg_get_expr(n.conbin, n.conrelid) from relation r
  join pg_catalog.pg_constraint n on n.conrelid operator(pg_catalog.=) r.oid where n.conbin is not null
  union all
  select pg_catalog.pg_get_indexdef(x.indexrelid) from relation r
  join pg_catalog.pg_index x on x.indrelid operator(pg_catalog.=) r.oid
  where x.indexprs is not null or x.indpred is not null
  union all
  select pg_catalog.pg_get_partkeydef(a.relid::pg_catalog.oid) from relation r
  cross join lateral pg_catalog.pg_partition_ancestors(r.oid::pg_catalog.regclass) a (relid)
  join pg_catalog.pg_partitioned_table q on q.partrelid operator(pg_catalog.=) a.relid::pg_catalog.oid
  where q.partexprs is not null
  union all
  select pg_catalog.concat(pg_catalog.pg_get_expr(l.polqual, l.polrelid), ' ',
    pg_catalog.pg_get_expr(l.polwithcheck, l.polrelid))
  from relation r join pg_catalog.pg_policy l on l.polrelid operator(pg_catalog.=) r.oid
  union all
  select pg_catalog.pg_get_triggerdef(t.oid) from relation r
  join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid where t.tgqual is not null
  union all
  select pg_catalog.pg_get_constraintdef(n.oid) from type k
  join pg_catalog.pg_constraint n on n.contypid operator(pg_catalog.=) k.oid
  union all
  select pg_catalog.pg_get_expr(y.typdefaultbin, 0::pg_catalog.oid) from type k
  join pg_catalog.pg_type y on y.oid operator(pg_catalog.=) k.oid where y.typdefaultbin is not null
  union all
  select pg_catalog.pg_get_expr(p.proargdefaults, 0::pg_catalog.oid) from every f
  join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) f.oid where p.proargdefaults is not null
)
select 'f', p.oid::pg_catalog.text, p.proname::pg_catalog.text, l.lanname::pg_catalog.text,
  p.provolatile::pg_catalog.text, ",
            $body,
            "
from every f join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) f.oid
join pg_catalog.pg_language l on l.oid operator(pg_catalog.=) p.prolang
where p.prokind operator(pg_catalog.<>) 'a'::pg_catalog.\"char\"
  and (p.oid operator(pg_catalog.<) 16384::pg_catalog.oid
    or p.provolatile operator(pg_catalog.=) 'v'::pg_catalog.\"char\"
    or not p.prolang operator(pg_catalog.=) any ('{12,13}'::pg_catalog.oid[]))
union all
select distinct 't', x.body, null, null, null, null, null from text x where x.body is not null
union all
select 'w', w.fdwname::pg_catalog.text,
  (pg_catalog.strpos(b.ftoptions::pg_catalog.text, 'program=') operator(pg_catalog.>) 0)::pg_catalog.text, null, null, null, null
from relation r join pg_catalog.pg_foreign_table b on b.ftrelid operator(pg_catalog.=) r.oid
join pg_catalog.pg_foreign_server s on s.oid operator(pg_catalog.=) b.ftserver
join pg_catalog.pg_foreign_data_wrapper w on w.oid operator(pg_catalog.=) s.srvfdw
union all
(select 'm', null, null, null, null, null, null from relation r offset 2000 limit 1)"
        )
    };
}

/// Before PostgreSQL 14 no function has a body that is not a text.
const CATALOGS_BEFORE_14: &str = catalogs!("p.prosrc, 'text'");

const CATALOGS: &str = catalogs!(
    "coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc),
  case when p.prosqlbody is null then 'text' else 'parsed' end"
);

/// The question for a server of that version.
pub(super) fn catalogs(server_version_num: i32) -> &'static str {
    if server_version_num < 140_000 { CATALOGS_BEFORE_14 } else { CATALOGS }
}
