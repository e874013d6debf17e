#!/usr/bin/env python3
"""The 22 TPC-H queries on DuckDB, on the data and texts that `--export DIR` of the bench beside this file wrote.

    cargo bench -p plimsoll-engine --bench tpch -- --export /tmp/tpch
    pip install duckdb pyarrow
    python3 crates/engine/benches/duckdb_tpch.py /tmp/tpch [--threads N] [--repeats N]

Prints one line per query: the best time in milliseconds, all rows fetched. Tables are DuckDB's own, in memory.
"""

import argparse
import pathlib
import time

import duckdb
import pyarrow as pa


def load(connection, folder):
    for path in sorted(folder.glob("*.arrows")):
        with pa.ipc.open_stream(path) as reader:
            data = reader.read_all()  # noqa: F841 - DuckDB finds it by name
            connection.execute(f"create table {path.stem} as select * from data")


def best(connection, sql, repeats):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        connection.execute(sql).fetchall()
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    connection = duckdb.connect(config={"threads": arguments.threads})
    load(connection, arguments.folder)
    print(f"DuckDB {duckdb.__version__}, {arguments.threads} threads, best of {arguments.repeats}")
    total = 0.0
    for number in range(1, 23):
        sql = (arguments.folder / f"q{number}.sql").read_text()
        milliseconds = best(connection, sql, arguments.repeats)
        total += milliseconds
        print(f"{f'q{number}':<6} {milliseconds:9.1f}")
    print(f"{'sum':<6} {total:9.1f}")


if __name__ == "__main__":
    main()
