"""SQLAlchemy: the sample transactions. See ../README.md."""

import os
import sys

from sqlalchemy import URL, BigInteger, DateTime, ForeignKey, create_engine, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

engine = create_engine(
    URL.create(
        "postgresql+psycopg",
        username=os.environ["PGUSER"],
        password=os.environ["PGPASSWORD"],
        host=os.environ["PGHOST"],
        port=int(os.environ["PGPORT"]),
        database=os.environ["PGDATABASE"],
    )
)


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    balance: Mapped[int] = mapped_column(BigInteger)
    updated_at = mapped_column(DateTime(timezone=True), server_default=func.now(), onupdate=func.now())


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customers.id"))
    total: Mapped[int] = mapped_column(BigInteger)
    created_at = mapped_column(DateTime(timezone=True), server_default=func.now())
    items: Mapped[list["Item"]] = relationship()


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    sku: Mapped[str]
    quantity: Mapped[int]


class Gate(Base):
    __tablename__ = "gate"
    id: Mapped[int] = mapped_column(primary_key=True)
    passed: Mapped[int] = mapped_column(BigInteger)


def add(session, amount):
    session.execute(update(Customer).where(Customer.id == 1).values(balance=Customer.balance + amount))


def create(session):
    items = [Item(sku=sku, quantity=2) for sku in ("apple", "pear")]
    session.add(Order(customer_id=1, total=30, items=items))
    session.flush()
    add(session, -30)


def log(session):
    add(session, 10)
    session.add(Order(customer_id=1, total=10))
    session.flush()


def change(session):
    session.get(Customer, 1).balance += 5
    session.flush()


def lock(session):
    session.get(Customer, 1, with_for_update=True).balance += 5
    session.flush()


def increment(session):
    add(session, 1)


def bulk(session):
    add(session, 1)
    session.add_all(Item(order_id=1, sku=f"sku {number}", quantity=1) for number in range(20))
    session.flush()


for name in sys.stdin:
    try:
        with Session(engine) as session, session.begin():
            globals()[name.strip()](session)
            session.execute(update(Gate).where(Gate.id == 1).values(passed=Gate.passed + 1))
        print("ok", flush=True)
    except DBAPIError as error:
        print(error.orig.sqlstate, flush=True)
