"""Runs the recipes of docs/export.md in a folder with an export `out` of tpch: export_guide.py GUIDE."""

import re
import sys

(guide,) = sys.argv[1:]
with open(guide) as file:
    text = file.read()

shared = {}
blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
assert len(blocks) == 2, f"{guide} has {len(blocks)} recipes"
for block in blocks:
    # As many empty lines before it as make a failure name the guide's own line.
    lines = text.count("\n", 0, block.start()) + 1
    exec(compile("\n" * lines + block.group(1), guide, "exec"), shared)

rows = {table["name"]: table["rows"] for table in shared["manifest"]["tables"]}
assert len(shared["nations"]) == rows["nation"] == 25
assert len(shared["lineitems"]) == rows["lineitem"] == 60_175
for table in shared["manifest"]["tables"]:
    types = {column["name"]: column["type"] for column in table["columns"]}
    described = shared["duckdb"].read_parquet(shared["files"][table["name"]])
    found = {name: str(kind).lower() for name, kind in zip(described.columns, described.types)}
    assert {name: kind.replace("varchar", "text") for name, kind in found.items()} == types, (found, types)
    registered = shared["catalog"].load_table((table["schema"], table["name"])).scan().to_arrow()
    assert registered.num_rows == table["rows"], table["name"]
lineitems = shared["lineitems"]
[(expected,)] = shared["duckdb"].sql("SELECT count(*) FROM lineitems WHERE l_quantity >= 50").fetchall()
assert shared["lineitem"].num_rows == expected > 0
assert shared["revenue"] > 0
