"""Servers that are broken or hostile: every request has one outcome, every run ends, and Ctrl-C works."""

import signal

import pytest
from hostile_answers import FAILING, STRANGE
from processes import Moment, Process
from run_folder import read_json
from scripted_server import Answers
from together import run_together
from trial import SOME_FAILED, Trial

INTERRUPTED = 130
QUERIES = 4

# Only Ctrl-C ends these before the timeout.
HANGING = [name for name in FAILING if name.startswith("hangs")]
HANGING += ["drips", "sends endless words", "sends endless comments", "sends endless empty lines"]

# The largest count of tokens that could be true.
MOST_TOKENS = 1 << 50


def check_each(names, check):
    """Checks several servers at the same time."""
    left = list(names)

    def next_trial():
        if not left:
            return None
        name = left.pop()

        def named():
            try:
                check(name)
            except AssertionError as error:
                raise AssertionError(f"a server that {name}: {error}") from error

        return named

    failures = run_together(next_trial, lambda _: None)
    assert not failures, "\n\n".join(failures)


def new_trial(tools, folder, name, timeout="20s"):
    number = [*FAILING, *STRANGE].index(name)
    answers = (FAILING | STRANGE)[name]
    arguments = ["--timeout", timeout, "--connect-timeout", "5s"]
    return Trial(tools, folder / str(number), QUERIES, answers=answers, arguments=arguments)


def test_every_request_has_one_outcome(tools, tmp_path):
    def check(name):
        trial = new_trial(tools, tmp_path, name, "300ms" if name in FAILING else "20s")
        ended = trial.attempt()
        assert ended.code in (0, SOME_FAILED) and not ended.error_lines, ended
        trial.check_files()
        summary = read_json(trial.run / "summary.json")
        outcomes = summary["outcomes"]
        kinds = {"completed": outcomes["completed"]} | outcomes["failed"]
        assert sum(kinds.values()) == QUERIES, kinds
        if name in FAILING:
            assert outcomes["completed"] == 0 and ended.code == SOME_FAILED, kinds
        else:
            assert max(kinds.values()) == QUERIES, kinds
        for count in (summary["tokens"]["input"], summary["tokens"]["output"]):
            assert count is None or 0 <= count < MOST_TOKENS, summary["tokens"]
        trial.close()

    check_each([*FAILING, *STRANGE], check)


def test_retries_end(tools, tmp_path):
    def check(name):
        trial = new_trial(tools, tmp_path, name)
        trial.arguments += ["--retries", 2, "--retry-backoff", "1ms"]
        ended = trial.attempt()
        assert ended.code == SOME_FAILED and not ended.error_lines, ended
        trial.check_files()
        outcomes = read_json(trial.run / "summary.json")["outcomes"]
        assert sum(outcomes["failed"].values()) == QUERIES, outcomes
        assert sum(outcomes["retried"].values()) == (0 if name == "asks to wait for ever" else 2 * QUERIES), outcomes
        trial.close()

    names = ["has the status 500", "has the status 429", "asks to wait for ever", "asks for a negative wait"]
    check_each([*names, "sends an error in the stream", "sends nothing but the end"], check)


def test_a_run_can_be_interrupted_and_resumed(tools, tmp_path):
    def check(name):
        trial = new_trial(tools, tmp_path, name, "60s")
        ended = trial.attempt(interrupt=Moment(requests=3, seconds=0.1))
        assert ended.code in ((INTERRUPTED,) if name in HANGING else (0, SOME_FAILED, INTERRUPTED)), ended
        is_kept = trial.is_started()
        assert is_kept or (ended.code == INTERRUPTED and len(ended.error_lines) == 1), ended
        if is_kept:
            trial.finalize()
        # The server is repaired.
        trial.server.answer = Answers()
        ended = trial.attempt()
        assert ended.code in ((0, SOME_FAILED) if is_kept else (0,)), ended
        trial.check_files()
        trial.close()

    check_each([*FAILING, *list(STRANGE)[:2]], check)


@pytest.mark.parametrize("name", ["hangs", "drips", "floods with 102", "sends endless words"])
def test_the_first_check_of_the_server_can_be_interrupted(tools, tmp_path, name):
    trial = new_trial(tools, tmp_path, name, "60s")
    trial.server.answer_other = FAILING[name]
    process = Process(tools, trial.arguments, trial.folder)
    process.signal_at(Moment(requests=1), signal.SIGINT, trial.server)
    ended = process.wait()
    assert ended.code in (-signal.SIGINT, INTERRUPTED), ended
    assert not trial.runs.exists(), "there is nothing to keep"


@pytest.mark.parametrize("name", ["closes at once", "resets the stream", "redirects to itself"])
def test_a_server_that_is_broken_from_the_start_is_an_error(tools, tmp_path, name):
    trial = new_trial(tools, tmp_path, name, "60s")
    trial.server.answer_other = FAILING[name]
    ended = trial.attempt()
    assert ended.code == 1 and len(ended.error_lines) == 1, ended
    assert not trial.runs.exists(), "there is nothing to keep"
