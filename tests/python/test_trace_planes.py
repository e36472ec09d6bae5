"""Planes, lines and events of a trace equal those of JAX's reader, and the table of events has all of them."""

from __future__ import annotations

import ergometer
import pyarrow as pa
from jax.profiler import ProfileData


def plain(stats):
    """Stats as in JAX's reader, which shows bytes as characters."""
    def text(value):
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value

    return [(name, text(value)) for name, value in stats]


def test_planes_and_lines(trace_path, trace):
    theirs = list(ProfileData.from_file(str(trace_path)).planes)
    assert [plane.name for plane in trace.planes] == [plane.name for plane in theirs]
    for plane, other in zip(trace.planes, theirs, strict=True):
        lines = [(line.name, len(list(line.events))) for line in other.lines]
        assert [(line.name, len(line)) for line in plane.lines] == lines
        # For a stat without a name, JAX's reader has an empty name and may lose the value; ours has its number.
        named = [stat for stat in other.stats if stat[0]]
        assert [stat for stat in plain(plane.stats) if not stat[0].isdigit()] == named


def test_planes_are_found_by_name(autotune):
    assert autotune.find_plane_with_name("/device:GPU:0").name == "/device:GPU:0"
    assert autotune.find_plane_with_name("/device:TPU:0") is None


def test_every_event_and_every_stat(trace_path, trace):
    """JAX's reader has nanoseconds as floats, exact to a picosecond for two hours."""
    stats = 0
    for plane, other_plane in zip(trace.planes, ProfileData.from_file(str(trace_path)).planes, strict=True):
        for line, other_line in zip(plane.lines, other_plane.lines, strict=True):
            for event, other in zip(line.events, other_line.events, strict=True):
                assert (event.name, event.start_ns, event.duration_ns, event.end_ns) == (
                    other.name,
                    other.start_ns,
                    other.duration_ns,
                    other.end_ns,
                )
                assert event.start_ps == round(other.start_ns * 1000)
                assert event.duration_ps == round(other.duration_ns * 1000)
                ours, found = plain(event.stats), list(other.stats)
                assert ours == found
                # Types count: 1 is neither 1.0 nor True.
                assert [type(value) for _, value in ours] == [type(value) for _, value in found]
                stats += len(found)
    assert stats > 500


def test_the_table_of_events_has_every_event(trace_path, trace):
    """The table has all times and stats of a loop over events."""
    table = pa.table(trace.events())
    looped = [
        (plane.name, line.name, event.name, event.start_ps, event.duration_ps)
        for plane in trace.planes
        for line in plane.lines
        for event in line.events
    ]
    columns = [table[name].to_pylist() for name in ("plane", "line", "name", "start_ps", "duration_ps")]
    assert sorted(zip(*columns, strict=True)) == sorted(looped)
    assert len(looped) == len(trace) > 0
    assert table.num_columns > trace.events(stats=False).num_columns


def test_lines_as_a_table(trace_path, trace):
    rows = [(plane.name, line.name, len(line)) for plane in trace.planes for line in plane.lines]
    table = trace.lines()
    assert list(zip(table["plane"], table["line"], table["events"], strict=True)) == rows


def test_an_event_outlives_its_trace(autotune_trace):
    plane = ergometer.read_trace(autotune_trace).find_plane_with_name("/device:GPU:0")
    event = next(event for line in plane.lines for event in line.events)
    del plane
    assert event.duration_ps > 0
    assert event.stats
