#!/usr/bin/env python3
"""DuckDB for the bench beside this file: runs the queries that it is told, one after the other.

    python duckdb_tpch.py DIR --threads N

DIR has data and queries as `--export DIR` of the bench writes them. Tables are DuckDB's own, in memory. Prints `ready VERSION`
when they are loaded. For each line of input, `qN`, prints a line: seconds of the whole query with all rows fetched, seconds of
planning alone (EXPLAIN), and the number of rows.
"""

import argparse
import pathlib
import sys
import time

import duckdb
import pyarrow as pa


def load(connection, folder):
    for path in sorted(folder.glob("*.arrows")):
        with pa.ipc.open_stream(path) as reader:
            data = reader.read_all()  # noqa: F841 - DuckDB finds it by name
            connection.execute(f"create table {path.stem} as select * from data")


def timed(connection, sql):
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return time.perf_counter() - started, len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    connection = duckdb.connect(config={"threads": arguments.threads})
    load(connection, arguments.folder)
    print(f"ready {duckdb.__version__}", flush=True)
    for line in sys.stdin:
        sql = (arguments.folder / f"{line.strip()}.sql").read_text()
        planning, _ = timed(connection, "explain " + sql)
        seconds, rows = timed(connection, sql)
        print(seconds, planning, rows, flush=True)


if __name__ == "__main__":
    main()
