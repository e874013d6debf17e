"""Django: the sample transactions. See ../README.md."""

import os
import sys

import django
from django.conf import settings

settings.configure(
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "PASSWORD": os.environ["PGPASSWORD"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
        }
    },
)
django.setup()

from django.db import DatabaseError, models, transaction  # noqa: E402
from django.db.models import F  # noqa: E402


class Customer(models.Model):
    balance = models.BigIntegerField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "shares"
        db_table = "customers"
        managed = False


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.DO_NOTHING)
    total = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "shares"
        db_table = "orders"
        managed = False


class Item(models.Model):
    order = models.ForeignKey(Order, models.DO_NOTHING)
    sku = models.TextField()
    quantity = models.IntegerField()

    class Meta:
        app_label = "shares"
        db_table = "items"
        managed = False


class Gate(models.Model):
    passed = models.BigIntegerField()

    class Meta:
        app_label = "shares"
        db_table = "gate"
        managed = False


def create():
    order = Order.objects.create(customer_id=1, total=30)
    for sku in ("apple", "pear"):
        order.item_set.create(sku=sku, quantity=2)
    Customer.objects.filter(id=1).update(balance=F("balance") - 30)


def log():
    Customer.objects.filter(id=1).update(balance=F("balance") + 10)
    Order.objects.create(customer_id=1, total=10)


def change():
    customer = Customer.objects.get(id=1)
    customer.balance += 5
    customer.save()


def lock():
    customer = Customer.objects.select_for_update().get(id=1)
    customer.balance += 5
    customer.save()


def increment():
    Customer.objects.filter(id=1).update(balance=F("balance") + 1)


def bulk():
    Customer.objects.filter(id=1).update(balance=F("balance") + 1)
    Item.objects.bulk_create(Item(order_id=1, sku=f"sku {number}", quantity=1) for number in range(20))


for name in sys.stdin:
    try:
        with transaction.atomic():
            globals()[name.strip()]()
            Gate.objects.filter(id=1).update(passed=F("passed") + 1)
        print("ok", flush=True)
    except DatabaseError as error:
        print(error.__cause__.sqlstate, flush=True)
