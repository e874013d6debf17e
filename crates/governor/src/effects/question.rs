//! Questions for the server, in SQL that means the same in every session.
//!
//! The client may have set any `search_path`, and other users may have created functions, operators and tables that this path
//! finds first. The questions therefore qualify every table, function, type and operator. They avoid `IN`, `BETWEEN`,
//! `NULLIF`, `USING` and `IS DISTINCT FROM`, because these look up an operator without a schema.
//!
//! The questions are not recursive; [`Inquiry`](super::Inquiry) asks again instead. The planner overestimates the cost
//! of a recursive query so far that the server would compile it (`jit`).
//!
//! Objects that PostgreSQL does not provide have numbers from 16384 on.

/// The texts of prepared statements, by name.
pub(super) const PREPARED: &str = "select p.name, p.statement from pg_catalog.pg_prepared_statements p \
    where p.name operator(pg_catalog.=) any ($1::pg_catalog.text[])";

/// Whether the session has cursors. Those that remain after ROLLBACK are older than the transaction. The cursor without a name
/// is the portal that runs this question.
pub(super) const CURSORS: &str = "select 'cursor' from pg_catalog.pg_cursors c \
    where c.name operator(pg_catalog.<>) ''::pg_catalog.text limit 1";

/// The numbers of relations (`R`), functions (`F`) and types (`T`) with given names.
///
/// Parameters: the names; whether to add the functions of event triggers; whether to add the functions of casts, operators
/// and indexes, which run without being named. The latter may be thousands in C, so those that are not volatile are left out.
pub(super) const NAMED: &str = "\
select 'R', c.oid::pg_catalog.text from pg_catalog.pg_class c
where c.relname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  and c.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 'F', p.oid::pg_catalog.text from pg_catalog.pg_proc p
where p.proname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  and p.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 'T', y.oid::pg_catalog.text from pg_catalog.pg_type y
where y.typname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  and y.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 'F', e.evtfoid::pg_catalog.text from pg_catalog.pg_event_trigger e
where $2::pg_catalog.bool and e.evtevent operator(pg_catalog.<>) 'login'::pg_catalog.name
union all
select 'F', p.oid::pg_catalog.text from (
  select c.castfunc from pg_catalog.pg_cast c
  where $3::pg_catalog.bool and c.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union all
  select o.oprcode::pg_catalog.oid from pg_catalog.pg_operator o
  where $3::pg_catalog.bool and o.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
  union all
  select a.amproc::pg_catalog.oid from pg_catalog.pg_amproc a
  where $3::pg_catalog.bool and a.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
) called (oid) join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) called.oid
where p.oid operator(pg_catalog.<) 16384::pg_catalog.oid
  or p.provolatile operator(pg_catalog.=) 'v'::pg_catalog.\"char\"
  or not p.prolang operator(pg_catalog.=) any ('{12,13}'::pg_catalog.oid[])";

/// The properties of relations, functions and types with given numbers.
///
/// Rows: numbers of further objects (`R`, `F`, `T`); expressions and queries (`t`, text); functions (`f`, number, name,
/// language, volatility, body, form of the body); wrappers of foreign tables (`w`, name, whether it runs a program).
///
/// The numbers from 1646 to 1653 are the trigger functions of foreign keys with ON DELETE or ON UPDATE CASCADE, SET NULL or
/// SET DEFAULT.
macro_rules! details {
    ($body:literal) => {
        concat!(
            "\
select 'R', i.inhrelid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_inherits i
where i.inhparent operator(pg_catalog.=) any ($1::pg_catalog.oid[])
union all
select 'R', t.tgconstrrelid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) t.tgconstrrelid
where t.tgrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and (c.relforcerowsecurity
  or t.tgfoid operator(pg_catalog.=) any ('{1646,1647,1650,1651,1652,1653}'::pg_catalog.oid[]))
union all
select 'F', t.tgfoid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_trigger t
where t.tgrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
  and t.tgfoid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 'T', a.atttypid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_attribute a
where a.attrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
  and a.atttypid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 't', pg_catalog.pg_get_viewdef(c.oid), null, null, null, null, null from pg_catalog.pg_class c
where c.oid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
  and c.relkind operator(pg_catalog.=) any ('{v,m}'::pg_catalog.\"char\"[])
union all
select 't', pg_catalog.pg_get_ruledef(w.oid), null, null, null, null, null from pg_catalog.pg_rewrite w
where w.ev_class operator(pg_catalog.=) any ($1::pg_catalog.oid[])
  and w.rulename operator(pg_catalog.<>) '_RETURN'::pg_catalog.name
union all
select distinct 't', pg_catalog.pg_get_expr(d.adbin, d.adrelid), null, null, null, null, null
from pg_catalog.pg_attrdef d where d.adrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
union all
select distinct 't', pg_catalog.pg_get_expr(n.conbin, n.conrelid), null, null, null, null, null
from pg_catalog.pg_constraint n
where n.conrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and n.conbin is not null
union all
select 't', pg_catalog.pg_get_indexdef(x.indexrelid), null, null, null, null, null from pg_catalog.pg_index x
where x.indrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
  and (x.indexprs is not null or x.indpred is not null)
union all
select distinct 't', pg_catalog.pg_get_partkeydef(a.relid::pg_catalog.oid), null, null, null, null, null
from pg_catalog.unnest($1::pg_catalog.oid[]) r (oid)
cross join lateral pg_catalog.pg_partition_ancestors(r.oid::pg_catalog.regclass) a (relid)
union all
select 't', pg_catalog.concat(pg_catalog.pg_get_expr(l.polqual, l.polrelid), ' ',
  pg_catalog.pg_get_expr(l.polwithcheck, l.polrelid)), null, null, null, null, null from pg_catalog.pg_policy l
where l.polrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
union all
select 't', pg_catalog.pg_get_triggerdef(t.oid), null, null, null, null, null from pg_catalog.pg_trigger t
where t.tgrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and t.tgqual is not null
union all
select 'w', w.fdwname::pg_catalog.text,
  (pg_catalog.strpos(b.ftoptions::pg_catalog.text, 'program=') operator(pg_catalog.>) 0)::pg_catalog.text,
  null, null, null, null
from pg_catalog.pg_foreign_table b
join pg_catalog.pg_foreign_server s on s.oid operator(pg_catalog.=) b.ftserver
join pg_catalog.pg_foreign_data_wrapper w on w.oid operator(pg_catalog.=) s.srvfdw
where b.ftrelid operator(pg_catalog.=) any ($1::pg_catalog.oid[])
union all
select 'f', p.oid::pg_catalog.text, p.proname::pg_catalog.text, l.lanname::pg_catalog.text,
  p.provolatile::pg_catalog.text, ",
            $body,
            "
from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid operator(pg_catalog.=) p.prolang
where p.oid operator(pg_catalog.=) any ($2::pg_catalog.oid[])
  and p.prokind operator(pg_catalog.<>) 'a'::pg_catalog.\"char\"
union all
select 'F', support.oid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_aggregate g
cross join lateral (values (g.aggtransfn::pg_catalog.oid), (g.aggfinalfn::pg_catalog.oid),
  (g.aggcombinefn::pg_catalog.oid), (g.aggserialfn::pg_catalog.oid), (g.aggdeserialfn::pg_catalog.oid),
  (g.aggmtransfn::pg_catalog.oid), (g.aggminvtransfn::pg_catalog.oid), (g.aggmfinalfn::pg_catalog.oid)) support (oid)
where g.aggfnoid operator(pg_catalog.=) any ($2::pg_catalog.oid[])
union all
select 'T', argument.oid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_proc p
cross join lateral (
  select p.prorettype union all select pg_catalog.unnest(p.proargtypes::pg_catalog.oid[])
  union all select pg_catalog.unnest(p.proallargtypes)
) argument (oid)
where p.oid operator(pg_catalog.=) any ($2::pg_catalog.oid[])
  and argument.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 't', pg_catalog.pg_get_expr(p.proargdefaults, 0::pg_catalog.oid), null, null, null, null, null
from pg_catalog.pg_proc p
where p.oid operator(pg_catalog.=) any ($2::pg_catalog.oid[]) and p.proargdefaults is not null
union all
select 'T', part.oid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_type y
cross join lateral (
  select y.typbasetype union all select y.typelem
  union all select a.atttypid from pg_catalog.pg_attribute a where a.attrelid operator(pg_catalog.=) y.typrelid
  union all select g.rngsubtype from pg_catalog.pg_range g where g.rngtypid operator(pg_catalog.=) y.oid
    or y.typtype operator(pg_catalog.=) 'm'::pg_catalog.\"char\"
) part (oid)
where y.oid operator(pg_catalog.=) any ($3::pg_catalog.oid[])
  and part.oid operator(pg_catalog.>=) 16384::pg_catalog.oid
union all
select 'F', support.oid::pg_catalog.text, null, null, null, null, null from pg_catalog.pg_range g
cross join lateral (values (g.rngcanonical::pg_catalog.oid), (g.rngsubdiff::pg_catalog.oid)) support (oid)
where g.rngtypid operator(pg_catalog.=) any ($3::pg_catalog.oid[])
union all
select 't', pg_catalog.pg_get_constraintdef(n.oid), null, null, null, null, null from pg_catalog.pg_constraint n
where n.contypid operator(pg_catalog.=) any ($3::pg_catalog.oid[])
union all
select 't', pg_catalog.pg_get_expr(y.typdefaultbin, 0::pg_catalog.oid), null, null, null, null, null
from pg_catalog.pg_type y
where y.oid operator(pg_catalog.=) any ($3::pg_catalog.oid[]) and y.typdefaultbin is not null"
        )
    };
}

/// Before PostgreSQL 14, every body is a text.
const DETAILS_BEFORE_14: &str = details!("p.prosrc, 'text'");

const DETAILS: &str = details!(
    "coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc),
  case when p.prosqlbody is null then 'text' else 'parsed' end"
);

/// The question about properties, for a server of the given version.
pub(super) fn details(server_version_num: u32) -> &'static str {
    if server_version_num < 140_000 { DETAILS_BEFORE_14 } else { DETAILS }
}
