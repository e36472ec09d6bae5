#!/usr/bin/env python3
"""What a record costs: a run of 10,000 and one of 100,000 queries, closed, beside the usual way of writing them.

    bench/records.py ERGO [PYTHON]

ERGO is the binary. PYTHON is an interpreter with `datasets`, the peer; without it the peer is left out. The peer is what
the field's tools do: records as a list of dicts, `Dataset.from_list(...).save_to_disk(...)` after every 100 of them.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PEER = """
import json, sys, time, datasets
datasets.disable_progress_bars()
source, count, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = [row for row in datasets.load_from_disk(source).select(range(count))]
started = time.time()
kept = []
for row in rows:
    kept.append(row)
    if len(kept) % every == 0:
        datasets.Dataset.from_list(kept).save_to_disk(source + '-peer')
print(time.time() - started)
"""


def run(*command):
    """Seconds and peak memory in MB of a command."""
    started = time.time()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.time() - started, usage.ru_maxrss / 1e3, out


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
            closing = run(ergo, "finalize", "--quiet", "--format", "json", path)
            summary = json.loads(closing[2])
            assert summary["total_queries"] == count
            size = sum(file.stat().st_size for file in path.iterdir() if file.is_file()) / 1e6
            results[count] = closing
            print(f"{count:7,} records: run {whole[0]:6.1f} s ({summary['duration_s']:.1f} s of requests), peak {whole[1]:4.0f} MB;"
                  f" closed again in {closing[0]:5.2f} s, {closing[0] / count * 1e6:4.0f} us each, peak {closing[1]:4.0f} MB; {size:.0f} MB of files")
        small, large = results[10_000], results[100_000]
        print(f"100,000 take {large[0] / small[0]:.1f} times what 10,000 take; memory {large[1] / small[1]:.2f} times")
        if python:
            (path,) = (folder / "runs10000").iterdir()
            for count in (1_000, 2_000):
                seconds = float(run(python, "-c", PEER, path, count, 100)[2])
                print(f"peer: {count:,} records, saved after every 100: {seconds:.1f} s, {seconds / count * 1e6:.0f} us each")


if __name__ == "__main__":
    main()
