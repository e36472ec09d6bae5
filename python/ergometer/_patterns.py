"""Patterns of Python's `re` for rules that search with Rust's `regex`, which knows no look-around and no references."""

from __future__ import annotations

import re

from ergometer import _native

# What both take, and each for something else: in a class Rust knows set operations and nested classes, and `\<` and
# `\>` are the edges of a word there, `\b{...}` one of its edges. From Python 3.11 on `a*+` gives nothing back of what
# it took, as `(?>a*)` does not, and to Rust it is `(a*)+`. What this finds without need, Python searches: no harm.
_ANOTHER_MEANING = re.compile(r"&&|--|~~|\[[^\]]*\[|\\[<>]|\\b\{|[*+?}]\+|\(\?>")

# Matches nothing, not even an empty text.
NOTHING = r"[^\s\S]"


def for_rules(pattern: str, trace: _native.Trace) -> str:
    """The pattern as the rules can take it.

    Where Rust reads it as Python does, that is the pattern itself. Otherwise Python searches all names of the trace,
    and the names it finds stand for the pattern.

    Args:
        pattern: In the syntax of `re`.
        trace: Whose names are searched.

    Raises:
        re.error: It is no pattern.
    """
    compiled = re.compile(pattern)
    if _ANOTHER_MEANING.search(pattern) is None and _native.is_pattern(pattern):
        return pattern
    found = sorted({name for name in trace.names() if compiled.search(name) is not None})
    if not found:
        return NOTHING
    return "^(?:" + "|".join(re.escape(name) for name in found) + ")$"
