#!/usr/bin/env bash
# psql, which is libpq and the simple protocol: see ../README.md. Where to connect is in libpq's variables.
set -euo pipefail

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
readonly contenders=6 rounds=12

fail() {
    printf 'failed at line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

# psql that prints bare values and codes of errors.
readonly psql=(psql --no-psqlrc --quiet --no-align --tuples-only --set ON_ERROR_STOP=1 --set VERBOSITY=sqlstate)

# Runs a script from standard input.
run() {
    "${psql[@]}" "$@"
}

# What a script says, on both of its outputs, must be this.
says() {
    local said
    said="$(run "${@:2}" 2>&1)" || true
    [ "$said" = "$1" ] || fail "expected $(printf '%q' "$1"), psql said $(printf '%q' "$said")"
}

connect() {
    says "psql checks" <<<"set application_name = 'psql checks'; show application_name"
    [ "$(PGAPPNAME=named run -c 'show application_name')" = named ] || fail "application_name"
    [ "$(run -d "sslmode=disable options='-c work_mem=5MB'" -c 'show work_mem')" = 5MB ] || fail "options"
    if PGPASSWORD=wrong run -c 'select 1' 2>"$folder/refused"; then fail "a wrong password is let in"; fi
    grep -q 'password authentication failed' "$folder/refused" || fail "$(cat "$folder/refused")"
    if PGDATABASE=nowhere run -c 'select 1' 2>"$folder/refused"; then fail "a database that is not there"; fi
    grep -q '"nowhere" does not exist' "$folder/refused" || fail "$(cat "$folder/refused")"
}

simple() {
    says $'42\nzwei' <<<"select 6 * 7 \; select 'zwei';"
    # One message with several statements is one transaction, and what follows its error is not run.
    says $'1\nERROR:  22012\n0' --set ON_ERROR_STOP=0 <<<"create temp table t (n int); \echo 1
        insert into t values (1) \; select 1 / 0 \; insert into t values (2);
        select count(*) from t"
    says $'3' <<<"create temp table t (n int); insert into t select generate_series(1, 3); select count(*) from t"
    says "" <<<";"
}

prepared() {
    says $'3\n5\nERROR:  26000' <<<"prepare sum (int, int) as select \$1 + \$2; execute sum (1, 2); execute sum (2, 3);
        deallocate sum; execute sum (1, 1)"
    says 5050 <<<"\\set FETCH_COUNT 7
        create temp table numbers as select generate_series(1, 100) n; select n from numbers \\g $folder/numbers
        select sum(n) from numbers"
    [ "$(awk '{ total += $1 } END { print total }' "$folder/numbers")" = 5050 ] || fail "rows by cursor"
}

copy() {
    seq 1 20000 | sed 's/.*/&\trow &/' >"$folder/in"
    says $'20000\nERROR:  23505' <<<"create temp table copied (id int primary key, text text);
        \\copy copied from '$folder/in'
        \\copy copied to '$folder/out'
        select count(*) from copied;
        \\copy copied from '$folder/in'
        select 'not reached'"
    cmp "$folder/in" "$folder/out" || fail "what was copied in came out differently"
    says $'2\n1\n7' <<<"create temp table copied (text text);
copy copied from stdin;
one
two
\\.
select count(*) from copied; delete from copied where text = 'two'; select count(*) from copied;
copy (select 7) to stdout"
}

cancel() {
    mkfifo "$folder/pipe"
    # Not by the function, which would be a process of its own that gets the signal.
    "${psql[@]}" --set ON_ERROR_STOP=0 <"$folder/pipe" >"$folder/said" 2>&1 &
    local id=$!
    exec 3>"$folder/pipe"
    echo "select 'begun'; select pg_sleep(60);" >&3
    until [ -s "$folder/said" ]; do sleep 0.05; done
    local sleeps="select count(*) from pg_stat_activity where query like '%pg\\_sleep(60)%' and wait_event = 'PgSleep'"
    until [ "$(run -c "$sleeps")" = 1 ]; do sleep 0.05; done
    # psql sends a cancel request when it is interrupted, and what is not interactive ends then.
    kill -INT $id
    exec 3>&-
    wait $id || true
    [ "$(cat "$folder/said")" = $'begun\nCancel request sent\nERROR:  57014' ] || fail "$(cat "$folder/said")"
    [ "$(run -c "$sleeps")" = 0 ] || fail "it sleeps on"
}

notify() {
    run <<<"listen psql_news; notify psql_news, 'first';" | grep -q '"psql_news" with payload "first"' || fail "notification"
}

rollback() {
    says $'ERROR:  22012\nERROR:  25P02\nERROR:  23505\n1' --set ON_ERROR_STOP=0 <<<"create temp table kept (id int primary key);
        begin; insert into kept values (1); select 1 / 0; select 1; rollback;
        \\set ON_ERROR_ROLLBACK on
        begin; insert into kept values (2); insert into kept values (2); commit; select count(*) from kept"
}

large() {
    [ "$(run -c "select repeat('x', 999) from generate_series(1, 10000)" | wc -c)" = 10000000 ] || fail "rows"
    [ "$(run -c "select repeat('y', 9999999)" | wc -c)" = 10000000 ] || fail "field"
    { printf "select length('"; head -c 5000000 /dev/zero | tr '\0' z; printf "');"; } >"$folder/long.sql"
    says 5000000 -f "$folder/long.sql"
}

notice() {
    says "NOTICE:  00000" <<<"do \$\$ begin raise notice 'hear me'; end \$\$"
    says "NOTICE:  hear me" --set VERBOSITY=terse <<<"do \$\$ begin raise notice 'hear me'; end \$\$"
}

# One contender: a script in which psql itself tries again.
contend() {
    local round said
    for ((round = 0; round < rounds; round++)); do
        until said="$(run 2>&1 <<<"begin;
            update hot set low = low + 1 where id = 1; update hot set low = low + 1 where id = 2;
            update hot set low = low + 1 where id = 3; commit;")"; do
            case "$said" in *40001* | *40P01*) ;; *) fail "$said" ;; esac
        done
    done
}

contended() {
    local before after id ids=()
    before="$(run -c 'select sum(low) from hot where id <= 3')"
    for ((id = 0; id < contenders; id++)); do
        contend &
        ids+=($!)
    done
    for id in "${ids[@]}"; do wait "$id" || fail "a contender"; done
    after="$(run -c 'select sum(low) from hot where id <= 3')"
    [ $((after - before)) = $((3 * contenders * rounds)) ] || fail "$before and then $after"
}

for check in connect simple prepared copy cancel notify rollback large notice contended; do
    $check
    echo "ok $check"
    [ $check != prepared ] || echo "none pipeline: psql has pipelines from version 18 on"
done
