#!/bin/sh
# DuckDB rounds numbers of a file without a word: behind 30,000 rows whose times are whole, `select time from 'log.jsonl'` gives 0 for a time of 0.4
# and 2 for 1.5; `'log.csv'`, too. It chooses BIGINT by the first 20,480 rows or fewer, and then converts. Behind 1,000 such rows, the
# column is DOUBLE. polars ends with an error, pyarrow reads the file. One would expect an error, which a word in the column gives.
# Packages: duckdb 2.0.1, pyarrow 26.0.1 beside it. With sample_size=-1, it looks at all rows.
# Logs of tuning are long files of times, and 1.0 is written as 1 by JavaScript, jq and many programs: the least time becomes 0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'duckdb==2.0.1' 'pyarrow==26.0.1'
cat >check.py <<'EOF'
from pathlib import Path

import duckdb
import pyarrow.csv
import pyarrow.json

print("duckdb", duckdb.__version__)
LAST = [0.4, 1.5]
readers = {"jsonl": ("read_json", pyarrow.json.read_json), "csv": ("read_csv", pyarrow.csv.read_csv)}


def last(source):
    found = duckdb.sql(f"select time, typeof(time) from {source}").fetchall()[-2:]
    return [row[0] for row in found], found[0][1]


for rows in (1_000, 30_000):
    times = [3] * rows + LAST
    Path("log.jsonl").write_text("".join(f'{{"time": {time}}}\n' for time in times))
    Path("log.csv").write_text("time\n" + "".join(f"{time}\n" for time in times))
    for kind, (function, read) in readers.items():
        found, all_rows = last(f"'log.{kind}'"), last(f"{function}('log.{kind}', sample_size=-1)")
        other = read(f"log.{kind}")["time"].to_pylist()[-2:]
        print(f"{kind}, {rows} whole times first: {found}, with sample_size=-1 {all_rows}; pyarrow {other}")
        assert all_rows == (LAST, "DOUBLE") and other == LAST, "the behaviour has changed"
        expected = (LAST, "DOUBLE") if rows == 1_000 else ([0, 2], "BIGINT")
        assert found == expected, "the behaviour has changed"
for kind in readers:
    path = Path(f"log.{kind}")
    path.write_text(path.read_text().replace("1.5", '"slow"' if kind == "jsonl" else "slow"))
    try:
        print(last(f"'log.{kind}'"))
    except duckdb.Error as error:
        print(f"{kind} with a word:", str(error).splitlines()[0][:100])
    else:
        raise AssertionError("the behaviour has changed")
EOF
env/bin/python check.py
