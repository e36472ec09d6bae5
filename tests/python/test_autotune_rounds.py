"""Rounds: when they end, in which order variants take turns, how seldom chance decides, and what is told meanwhile."""

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
from tuned import FAR_APART, product


def test_equal_variants_are_not_clear(matrix: jax.Array) -> None:
    # At this level fifteen calls of one have to be faster than all of the other, all but for a few.
    tuning = autotune([product(256), product(256)], matrix, calls=15, level=0.99999, energy=False)
    assert not tuning.is_clear
    assert tuning.rows[1].verdict == "too_close_to_call"
    assert tuning.stopped == "all 15 calls"
    assert f"not clear: {tuning.rows[1].name} may be as fast" in str(tuning)


def test_one_alone_runs_all_its_calls(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=20, energy=False)
    assert (tuning.best_name, tuning.rows[0].n, tuning.stopped) == ("function", 20, "all 20 calls")


def test_it_stops_when_it_is_clear() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=500, energy=False)
    assert tuning.best_name == "short" and tuning.is_clear
    counts = {row.n for row in tuning.rows}
    assert len(counts) == 1 and 8 <= min(counts) < 500
    assert tuning.stopped == f"clear after {min(counts)} calls"


def test_there_are_few_looks() -> None:
    assert Plan(50, 8, 0.95, 0).looks() == [8, 12, 18, 27, 41]
    assert Plan(50, 1, 0.95, 0).looks() == [1, 2, 3, 5, 8, 12, 18, 27, 41]
    assert Plan(8, 8, 0.95, 0).looks() == []
    assert Plan(3, 8, 0.95, 0).looks() == []


def test_equal_variants_come_out_clear_as_seldom_as_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All looks and the verdict at the end together, that is: of 400 draws of equal variants 5 % are 20."""
    draw = random.Random(3)
    monkeypatch.setattr(rounds, "_seconds_of", lambda one: draw.lognormvariate(0, 0.1))
    plan = Plan(50, 8, 0.95, 0)
    clear, early = 0, 0
    for _ in range(400):
        prepared = [Prepared(Variant(number, name, max), lambda: None) for number, name in enumerate("ab")]
        found = rounds.run_rounds(prepared, plan, lambda progress: None)
        clear += rounds.is_clear(rounds.ranked(found.wall_s, plan))
        early += found.was_clear
    assert 0 < early <= clear <= 20


def test_verdicts_are_at_the_level_that_the_looks_left_and_intervals_at_the_level_itself() -> None:
    plan = Plan(50, 8, 0.95, 0)
    # By a rank test p is 2 %: enough for 0.95, too little for a sixth of that.
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


def test_progress_is_told() -> None:
    told: list[Progress] = []
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=told.append)
    assert [(one.phase, one.best_name) for one in told[:2]] == [("prepare", "short"), ("prepare", "long")]
    timed = told[2:]
    assert [one.round for one in timed] == list(range(1, 9))
    assert {(one.phase, one.variants, one.rounds, one.best_name) for one in timed} == {("time", 2, 8, "short")}
    line = str(timed[-1])
    assert re.fullmatch(r"autotune  2 variants  round 8 of 8  best short [\d.]+ [nµm]?s \(wall\)", line), line


def test_a_line_is_written_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    autotune(FAR_APART, timer="wall", calls=8, energy=False)
    assert capsys.readouterr() == ("", "")
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=True)
    out, error = capsys.readouterr()
    assert out == "" and "\n" not in error
    assert "\rautotune  2 variants  round 8 of 8  best short" in error
    assert error.endswith(" \r")
