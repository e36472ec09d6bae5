"""Compares `ergo trace cat` with JAX's reader, event by event, on recorded traces."""

import base64
import json
from itertools import groupby

import pytest
from conftest import REPOSITORY, ergo
from jax.profiler import ProfileData

FIXTURES = sorted((REPOSITORY / "fixtures" / "xplane").glob("*.xplane.pb"))


@pytest.fixture(scope="module", params=FIXTURES, ids=lambda path: path.name.removesuffix(".xplane.pb"))
def both(request):
    """The lines with events, from `ergo` and from JAX: plane, name of the line, events."""
    events = map(json.loads, ergo("trace", "cat", request.param).splitlines())
    ours = [
        (plane, line, list(events))
        for (plane, line, _), events in groupby(events, lambda event: (event["plane"], event["line"], event["line_id"]))
    ]
    theirs = [
        (plane.name, line.name, list(line.events))
        for plane in ProfileData.from_file(str(request.param)).planes
        for line in plane.lines
    ]
    return ours, [line for line in theirs if line[2]]


def named(stats):
    """Each name with its value, or with a list of values if it occurs more than once."""
    values = {}
    for name, value in stats:
        values.setdefault(name, []).append(value)
    return {name: several[0] if len(several) == 1 else several for name, several in values.items()}


def plain(value):
    """A value of `ergo` as JAX's reader shows it: bytes as characters."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]).decode("utf-8", "surrogateescape")
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_there_are_traces():
    assert len(FIXTURES) >= 4


def test_planes_lines_and_event_counts(both):
    ours, theirs = ([(plane, line, len(events)) for plane, line, events in lines] for lines in both)
    assert ours == theirs
    assert sum(events for _, _, events in ours) > 100


def test_names_and_times(both):
    """Both count from the start of the session; JAX has nanoseconds as floats, exact to a picosecond for two hours."""
    for (_, _, ours), (_, _, theirs) in zip(*both, strict=True):
        assert [(event["name"], event["start_ps"], event["duration_ps"]) for event in ours] == [
            (event.name, round(event.start_ns * 1000), round(event.duration_ns * 1000)) for event in theirs
        ]


def test_every_stat_of_every_event(both):
    stats = 0
    for (_, _, ours), (_, _, theirs) in zip(*both, strict=True):
        for event, other in zip(ours, theirs, strict=True):
            found = {name: plain(value) for name, value in event["stats"].items()}
            assert found == named(other.stats), (event["name"], event["start_ps"])
            # Types count: 1 is neither 1.0 nor True.
            assert all(type(found[name]) is type(value) for name, value in named(other.stats).items())
            stats += len(found)
    assert stats > 500
