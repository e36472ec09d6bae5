"""Rounds of `autotune`: when they end, their order, the error rate of the tests, and progress."""

from __future__ import annotations

import functools
import random
import re

import jax
import pytest

from ergometer import _native
from ergometer._autotune import Progress, autotune, rounds
from ergometer._autotune.rounds import Plan
from ergometer._autotune.variants import Prepared, Variant
from tuning_variants import FAR_APART, product


def test_equal_variants_are_not_clear(matrix: jax.Array) -> None:
    # At this level nearly all of fifteen calls of one variant must be faster than all calls of the other.
    tuning = autotune([product(256), product(256)], matrix, calls=15, level=0.99999, energy=False)
    assert not tuning.is_clear
    assert tuning.rows[1].verdict == "too_close_to_call"
    assert tuning.stopped == "all 15 calls"
    assert f"not clear: {tuning.rows[1].name} may be as fast" in str(tuning)


def test_a_single_variant_runs_all_calls(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=20, energy=False)
    assert (tuning.best_name, tuning.rows[0].n, tuning.stopped) == ("function", 20, "all 20 calls")


def test_rounds_stop_when_the_fastest_is_clear() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=500, energy=False)
    assert tuning.best_name == "short" and tuning.is_clear
    counts = {row.n for row in tuning.rows}
    assert len(counts) == 1 and 8 <= min(counts) < 500
    assert tuning.stopped == f"clear after {min(counts)} calls"


def test_there_are_few_early_tests() -> None:
    assert Plan(50, 8, 0.95, 0).early_tests() == [8, 12, 18, 27, 41]
    assert Plan(50, 1, 0.95, 0).early_tests() == [1, 2, 3, 5, 8, 12, 18, 27, 41]
    assert Plan(8, 8, 0.95, 0).early_tests() == []
    assert Plan(3, 8, 0.95, 0).early_tests() == []


def test_equal_variants_are_called_clear_at_most_at_the_error_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """All early tests and the final verdict together: 5 % of 400 draws of equal variants are 20."""
    draw = random.Random(3)
    monkeypatch.setattr(rounds, "_time_call", lambda one: draw.lognormvariate(0, 0.1))
    plan = Plan(50, 8, 0.95, 0)
    clear, early = 0, 0
    for _ in range(400):
        prepared = [Prepared(Variant(number, name, max), lambda: None) for number, name in enumerate("ab")]
        found = rounds.run_rounds(prepared, plan, lambda progress: None)
        clear += rounds.is_clear(rounds.ranked(found.wall_s, plan))
        early += found.was_clear
    assert 0 < early <= clear <= 20


def test_verdicts_use_the_test_level_and_intervals_the_requested_level() -> None:
    plan = Plan(50, 8, 0.95, 0)
    # A rank test gives p = 2 %: significant at level 0.95, not at a sixth of the error probability.
    steps = {"a": range(10), "b": (1, 5, 6, 7, 8, 10, 11, 12, 13, 14)}
    seconds = {name: [1.0 + 0.01 * step for step in times] for name, times in steps.items()}
    [_, at_level], [_, found] = _native.rank(seconds, 0.95), rounds.ranked(seconds, plan)
    assert 0.05 / 6 < at_level["corrected_p"] < 0.05
    assert (at_level["verdict"], found["verdict"]) == ("slower", "too_close_to_call")
    assert {**found, "verdict": None} == {**at_level, "verdict": None}


def test_rounds_are_shuffled_by_their_seed() -> None:
    def order(seed: int) -> list[str]:
        called: list[str] = []
        variants = {name: functools.partial(called.append, name) for name in "abcd"}
        autotune(variants, timer="wall", calls=8, min_calls=8, warmup=0, energy=False, seed=seed)
        return called

    first = order(1)
    assert first == order(1) != order(2)
    rounds = [first[start : start + 4] for start in range(0, len(first), 4)]
    assert len(rounds) == 8 and all(sorted(one) == list("abcd") for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1


def test_progress_is_reported() -> None:
    reports: list[Progress] = []
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=reports.append)
    assert [(one.phase, one.best_name) for one in reports[:2]] == [("prepare", "short"), ("prepare", "long")]
    timed = reports[2:]
    assert [one.round for one in timed] == list(range(1, 9))
    assert {(one.phase, one.variants, one.rounds, one.best_name) for one in timed} == {("time", 2, 8, "short")}
    line = str(timed[-1])
    assert re.fullmatch(r"autotune  2 variants  round 8 of 8  best short [\d.]+ [nµm]?s \(wall\)", line), line


def test_progress_true_writes_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    autotune(FAR_APART, timer="wall", calls=8, energy=False)
    assert capsys.readouterr() == ("", "")
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=True)
    out, error = capsys.readouterr()
    assert out == "" and "\n" not in error
    assert "\rautotune  2 variants  round 8 of 8  best short" in error
    assert error.endswith(" \r")
