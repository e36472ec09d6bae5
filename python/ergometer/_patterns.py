"""Converts patterns of Python's `re` for Rust's `regex`, which has no look-around and no back references."""

from __future__ import annotations

import re

from ergometer import _native

# Syntax that both accept with different meanings: set operations and nested classes in a character class, and the word
# boundaries `\<`, `\>` and `\b{...}` of Rust. From Python 3.11 on `a*+` is possessive, like `(?>a*)`; in Rust it is
# `(a*)+`. A false match here is harmless: Python then searches the names.
_DIFFERENT_MEANING = re.compile(r"&&|--|~~|\[[^\]]*\[|\\[<>]|\\b\{|[*+?}]\+|\(\?>")

# Matches nothing, not even the empty string.
NOTHING = r"[^\s\S]"


def for_rules(pattern: str, trace: _native.Trace) -> str:
    """A pattern for Rust that matches the same names of a trace.

    This is the pattern itself if it means the same in Rust. Otherwise Python searches all names of the trace, and the
    result is an alternation of the matching names.

    Args:
        pattern: In the syntax of `re`.
        trace: The trace with the names.

    Raises:
        re.error: The pattern is invalid.
    """
    compiled = re.compile(pattern)
    if _DIFFERENT_MEANING.search(pattern) is None and _native.is_pattern(pattern):
        return pattern
    matching = sorted({name for name in trace.names() if compiled.search(name) is not None})
    if not matching:
        return NOTHING
    return "^(?:" + "|".join(re.escape(name) for name in matching) + ")$"
