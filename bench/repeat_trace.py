#!/usr/bin/env python3
"""Makes a long trace from a short one: it repeats the events of every line, each time shifted by the trace's length.

usage: repeat_trace.py IN.xplane.pb[.xz] TIMES OUT.xplane.pb

Ids are not changed, so an execution and its copies count as one. Ops, kernels and times are as in a real trace.
"""

import lzma
import sys


def varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def encode(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data):
    """Yields number, type, offset of the field, offset of its value, and end."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint(data, at)
        if key & 7 == 0:
            value = at
            _, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value = at
            at += length
        else:
            value = at
            at += 8 if key & 7 == 1 else 4
        yield key >> 3, key & 7, start, value, at


def message(number, body):
    return encode(number << 3 | 2) + encode(len(body)) + body


def number_of(data, wanted):
    for number, kind, _, value, _ in fields(data):
        if number == wanted and kind == 0:
            return varint(data, value)[0]
    return 0


def event_parts(event):
    """Splits an event into the bytes before its time offset, the time offset, and the bytes after."""
    for number, kind, start, value, end in fields(event):
        if number == 2 and kind == 0:
            return event[:start], varint(event, value)[0], event[end:]
    return event, None, b""


def length_of(space):
    """The time from the start of the session to the end of the last event, in picoseconds."""
    last = 0
    for number, _, _, value, end in fields(space):
        if number != 1:
            continue
        plane = space[value:end]
        for number, _, _, value, end in fields(plane):
            if number != 3:
                continue
            line = plane[value:end]
            base = number_of(line, 3) * 1000
            for number, _, _, value, end in fields(line):
                if number == 4:
                    event = line[value:end]
                    last = max(last, base + number_of(event, 2) + number_of(event, 3))
    return last


def repeat_line(line, times, length):
    out, events = bytearray(), []
    for number, _, start, value, end in fields(line):
        if number == 4:
            events.append(event_parts(line[value:end]))
        else:
            out += line[start:end]
    for repetition in range(times):
        for before, offset, after in events:
            shifted = b"" if offset is None else b"\x10" + encode(offset + repetition * length)
            out += message(4, before + shifted + after)
    return bytes(out)


def repeat_plane(plane, times, length):
    out = bytearray()
    for number, _, start, value, end in fields(plane):
        out += message(3, repeat_line(plane[value:end], times, length)) if number == 3 else plane[start:end]
    return bytes(out)


def main():
    source, times, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with lzma.open(source) if source.endswith(".xz") else open(source, "rb") as file:
        space = file.read()
    length = length_of(space)
    with open(target, "wb") as file:
        for number, _, start, value, end in fields(space):
            file.write(message(1, repeat_plane(space[value:end], times, length)) if number == 1 else space[start:end])


if __name__ == "__main__":
    main()
