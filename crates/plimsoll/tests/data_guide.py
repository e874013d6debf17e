"""Runs what docs/data.md tells its readers to run, in a run's folder: data_guide.py GUIDE FOLDER SWEPT_KEY..."""

import os
import re
import sys

import duckdb

guide, folder, *swept = sys.argv[1:]
with open(guide) as file:
    text = file.read()
os.chdir(folder)


def blocks(language):
    """The text of every block in a language, with the line of the guide on which it begins."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks = [(text.count("\n", 0, block.start()) + 2, block.group(1)) for block in found]
    assert blocks, f"{guide} has no block of {language}"
    return blocks


def run_sql(line, query):
    """A query gives rows, none of its columns is null throughout, and what is to agree agrees."""
    table = duckdb.sql(query)
    names, rows = table.columns, table.fetchall()
    assert rows, f"{guide}:{line}: no rows"
    for number, name in enumerate(names):
        values = [row[number] for row in rows]
        assert any(value is not None for value in values), f"{guide}:{line}: {name} is null in every row"
        assert name != "agrees" or all(values), f"{guide}:{line}: {rows}"


def told_columns():
    """The rows of the guide's last table: name and type."""
    rows = text.split("## Columns of samples.parquet")[1].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")]
    for name, kind, _unit, what in cells[1:]:
        assert what, f"{name} is not explained"
        if name == "each swept key":
            yield from ((key, "DOUBLE") for key in swept)
        else:
            yield name.strip("`"), kind


for line, query in blocks("sql"):
    run_sql(line, query)

shared = {}
for line, code in blocks("python"):
    # As many empty lines before it as make a failure name the guide's own line.
    exec(compile("\n" * (line - 1) + code, guide, "exec"), shared)

there = [(name, str(kind)) for name, kind, *_ in duckdb.sql("DESCRIBE FROM 'samples.parquet'").fetchall()]
assert list(told_columns()) == there, f"\ntold:  {list(told_columns())}\nthere: {there}"
print(f"{len(blocks('sql'))} queries, {len(blocks('python'))} scripts, {len(there)} columns")
