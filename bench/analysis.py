#!/usr/bin/env python3
"""Measures analyze, compare, plot and report on runs of 10,000 and 100,000 queries.

usage: bench/analysis.py ERGO [PYTHON]

ERGO is the binary. PYTHON is an interpreter with `datasets` and `numpy`; with it, the script also measures the peer,
which computes two of the five regressions as other tools do: it iterates over the records with
`datasets.load_from_disk`, collects pairs in lists and calls `numpy.polyfit`. The lines of both must agree to 1e-9.
"""

import json
import pathlib
import sys
import tempfile

from commands import run

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PEER = """
import json, sys, datasets, numpy
datasets.disable_progress_bars()
pairs = {"input_tokens_vs_ttft": [], "total_tokens_vs_latency": []}
for row in datasets.load_from_disk(sys.argv[1]):
    (metrics,) = row["model_metrics"].values()
    tokens, latency = metrics["token_metrics"], metrics["latency_metrics"]
    if tokens["input"] is not None and latency["time_to_first_token_seconds"] is not None:
        pairs["input_tokens_vs_ttft"].append((tokens["input"], latency["time_to_first_token_seconds"]))
    if tokens["total"] is not None and latency["total_query_seconds"] is not None:
        pairs["total_tokens_vs_latency"].append((tokens["total"], latency["total_query_seconds"]))
fits = {}
for name, samples in pairs.items():
    x, y = numpy.array(samples, dtype=float).T
    slope, intercept = numpy.polyfit(x, y, 1)
    fits[name] = {"count": len(x), "slope": float(slope), "intercept": float(intercept)}
print(json.dumps(fits))
"""


def main():
    ergo, python = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    lines = (REPOSITORY / "assets/datasets/builtin.jsonl").read_text().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for count in (10_000, 100_000):
            dataset = folder / f"set{count}.jsonl"
            dataset.write_text("\n".join(lines[number % len(lines)] for number in range(count)))
            runs = folder / f"runs{count}"
            run(ergo, "profile", "--quiet", "--idle", "0s", "--dataset", dataset, "--output-dir", runs)
            (path,) = runs.iterdir()
            commands = {
                "analyze": ("analyze", path),
                "analyze, regressions only": ("analyze", path, "--analysis", "regression"),
                "compare with itself": ("compare", path, path),
                "plot": ("plot", path),
                "report": ("report", path),
            }
            times = {}
            for name, arguments in commands.items():
                times[name], memory, _ = run(ergo, *arguments)
                print(f"{count:7,} queries: {name:<27} {times[name]:6.2f} s, peak {memory:4.0f} MB", flush=True)
            print(f"{count:7,} queries: report.html is {(path / 'report.html').stat().st_size / 1e6:.1f} MB")
            if python:
                seconds, memory, out = run(python, "-c", PEER, path)
                ours = json.loads((path / "analysis/regression.json").read_text())["data"]["regressions"]
                for name, theirs in json.loads(out).items():
                    for figure, value in theirs.items():
                        assert abs(ours[name][figure] - value) <= 1e-9 * max(abs(value), 1e-3), (name, figure)
                alone = times["analyze, regressions only"]
                print(f"{count:7,} queries: {'peer, two regressions':<27} {seconds:6.2f} s, peak {memory:4.0f} MB;"
                      f" {seconds / alone:.0f} times as long; the lines agree to 1e-9")


if __name__ == "__main__":
    main()
