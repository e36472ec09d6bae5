"""Profiles a llama.cpp server with a demo model: it gives the answers of the embedded model.

Weights and arithmetic are the same except for the order of sums, so a tolerance of one point of accuracy is ample.
"""

import json
import urllib.request

import datasets
import pytest
from conftest import REPOSITORY, ergo

MODEL = "tiny"
QUERIES = 600
ONE_POINT = QUERIES // 100


def post(server, path, body):
    request = urllib.request.Request(server + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def run(folder, *arguments):
    """The records and the summary of a run over the built-in dataset."""
    ergo("profile", "--quiet", "--idle", "0s", "--output-dir", folder, *arguments)
    (written,) = folder.iterdir()
    return datasets.load_from_disk(str(written)), json.loads((written / "summary.json").read_text())


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    return run(tmp_path_factory.mktemp("embedded"), "--client", "embedded", "--model", MODEL)


@pytest.fixture(scope="module")
def served(tmp_path_factory, llama_server):
    server = ["--client", "openai", "--base-url", llama_server, "--model", MODEL]
    return run(tmp_path_factory.mktemp("served"), *server, "--param", "temperature=0", "--concurrency", 4)


def answers(records):
    return [answer[MODEL] for answer in records["model_answers"]]


def tokens(records, side):
    return [metrics[MODEL]["token_metrics"][side] for metrics in records["model_metrics"]]


def test_the_server_tokenizes_prompts_like_the_demo_model(llama_server):
    lines = (REPOSITORY / "assets" / "datasets" / "builtin.jsonl").read_text().splitlines()
    assert len(lines) == QUERIES
    # Every prompt once, and text that no problem has: multi-byte letters, repeated spaces, special tokens.
    problems = [json.loads(line)["problem"] for line in lines]
    for problem in [*problems, "é 東京 🦀\n\t  !!"]:
        messages = [{"role": "user", "content": problem}]
        prompt = post(llama_server, "/apply-template", {"messages": messages})["prompt"]
        assert prompt == f"<s>{problem}<answer>"
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        assert post(llama_server, "/tokenize", asked)["tokens"] == [256, *problem.encode(), 259]
    asked = {"content": "a</s><pad>b", "add_special": True, "parse_special": True}
    assert post(llama_server, "/tokenize", asked)["tokens"] == [97, 257, 258, 98]


def test_the_models_of_a_server_are_listed(llama_server):
    listed = ergo("list", "models", "--client", "openai", "--base-url", llama_server)
    assert MODEL in listed.split()


def test_every_query_is_answered(served):
    records, summary = served
    assert len(records) == summary["total_queries"] == QUERIES
    assert [column["query_index"] for column in records["ergometer"]] == list(range(QUERIES))
    assert {column["outcome"] for column in records["ergometer"]} == {"completed"}


def test_the_server_is_as_accurate_as_the_embedded_model(served, embedded):
    right = [summary["accuracy"]["correct"] for _, summary in (served, embedded)]
    assert right[0] == pytest.approx(right[1], abs=ONE_POINT)
    differing = sum(mine != theirs for mine, theirs in zip(answers(served[0]), answers(embedded[0])))
    assert differing <= ONE_POINT


def test_token_counts_come_from_the_server(served, embedded):
    (records, summary), (expected, _) = served, embedded
    assert tokens(records, "input") == tokens(expected, "input")
    same = [mine == theirs for mine, theirs in zip(answers(records), answers(expected))]
    counted = zip(same, tokens(records, "output"), tokens(expected, "output"))
    # The end of the answer is a token without text, so counting chunks gives one less.
    assert all(mine == theirs for same, mine, theirs in counted if same)
    assert sum(tokens(records, "output")) == summary["tokens"]["output"]
    assert {column["token_source"] for column in records["ergometer"]} == {"usage"}


def test_times_are_in_order(served):
    for column in served[0]["ergometer"]:
        assert column["sent_ns"] < column["first_token_ns"] <= column["last_token_ns"] <= column["end_ns"]
