#!/usr/bin/env python3
"""Measures the time and memory of `ergo finalize` for runs of 10,000 and 100,000 queries.

usage: bench/records.py ERGO [PYTHON]

ERGO is the binary. PYTHON is an interpreter with `datasets`; with it, the script also measures the peer, which writes
records as other tools do: a list of dicts and `Dataset.from_list(...).save_to_disk(...)` after every 100 records.
"""

import json
import pathlib
import sys
import tempfile

from commands import run

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PEER = """
import json, sys, time, datasets
datasets.disable_progress_bars()
source, count, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = [row for row in datasets.load_from_disk(source).select(range(count))]
started = time.time()
records = []
for row in rows:
    records.append(row)
    if len(records) % every == 0:
        datasets.Dataset.from_list(records).save_to_disk(source + '-peer')
print(time.time() - started)
"""


def main():
    ergo, python = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    lines = (REPOSITORY / "assets/datasets/builtin.jsonl").read_text().splitlines()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for count in (10_000, 100_000):
            dataset = folder / f"set{count}.jsonl"
            dataset.write_text("\n".join(lines[number % len(lines)] for number in range(count)))
            runs = folder / f"runs{count}"
            whole = run(ergo, "profile", "--quiet", "--idle", "0s", "--dataset", dataset, "--output-dir", runs)
            (path,) = runs.iterdir()
            finalize = run(ergo, "finalize", "--quiet", "--format", "json", path)
            summary = json.loads(finalize[2])
            assert summary["total_queries"] == count
            size = sum(file.stat().st_size for file in path.iterdir() if file.is_file()) / 1e6
            results[count] = finalize
            print(f"{count:7,} records: run {whole[0]:6.1f} s ({summary['duration_s']:.1f} s of requests), peak {whole[1]:4.0f} MB;"
                  f" finalize {finalize[0]:5.2f} s, {finalize[0] / count * 1e6:4.0f} us per record, peak {finalize[1]:4.0f} MB; files {size:.0f} MB")
        small, large = results[10_000], results[100_000]
        print(f"100,000 records take {large[0] / small[0]:.1f} times the time and {large[1] / small[1]:.2f} times the memory of 10,000")
        if python:
            (path,) = (folder / "runs10000").iterdir()
            for count in (1_000, 2_000):
                seconds = float(run(python, "-c", PEER, path, count, 100)[2])
                print(f"peer: {count:,} records, saved after every 100: {seconds:.1f} s, {seconds / count * 1e6:.0f} us per record")


if __name__ == "__main__":
    main()
