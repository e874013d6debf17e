"""psycopg: a comment in the first statement names the class. See ../README.md."""

import psycopg

TAG = "/*class='nightly'*/"

with psycopg.connect("") as connection:
    for _ in range(2):
        with connection.transaction():
            connection.execute(f"{TAG} SELECT count(*) FROM hot")
            connection.execute("SELECT 1")
    with connection.transaction():
        connection.execute("SELECT 1")

with psycopg.connect("", autocommit=True) as connection:
    connection.execute(f"{TAG} SELECT 1")
    connection.execute("SELECT 1")

print("ok class")
