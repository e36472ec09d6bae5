"""Patterns of the profiler match as in Python, whether Rust or Python searches."""

from __future__ import annotations

import re
import sys

import pytest
from ergometer import _native
from ergometer._patterns import for_rules
from ergometer.profiler import Profiler
from recorded_profiles import seconds_by_id, read_recorded


def test_an_invalid_pattern() -> None:
    with pytest.raises(re.error):
        Profiler(event_filter_regex="gemm(")


def test_a_pattern_with_look_ahead() -> None:
    trace = read_recorded("gpu_autotune")
    pattern = r"gemm_fusion_dot(?![._]1)"
    assert not _native.is_pattern(pattern)
    looking = seconds_by_id(Profiler(event_filter_regex=pattern), trace, "gpu")
    # The kernels of fn_0 are gemm_fusion_dot and gemm_fusion_dot_1; the op of the second is gemm_fusion_dot.1.
    plain = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot$"), trace, "gpu")
    assert looking[0] == plain[0]
    both = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot"), trace, "gpu")
    assert 0 < looking[0][0] < both[0][0]
    assert seconds_by_id(Profiler(event_filter_regex="(?=never)never"), trace, "gpu") == {}


@pytest.mark.filterwarnings("ignore:Possible set:FutureWarning", "ignore:Possible nested set:FutureWarning")
def test_patterns_match_as_in_python() -> None:
    trace = read_recorded("gpu_autotune")
    names = trace.names()
    for pattern in [r"gemm", r"(?<=loop_)reduce", r"(.)\1", r"[a&&b]", r"fusion\Z", r"\<", r"[[f]usion", r"(?!)"]:
        compiled = re.compile(pattern)
        translated = for_rules(pattern, trace)
        assert _native.is_pattern(translated), pattern
        expected = [name for name in names if compiled.search(name)]
        assert [name for name in names if re.search(translated, name)] == expected, pattern


@pytest.mark.skipif(sys.version_info < (3, 11), reason="they came with Python 3.11")
@pytest.mark.parametrize("pattern", [r"[a-z_]*+fusion", r"m++m", r"_?+_", r"m{1,2}+m", r"(?>[a-z_]*)fusion"])
def test_possessive_quantifiers_match_as_in_python(pattern: str) -> None:
    """In Rust `[a-z_]*+fusion` is `([a-z_]*)+fusion`, which matches more than in Python."""
    trace = read_recorded("gpu_autotune")
    names = trace.names()
    translated = for_rules(pattern, trace)
    found = [name for name in names if re.search(translated, name)]
    assert found == [name for name in names if re.search(pattern, name)]
    giving = re.sub(r"([*+?}])\+", r"\1", pattern.replace("(?>", "(?:"))
    assert found != [name for name in names if re.search(giving, name)], "the names do not distinguish the two patterns"


def test_names_with_special_characters_are_escaped() -> None:
    for character in map(chr, [*range(1, 128), 0xE9, 0x2028]):
        assert _native.is_pattern("^(?:" + re.escape(f"a{character}b") + ")$"), repr(character)
