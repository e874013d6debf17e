"""psycopg: the sample transactions, as an application without a mapper writes them. See ../README.md."""

import sys

import psycopg

connection = psycopg.connect("")


def create(cursor):
    cursor.execute("INSERT INTO orders (customer_id, total) VALUES (%s, %s) RETURNING id", (1, 30))
    (order,) = cursor.fetchone()
    for sku in ("apple", "pear"):
        cursor.execute("INSERT INTO items (order_id, sku, quantity) VALUES (%s, %s, %s)", (order, sku, 2))
    cursor.execute("UPDATE customers SET balance = balance - %s WHERE id = %s", (30, 1))


def log(cursor):
    cursor.execute("UPDATE customers SET balance = balance + %s WHERE id = %s", (10, 1))
    cursor.execute("INSERT INTO orders (customer_id, total) VALUES (%s, %s)", (1, 10))


def change(cursor):
    cursor.execute("SELECT balance FROM customers WHERE id = %s", (1,))
    (balance,) = cursor.fetchone()
    cursor.execute("UPDATE customers SET balance = %s WHERE id = %s", (balance + 5, 1))


def lock(cursor):
    cursor.execute("SELECT balance FROM customers WHERE id = %s FOR UPDATE", (1,))
    (balance,) = cursor.fetchone()
    cursor.execute("UPDATE customers SET balance = %s, updated_at = now() WHERE id = %s", (balance + 5, 1))


def increment(cursor):
    cursor.execute("UPDATE customers SET balance = balance + %s WHERE id = %s", (1, 1))


def bulk(cursor):
    cursor.execute("UPDATE customers SET balance = balance + %s WHERE id = %s", (1, 1))
    rows = [(1, f"sku {number}", 1) for number in range(20)]
    cursor.executemany("INSERT INTO items (order_id, sku, quantity) VALUES (%s, %s, %s)", rows)


for name in sys.stdin:
    try:
        with connection.transaction(), connection.cursor() as cursor:
            globals()[name.strip()](cursor)
            cursor.execute("UPDATE gate SET passed = passed + 1 WHERE id = %s", (1,))
        print("ok", flush=True)
    except psycopg.Error as error:
        print(error.sqlstate, flush=True)
