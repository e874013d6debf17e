#!/usr/bin/env python3
"""DuckDB for the bench beside this file: loads what it is told and runs the queries that it is told.

    python duckdb_tpch.py DIR [--file]

DIR has the texts of queries as `NAME.sql`. Tables are DuckDB's own, in memory, or with `--file` in a file, compressed and cached.
Prints `ready VERSION`. Each line of input is a command, answered by one line:

    load TABLE FILE     appends the rows of an Arrow stream to a table; answers `ok`
    threads N           answers `ok`
    query NAME          seconds of the whole query with all rows fetched, seconds of planning alone (EXPLAIN), number of rows
    clients FILE        one client for each line of the file, which runs the queries on it one after the other; answers with the
                        seconds from the first query to the end of the last, the sum of the seconds of all queries, and their number
"""

import argparse
import pathlib
import sys
import threading
import time

import duckdb
import pyarrow as pa


class Server:
    def __init__(self, folder, in_file):
        self.folder = folder
        self.connection = duckdb.connect(str(folder / "data.duckdb") if in_file else ":memory:")
        self.tables = set()

    def load(self, table, path):
        with pa.ipc.open_stream(path) as reader:
            data = reader.read_all()  # noqa: F841 - DuckDB finds it by name
            verb = f"insert into {table}" if table in self.tables else f"create table {table} as"
            self.connection.execute(f"{verb} select * from data")
        self.tables.add(table)
        return "ok"

    def threads(self, count):
        self.connection.execute(f"set threads = {int(count)}")
        return "ok"

    def sql(self, name):
        return (self.folder / f"{name}.sql").read_text()

    def query(self, name):
        sql = self.sql(name)
        planning, _ = timed(self.connection, "explain " + sql)
        seconds, rows = timed(self.connection, sql)
        return f"{seconds} {planning} {rows}"

    def clients(self, path):
        streams = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
        texts = {name: self.sql(name) for stream in streams for name in stream}
        spent, failed = [], []

        def run(stream):
            cursor = self.connection.cursor()
            try:
                for name in stream:
                    began = time.perf_counter()
                    # The rows as columns: making Python's objects of them would hold the interpreter's lock.
                    cursor.execute(texts[name]).to_arrow_table()
                    spent.append(time.perf_counter() - began)
            except duckdb.Error as error:
                failed.append(error)

        workers = [threading.Thread(target=run, args=(stream,)) for stream in streams]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failed:
            raise failed[0]
        return f"{time.perf_counter() - began} {sum(spent)} {len(spent)}"


def timed(connection, sql):
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return time.perf_counter() - started, len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--file", action="store_true")
    arguments = parser.parse_args()
    server = Server(arguments.folder, arguments.file)
    print(f"ready {duckdb.__version__}", flush=True)
    commands = {"load": server.load, "threads": server.threads, "query": server.query, "clients": server.clients}
    for line in sys.stdin:
        command, *words = line.split()
        try:
            print(commands[command](*words), flush=True)
        except duckdb.Error as error:
            print("error", str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
