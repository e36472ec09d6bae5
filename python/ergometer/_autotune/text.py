"""Formats tables for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """The lines of a table. Columns are right-aligned, except those in `left`. Empty columns are left out.

    Example:
        >>> for line in aligned(["name", "n"], [["a", "12"], ["long", "3"]], left=[0]):
        ...     print(line)
          name   n
          a     12
          long   3
    """
    columns = _filled_columns(header, rows)
    widths = {column: max(len(line[column]) for line in (header, *rows)) for column in columns}

    def line(cells: Sequence[str]) -> str:
        parts = [
            cells[column].ljust(widths[column]) if column in left else cells[column].rjust(widths[column])
            for column in columns
        ]
        return ("  " + "  ".join(parts)).rstrip()

    return [line(header), *(line(row) for row in rows)]


def as_html(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """An HTML table with notes below it."""

    columns = _filled_columns(header, rows)

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cells[column])}</{tag}>" for column in columns) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>{below}"


def _filled_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns with at least one value."""
    return [column for column in range(len(header)) if any(row[column] not in ("", "-") for row in rows)]
