"""Answers of servers that are broken or hostile. Each is a function of the request, the reader and the writer."""

import asyncio
import gzip
import json

from scripted_server import STREAM_HEAD, chunk, event, framed, send_json

# A piece of an endless answer, and the pause after it: enough to flood a client, and to let other servers run.
PIECE = 1 << 14
PAUSE_S = 0.002

BODY_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def sends(*parts, pause_s=0.0, then="close"):
    """Sends the parts; then closes the connection, resets it, or waits until the client is gone."""

    async def answer(request, reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if then == "wait":
            await reader.read()
        elif then == "reset":
            writer.transport.abort()
        return False

    return answer


def repeats(head, part, pause_s=PAUSE_S):
    """Sends a part again and again, until the client is gone."""

    async def answer(request, reader, writer):
        writer.write(head)
        while not writer.is_closing():
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        return False

    return answer


def streams(*values, usage=None, done=b"[DONE]"):
    """An answer with these chunks and this usage, as JSON text."""
    words = [chunk("", role="assistant"), *values, chunk(finish="stop")]
    end = [b'{"choices":[],"usage":%s}' % usage.encode()] if usage else []
    body = b"".join(framed(event(value)) for value in [*words, *end, *([done] if done else [])])
    text = "".join(part["choices"][0]["delta"]["content"] for part in values if isinstance(part, dict))

    async def answer(request, reader, writer):
        request.answer = text
        writer.write(STREAM_HEAD + body + b"0\r\n\r\n")
        await writer.drain()
        return True

    return answer


def says(status, headers="", body=b'{"error":{"message":"go away"}}'):
    """A short answer with a status."""
    head = f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode()

    async def answer(request, reader, writer):
        writer.write(head + body)
        await writer.drain()
        return True

    return answer


async def drip(request, reader, writer):
    """A correct answer, one byte at a time."""
    for byte in STREAM_HEAD + framed(event(chunk("slow"))) * 1000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.01)
    return False


async def whole_without_stream(request, reader, writer):
    """An answer in one piece that is not an answer."""
    return await send_json(writer, {"choices": "none", "usage": {"prompt_tokens": []}})


WORD = chunk("word")
STARTED = STREAM_HEAD + framed(event(WORD))
DEEP = b'{"choices":' + b"[" * 100_000
NOISE = bytes(range(128, 256)) * 8

# Every request fails.
FAILING = {
    "hangs": sends(then="wait"),
    "hangs after the head": sends(STREAM_HEAD, then="wait"),
    "hangs in the head": sends(b"HTTP/1.1 200 OK\r\ncontent-type: te", then="wait"),
    "hangs in the stream": sends(STARTED, then="wait"),
    "hangs in a chunk": sends(STREAM_HEAD + b"400\r\ndata: {", then="wait"),
    "closes at once": sends(),
    "resets at once": sends(then="reset"),
    "closes in the head": sends(b"HTTP/1.1 200 OK\r\ncontent"),
    "closes in the stream": sends(STARTED, pause_s=0.01),
    "resets the stream": sends(STARTED, pause_s=0.01, then="reset"),
    "ends the stream early": sends(STARTED + b"0\r\n\r\n"),
    "sends a chunk size of text": sends(STARTED + b"zz\r\nhello\r\n"),
    "sends a negative chunk size": sends(STARTED + b"-5\r\nhello\r\n"),
    "sends an enormous chunk size": sends(STARTED + b"ffffffffffffffffffff\r\nhello\r\n"),
    "sends a chunk that is too long": sends(STARTED + b"2\r\nhello\r\n0\r\n\r\n"),
    "floods with 102": repeats(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 500),
    "floods with 103": repeats(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 300),
    "sends endless headers": repeats(b"HTTP/1.1 200 OK\r\n", b"x-more: headers\r\n" * 800),
    "sends an endless header": repeats(b"HTTP/1.1 200 OK\r\nx-long: ", b"a" * PIECE),
    "sends an endless status": repeats(b"HTTP/1.1 200 ", b"OK" * PIECE),
    "sends endless trailers": repeats(STARTED + b"0\r\n", b"x-more: trailers\r\n" * 800),
    "sends an endless line": repeats(STREAM_HEAD, framed(b"data: " + b"a" * PIECE)),
    "sends endless bytes": repeats(BODY_HEAD, b"a" * PIECE),
    "sends endless empty lines": repeats(BODY_HEAD, b"\n" * PIECE),
    "sends endless comments": repeats(STREAM_HEAD, framed(b": still here\n\n") * 100),
    "sends endless words": repeats(STREAM_HEAD, framed(event(WORD)) * 50),
    "sends endless empty chunks": repeats(STREAM_HEAD, framed(event(chunk(""))) * 50),
    "sends endless garbage": repeats(b"", NOISE * 16),
    "drips": drip,
    "promises more than it sends": says("200 OK\r\ncontent-type: application/json\r\nx: y", "content-length: 900\r\n"),
    "has a negative length": sends(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}"),
    "has an enormous length": sends(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n{}"),
    "has two lengths": sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 9\r\n\r\n{}"),
    "has the status 500": says("500 Internal Server Error"),
    "has the status 429": says("429 Too Many Requests", "retry-after: 0\r\n"),
    "asks to wait for ever": says("429 Too Many Requests", "retry-after: 99999999\r\n"),
    "asks for a wait that is no number": says("429 Too Many Requests", "retry-after: 99999999999999999999\r\n"),
    "asks for a negative wait": says("503 Service Unavailable", "retry-after: -7\r\n"),
    "has the status 999": says("999 Whatever"),
    "has the status 204": says("204 No Content", body=b""),
    "redirects to itself": says("307 Temporary Redirect", "location: /v1/chat/completions?redirected\r\n"),
    "sends a page": says("200 OK", "content-type: text/html\r\n", b"<html>Sign in</html>"),
    "sends no HTTP": sends(b"220 mail.example.com ESMTP\r\n"),
    "sends HTTP 0.9": sends(b"<html>hello</html>"),
    "sends TLS": sends(b"\x15\x03\x01\x00\x02\x02\x46"),
    "sends HTTP 2": sends(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "sends null bytes": sends(b"\0" * 4096),
    "sends garbage as JSON": streams(b'{"choices":[{"delta":{"content":"a}'),
    "sends garbage as text": streams(NOISE),
    "sends deep JSON": streams(DEEP),
    "sends JSON of another kind": streams(b"[]", b"7", b'"x"', b"null"),
    "sends an answer of another kind": whole_without_stream,
    "sends an error in the stream": streams(b'{"error":{"message":"out of memory","code":500}}'),
    "sends gzip that is none": says("200 OK", "content-encoding: gzip\r\n", b"not compressed"),
    "sends a bomb": says("200 OK", "content-encoding: gzip\r\n", gzip.compress(b"\0" * (1 << 24))),
    "sends nothing but the end": streams(),
}

# Every request ends in the same way: it completes, or its answer is malformed.
STRANGE = {
    f"counts {usage}": streams(WORD, WORD, usage=json.dumps(usage) if isinstance(usage, dict) else usage)
    for usage in (
        '{"prompt_tokens":1e400,"completion_tokens":1e400}',
        '{"prompt_tokens":NaN,"completion_tokens":Infinity}',
        {"prompt_tokens": 2**63 - 1, "completion_tokens": 2**63 - 1},
        {"prompt_tokens": 2**64 - 1, "completion_tokens": 2**64 - 1},
        {"prompt_tokens": 2**64, "completion_tokens": 10**40},
        {"prompt_tokens": 2**53, "completion_tokens": 2**53},
        {"prompt_tokens": -1, "completion_tokens": -(2**63)},
        {"prompt_tokens": 1.5, "completion_tokens": 2.5},
        {"prompt_tokens": "three", "completion_tokens": None},
        {"prompt_tokens": {}, "completion_tokens": []},
        "null",
        "[]",
        "{}",
        "0",
    )
}
STRANGE |= {
    "has no end mark": streams(WORD, done=None),
    "sends a strange text": streams(chunk("\0\u2028\ufeff\U0001f600")),
    "sends strange fields": streams(WORD, b'{"choices":[{"delta":{"content":"","x":[1e308]}}],"created":-1e308}'),
}
