#!/bin/sh
# In the JSON of Google Benchmark, a benchmark that failed has the time 0: `skip_with_error("launch failed")` gives "real_time": 0.0 with
# "time_unit": "ns", and only "error_occurred" tells it from a result. And with repetitions, the coefficient of variation is a row like any
# other, "real_time": 0.03 in "ns", beside means of 800 ns. In the CSV, the time of the failure and the unit of the coefficient are empty.
# One would expect no time, or null, where nothing was timed, and no unit of time on a ratio.
# Package: google-benchmark 1.9.5 (of C++, with its binding for Python), no GPU is needed.
# Variants of a kernel are compared by such files: the minimum, or a sort by time, names the variant that did not run.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'google-benchmark==1.9.5'
cat >bench.py <<'EOF'
import google_benchmark


@google_benchmark.register(name="plain")
def plain(state):
    while state:
        sum(range(100))


@google_benchmark.register(name="failing")
def failing(state):
    state.skip_with_error("launch failed")
    while state:
        pass


google_benchmark.main()
EOF
for format in json csv; do
    env/bin/python bench.py --benchmark_format=$format --benchmark_repetitions=3 --benchmark_min_time=0.01s >out.$format 2>log || { cat log; exit 1; }
done
cat >check.py <<'EOF'
import csv
import json
from importlib.metadata import version
from pathlib import Path

print("google-benchmark", version("google-benchmark"))
rows = json.loads(Path("out.json").read_text())["benchmarks"]
for row in rows:
    print({key: row[key] for key in ("name", "aggregate_unit", "real_time", "time_unit", "error_message") if key in row})
fastest = min(rows, key=lambda row: row["real_time"])
print("the fastest:", fastest["name"])
ran = min((row for row in rows if "error_occurred" not in row), key=lambda row: row["real_time"])
print("the fastest of those that ran:", ran["name"], ran["real_time"], ran["time_unit"])
table = {row["name"]: row for row in csv.DictReader(Path("out.csv").read_text().splitlines())}
print("CSV: time of the failure", repr(table["failing"]["real_time"]), "unit of the ratio", repr(table["plain_cv"]["time_unit"]))
assert (fastest["name"], fastest["real_time"], fastest["time_unit"]) == ("failing", 0.0, "ns"), "the behaviour has changed"
assert (ran["name"], ran["time_unit"]) == ("plain_cv", "ns") and ran["real_time"] < 1, "the behaviour has changed"
assert table["failing"]["real_time"] == table["plain_cv"]["time_unit"] == "", "the behaviour has changed"
EOF
env/bin/python check.py
