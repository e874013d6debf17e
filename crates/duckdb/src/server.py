"""DuckDB for the target `duckdb:` of Plimsoll, which starts this program; all data are in memory.

Standard input is a socket. Over it goes one line: `ready VERSION`, `missing PACKAGE` or `failed REASON`. From then on each byte that arrives
is a command:

    o   opens a connection: a socket comes with the byte
    c   cancels the statements of all connections

The program ends when that socket is closed, which the kernel does however Plimsoll ends.

A message on a connection is a byte for its kind, the length of its body in 8 bytes (little-endian), and the body. Requests, each of which has
one answer:

    q   runs a query; the answer is an Arrow stream
    x   runs statements; the answer is empty
    b   keeps the rows of an Arrow stream, of which `batch` is the name in later statements; the answer is empty

The kind of an answer is `d` (done) or `e`, an error, whose body is the text.
"""

import contextlib
import os
import socket
import struct
import sys
import threading

HEAD = struct.Struct("<cQ")


def query(cursor, body):
    # A relation: with `execute`, DuckDB would copy the rows once more before they are Arrow's.
    table = cursor.sql(body.decode()).to_arrow_table()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def execute(cursor, body):
    cursor.execute(body.decode())
    return b""


def keep(cursor, body):
    cursor.register("batch", pyarrow.ipc.open_stream(body).read_all())
    return b""


REQUESTS = {b"q": query, b"x": execute, b"b": keep}


def serve(connection, cursor):
    requests = connection.makefile("rb")
    try:
        while len(head := requests.read(HEAD.size)) == HEAD.size:
            kind, length = HEAD.unpack(head)
            body = requests.read(length)
            if len(body) < length:
                return
            try:
                kind, answer = b"d", REQUESTS[kind](cursor, body)
            # Whatever it is, it is the answer; the connection is sound.
            except Exception as error:
                kind, answer = b"e", str(error).encode()
            connection.sendall(HEAD.pack(kind, len(answer)))
            connection.sendall(answer)
    except OSError:
        # The other side is gone.
        pass
    finally:
        cursors.discard(cursor)
        cursor.close()


def connect(connection, database):
    try:
        cursor = database.cursor()
        cursors.add(cursor)
        threading.Thread(target=serve, args=(connection, cursor), daemon=True).start()
    # The others go on. This one learns of it when it asks.
    except Exception as error:
        print(f"duckdb: no connection could be opened: {error}", file=sys.stderr)
        connection.close()


def listen(control, database):
    while True:
        command, sockets, _, _ = socket.recv_fds(control, 1, 1)
        if not command:
            return
        for number in sockets:
            connect(socket.socket(fileno=number), database)
        if command == b"c":
            for cursor in list(cursors):
                # One that has just been closed has nothing to cancel.
                with contextlib.suppress(duckdb.Error):
                    cursor.interrupt()


def open_database():
    # What does not fit in memory is not written elsewhere, and nothing is fetched or read: the data are those that are sent.
    database = duckdb.connect(":memory:", config={"temp_directory": "", "autoinstall_known_extensions": False, "autoload_known_extensions": False})
    database.execute("SET enable_external_access = false")
    return database


control = socket.socket(fileno=os.dup(sys.stdin.fileno()))
cursors = set()
try:
    import duckdb
    import pyarrow

    database = open_database()
except ModuleNotFoundError as error:
    control.sendall(f"missing {error.name}\n".encode())
    sys.exit()
except Exception as error:
    control.sendall(f"failed {' '.join(str(error).split())}\n".encode())
    sys.exit()
try:
    control.sendall(f"ready {duckdb.__version__}\n".encode())
    listen(control, database)
finally:
    # At once: threads may be in the middle of a query.
    os._exit(0)
