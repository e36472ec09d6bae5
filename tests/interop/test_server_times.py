"""Compares the mean TTFT, TPOT and E2E latency of `ergo profile` with llama.cpp's own timings of the same requests.

llama.cpp sends two durations with its last chunk:
- `prompt_ms`: from the start of the prompt to the first token. Waiting for a slot is not included.
- `predicted_ms`: from the first to the last token, of `predicted_n` tokens in all. An end-of-sequence token counts.

So `prompt_ms` is TTFT, `predicted_ms / (predicted_n - 1)` is TPOT, and `prompt_ms + predicted_ms` is the E2E latency.

The client also sees the HTTP request, the chat template, the tokenizer and the way of a chunk to the client. That takes
1.1 to 1.6 ms, of which 0.7 ms are a round trip to `/health`: less than 1 % of the TTFT of this model. It is the same
for every token, so it cancels out in TPOT.

Both clocks see the noise of the machine, except for delays between server and client. If such delays make the means
differ, the run is repeated. A wrong formula gives wrong means in every run.
"""

import json
import random
from statistics import mean

import pyarrow.parquet
import pytest
import random_gguf
from conftest import REPOSITORY, ergo, serve

TOLERANCE = 0.02
REQUESTS = 10
PROMPT = 300
LETTERS = 16
RUNS = 3
# One token per letter. The answer of the first ends with the end-of-sequence token, that of the second at the limit.
ENDINGS = {
    ("chat", "stop"): [f"grammar=root ::= [a-z]{{{LETTERS}}}"],
    ("completions", "length"): ["grammar=root ::= [a-z]+", "--ignore-eos", "--max-tokens", LETTERS],
}


class Run:
    """A run: ergo's means, and the completed requests with the server's timings. Times are in ms."""

    def __init__(self, folder, finish):
        self.finish = finish
        latency = json.loads((folder / "summary.json").read_text())["latency"]
        self.means = {name: latency[f"{name}_ms"]["mean"] for name in ("ttft", "tpot", "e2e")}
        rows = pyarrow.parquet.read_table(folder / "requests.parquet").to_pylist()
        self.requests = [row for row in rows if row["outcome"] == "completed"]
        self.prompt = [row["server_prompt_ns"] / 1e6 for row in self.requests]
        self.output = [row["server_output_ns"] / 1e6 for row in self.requests]
        self.tokens = [row["output_tokens"] for row in self.requests]
        self.server_means = {
            "ttft": mean(self.prompt),
            "tpot": mean(self.per_token(self.output)),
            "e2e": mean(map(sum, zip(self.prompt, self.output))),
        }

    def per_token(self, durations):
        return [duration / (tokens - 1) for duration, tokens in zip(durations, self.tokens)]

    def differences(self):
        """The relative differences of the means."""
        return {name: value / self.server_means[name] - 1 for name, value in self.means.items()}

    def agrees(self):
        return all(abs(difference) <= TOLERANCE for difference in self.differences().values())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The URL of a server for one request at a time, without a prompt cache."""
    gguf = tmp_path_factory.mktemp("random") / "random.gguf"
    random_gguf.write(REPOSITORY / "assets" / "models" / "tiny", gguf)
    with serve(gguf, "--name", "random", "--slots", 1, "--context", random_gguf.CONTEXT, "--no-cache") as address:
        yield address


@pytest.fixture(scope="module", params=ENDINGS, ids=", ".join)
def run(request, server, tmp_path_factory):
    """The first run of up to three whose means agree with the server's, or the last one."""
    folder = tmp_path_factory.mktemp("runs")
    letters = random.Random(0)
    problems = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz ", k=PROMPT)) for _ in range(REQUESTS)]
    (folder / "problems.jsonl").write_text("".join(json.dumps({"problem": each}) + "\n" for each in problems))
    endpoint, finish = request.param
    for number in range(RUNS):
        runs = folder / str(number)
        ergo("profile", "--quiet", "--idle", "0s", "--client", "openai", "--base-url", server, "--model", "random",
             "--dataset", folder / "problems.jsonl", "--grader", "none", "--param", "temperature=0",
             "--client-param", f"endpoint={endpoint}", "--output-dir", runs, "--param", *ENDINGS[request.param])
        (written,) = runs.iterdir()
        found = Run(written, finish)
        # pytest shows this if a test fails.
        print(endpoint, finish, "ergo:", found.means, "server:", found.server_means, "difference:", found.differences())
        if found.agrees():
            break
    return found


def test_the_server_times_every_request(run):
    assert len(run.requests) == REQUESTS
    assert {row["finish"] for row in run.requests} == {run.finish}
    # The end-of-sequence token counts, and is an event without text.
    expected = LETTERS + (run.finish == "stop")
    assert set(run.tokens) == {expected}
    assert {len(row["chunk_offsets_ns"]) for row in run.requests} == {expected}


@pytest.mark.parametrize("name", ["ttft", "tpot", "e2e"])
def test_means_agree_with_the_server(run, name):
    assert run.means[name] == pytest.approx(run.server_means[name], rel=TOLERANCE)


def test_the_client_sees_the_whole_time_of_the_server(run):
    """The request is sent before the server starts with it, and a token arrives after the server has generated it."""
    for row, prompt, output in zip(run.requests, run.prompt, run.output):
        assert row["first_token_ns"] - row["sent_ns"] >= 1e6 * prompt
        assert row["last_token_ns"] - row["sent_ns"] >= 1e6 * (prompt + output)


def test_a_clock_that_stops_one_token_early_is_detected(run):
    """Shows that the tolerance is narrow enough: without the last token, TPOT is 1/16 too low."""
    early = [(row["chunk_offsets_ns"][-2] - row["chunk_offsets_ns"][0]) / 1e6 for row in run.requests]
    assert mean(run.per_token(early)) < (1 - 2 * TOLERANCE) * run.server_means["tpot"]
