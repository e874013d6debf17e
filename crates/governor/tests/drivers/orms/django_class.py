"""Django: an execute wrapper tags the statements of a block. See ../README.md."""

import os

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "PASSWORD": os.environ["PGPASSWORD"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
        }
    }
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402


class Hot(models.Model):
    low = models.BigIntegerField()

    class Meta:
        app_label = "checks"
        db_table = "hot"
        managed = False


def nightly(execute, sql, params, many, context):
    return execute(f"{sql} /*class='nightly'*/", params, many, context)


for _ in range(2):
    with connection.execute_wrapper(nightly), transaction.atomic():
        assert Hot.objects.filter(id__gt=0).count() == 3
        assert list(Hot.objects.filter(id=1).values_list("id")) == [(1,)]
with transaction.atomic():
    assert Hot.objects.count() == 3

# Django commits each statement by itself outside of `atomic`.
with connection.execute_wrapper(nightly):
    assert Hot.objects.filter(id=2).exists()

connection.close()
print("ok class")
