"""Patterns of the profiler mean what they mean in Python, whoever searches by them."""

from __future__ import annotations

import re
import sys

import pytest
from ergometer import _native
from ergometer._patterns import for_rules
from ergometer.profiler import Profiler
from profiled import seconds_by_id, trace_of


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(re.error):
        Profiler(event_filter_regex="gemm(")


def test_a_pattern_with_look_ahead() -> None:
    trace = trace_of("gpu_autotune")
    pattern = r"gemm_fusion_dot(?![._]1)"
    assert not _native.is_pattern(pattern)
    looking = seconds_by_id(Profiler(event_filter_regex=pattern), trace, "gpu")
    # Of fn_0 the first product is gemm_fusion_dot, the second gemm_fusion_dot_1, and its op gemm_fusion_dot.1.
    plain = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot$"), trace, "gpu")
    assert looking[0] == plain[0]
    both = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot"), trace, "gpu")
    assert 0 < looking[0][0] < both[0][0]
    assert seconds_by_id(Profiler(event_filter_regex="(?=never)never"), trace, "gpu") == {}


@pytest.mark.filterwarnings("ignore:Possible set:FutureWarning", "ignore:Possible nested set:FutureWarning")
def test_patterns_mean_what_they_mean_in_python() -> None:
    trace = trace_of("gpu_autotune")
    names = trace.names()
    for pattern in [r"gemm", r"(?<=loop_)reduce", r"(.)\1", r"[a&&b]", r"fusion\Z", r"\<", r"[[f]usion", r"(?!)"]:
        compiled = re.compile(pattern)
        translated = for_rules(pattern, trace)
        assert _native.is_pattern(translated), pattern
        expected = [name for name in names if compiled.search(name)]
        assert [name for name in names if re.search(translated, name)] == expected, pattern


@pytest.mark.skipif(sys.version_info < (3, 11), reason="they came with Python 3.11")
@pytest.mark.parametrize("pattern", [r"[a-z_]*+fusion", r"m++m", r"_?+_", r"m{1,2}+m", r"(?>[a-z_]*)fusion"])
def test_what_gives_nothing_back_means_what_it_means_in_python(pattern: str) -> None:
    """To Rust `[a-z_]*+fusion` is `([a-z_]*)+fusion`, which finds what Python does not."""
    trace = trace_of("gpu_autotune")
    names = trace.names()
    translated = for_rules(pattern, trace)
    found = [name for name in names if re.search(translated, name)]
    assert found == [name for name in names if re.search(pattern, name)]
    giving = re.sub(r"([*+?}])\+", r"\1", pattern.replace("(?>", "(?:"))
    assert found != [name for name in names if re.search(giving, name)], "no name tells the two apart"


def test_names_with_any_character_can_stand_for_a_pattern() -> None:
    for character in map(chr, [*range(1, 128), 0xE9, 0x2028]):
        assert _native.is_pattern("^(?:" + re.escape(f"a{character}b") + ")$"), repr(character)
