#!/usr/bin/env python3
"""Compares the mean TTFT, TPOT and E2E latency of `ergo profile` with those that vLLM measures for the same requests.

usage: bench/clocks.py ERGO PYTHON [--concurrency 1,4,16] [--requests N] [--prompt N] [--tokens N] [--url URL]

PYTHON has vLLM, for example the environment that bench/load.py creates: target/bench-load/vllm/bin/python. The script
writes a model with random weights (bench/random_llama.py), starts a vLLM server with it, and reads the server's
/metrics before and after each run of `ergo profile`. The sum and the count of a histogram give the exact mean. With
--url it uses a server that already runs and has that model under the name `random`. The table is Markdown. The script
exits with 1 if a mean differs by more than 2 %.

Answers end in two ways. With --ignore-eos, each answer has the maximum number of tokens. Without it, a logit bias makes
the end-of-sequence token likely, so the answers have different lengths, and their last token has no text.

What vLLM measures:
TTFT  from when the API server has parsed the request to when it receives the first token from the engine
TPOT  from the first to the last token in the engine, over the number of tokens after the first; mean of requests
E2E   from when the API server has parsed the request to when it receives the last token from the engine
HTTP and detokenization are not included.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 0.02
END_OF_SEQUENCE = 257
# The histogram of each figure. Older versions of vLLM have time_per_output_token_seconds, which is the mean of gaps.
HISTOGRAMS = dict(ttft="vllm:time_to_first_token_seconds", tpot="vllm:request_time_per_output_token_seconds",
                  e2e="vllm:e2e_request_latency_seconds")


def read(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def totals(url):
    """Sum and count of each histogram."""
    found = {name: [0.0, 0.0] for name in HISTOGRAMS}
    for line in read(f"{url}/metrics").splitlines():
        for name, histogram in HISTOGRAMS.items():
            for place, ending in enumerate(("_sum", "_count")):
                if line.startswith((f"{histogram}{ending}{{", f"{histogram}{ending} ")):
                    found[name][place] += float(line.rsplit(" ", 1)[1])
    return found


@contextlib.contextmanager
def server(python, model, slots):
    """Starts vLLM, and yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The engine computes on one core, so that the API server and the client have another.
    environment = dict(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR",
                       VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND=str(min(os.sched_getaffinity(0))))
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "random",
               "--host", "127.0.0.1", "--port", port, "--dtype", "float32", "--max-num-seqs", slots, "--enforce-eager",
               "--disable-uvicorn-access-log"]
    process = subprocess.Popen([str(part) for part in command], env=environment | os.environ, stdout=sys.stderr)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                sys.exit("vLLM ended before it listened; its output is above")
            try:
                read(f"{url}/health")
                break
            except OSError:
                time.sleep(0.5)
        else:
            sys.exit("vLLM did not listen within 5 minutes")
        yield url
    finally:
        process.terminate()
        process.wait()


def write_prompts(path, count, length):
    """Prompts that have no common beginning, so that no prompt is in the server's prefix cache."""
    letters = random.Random(time.time_ns())
    with path.open("w") as lines:
        for _ in range(count):
            text = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz ", k=length))
            lines.write(json.dumps(dict(problem=text)) + "\n")


def profile(options, url, work, endpoint, ending, concurrency, requests):
    """Runs `ergo profile`. Returns the means of ergo and of vLLM in ms, and the number of output tokens per request."""
    prompts = work / "prompts.jsonl"
    write_prompts(prompts, requests, options.prompt)
    # A request with one token has no TPOT, but vLLM counts it as 0; so every answer has at least two.
    ends = ["--ignore-eos"] if ending == "length" else [
        "--param", f'logit_bias={{"{END_OF_SEQUENCE}": 3}}', "--param", "min_tokens=2"]
    before = totals(url)
    command = [options.ergo, "profile", "--quiet", "--client", "openai", "--base-url", url, "--model", "random",
               "--dataset", prompts, "--grader", "none", "--client-param", f"endpoint={endpoint}",
               "--concurrency", concurrency, "-n", requests, "--max-tokens", options.tokens, "--param", "temperature=1",
               *ends, "--warmup", "0", "--idle", "0s", "--no-model", "--format", "json", "--output-dir", work / "runs",
               "--overwrite"]
    output = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout
    summary, after = json.loads(output), totals(url)
    mine, theirs = {}, {}
    for name in HISTOGRAMS:
        seconds, count = (late - early for late, early in zip(after[name], before[name]))
        figure = summary["latency"][f"{name}_ms"]
        if not count == figure["count"] == requests:
            sys.exit(f"{name}: of {requests} requests, ergo has {figure['count']} values and vLLM has {count:.0f}")
        mine[name], theirs[name] = figure["mean"], 1e3 * seconds / count
    return mine, theirs, summary["tokens"]["output"] / requests


def compare(options, url, work):
    """Prints a row for each load. Returns the largest relative difference."""
    for endpoint in ("chat", "completions"):
        profile(options, url, work, endpoint, "length", 4, 4)
    print("\nEach cell: ergo / vLLM (difference), means in ms. Prompts have "
          f"{options.prompt} bytes, answers at most {options.tokens} tokens.\n")
    print("| endpoint | answers end by | concurrency | requests | tokens per answer | TTFT | TPOT | E2E latency |")
    print("|---|---|---|---|---|---|---|---|")
    largest = 0.0
    for endpoint in ("chat", "completions"):
        for ending, words in (("length", "`--ignore-eos`"), ("stop", "end of sequence")):
            for concurrency in map(int, options.concurrency.split(",")):
                requests = max(options.requests, 2 * concurrency)
                mine, theirs, tokens = profile(options, url, work, endpoint, ending, concurrency, requests)
                cells = []
                for name in HISTOGRAMS:
                    difference = mine[name] / theirs[name] - 1
                    largest = max(largest, abs(difference))
                    cells.append(f"{mine[name]:,.2f} / {theirs[name]:,.2f} ({100 * difference:+.2f} %)")
                row = (endpoint, words, str(concurrency), str(requests), f"{tokens:.1f}", *cells)
                print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nLargest difference: {100 * largest:.2f} %")
    return largest


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    parser.add_argument("ergo", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--concurrency", default="1,4,16")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=400)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--url")
    options = parser.parse_args()
    options.ergo = options.ergo.resolve()
    with tempfile.TemporaryDirectory(prefix="clocks") as folder, contextlib.ExitStack() as stack:
        work = pathlib.Path(folder)
        if options.url is None:
            subprocess.run([options.python, HERE / "random_llama.py", work / "model"], check=True)
            slots = max(map(int, options.concurrency.split(",")))
            options.url = stack.enter_context(server(options.python, work / "model", slots))
        sys.exit(compare(options, options.url, work) > LIMIT)


if __name__ == "__main__":
    main()
