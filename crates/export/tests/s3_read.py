"""Reads an export in a bucket by pyarrow and by an Iceberg catalog: s3_read.py ENDPOINT."""

import json
import os
import sys

import pyarrow.fs
import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog

endpoint = sys.argv[1]
key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
store = pyarrow.fs.S3FileSystem(
    access_key=key, secret_key=secret, endpoint_override=endpoint, scheme="http", region="us-east-1"
)
manifest = json.loads(store.open_input_stream("lake/shop/manifest.json").read())
paths = [f"lake/shop/{file['path']}" for file in manifest["tables"][0]["files"]]
numbers = pyarrow.parquet.read_table(paths, filesystem=store)
assert sorted(numbers["number"].to_pylist()) == [1, 2, 3], numbers

settings = {"s3.endpoint": endpoint, "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": "us-east-1"}
catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse="s3://lake/iceberg", **settings)
catalog.create_namespace("test")
table = catalog.create_table("test.numbers", numbers.schema)
table.add_files([f"s3://{path}" for path in paths])
assert table.scan(row_filter="number >= 2").to_arrow().num_rows == 2
