"""Tables of texts, as people read them in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Lines of a table. Columns are flush right but for those whose numbers are in `left`. Empty ones are left out.

    Example:
        >>> for line in aligned(["name", "n"], [["a", "12"], ["long", "3"]], left=[0]):
        ...     print(line)
          name   n
          a     12
          long   3
    """
    kept = _told(header, rows)
    widths = {column: max(len(line[column]) for line in (header, *rows)) for column in kept}

    def line(cells: Sequence[str]) -> str:
        parts = [
            cells[column].ljust(widths[column]) if column in left else cells[column].rjust(widths[column])
            for column in kept
        ]
        return ("  " + "  ".join(parts)).rstrip()

    return [line(header), *(line(row) for row in rows)]


def as_html(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """The same as a table of HTML, with its notes below."""

    kept = _told(header, rows)

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cells[column])}</{tag}>" for column in kept) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>{below}"


def _told(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns in which there is something."""
    return [column for column in range(len(header)) if any(row[column] not in ("", "-") for row in rows)]
