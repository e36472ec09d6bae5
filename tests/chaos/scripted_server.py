"""A server for the tests that counts every request. How it answers is a function, which a test can replace.

All servers run in one thread with one event loop. Each has its own port, so that the counts of two runs never mix.
"""

import asyncio
import json
import re
import threading
import time
from dataclasses import dataclass, field

LOCALHOST = "127.0.0.1"

# Longer than any test needs; it only ends tests that hang.
DEADLINE_S = 60


@dataclass
class Request:
    """A request, read to its end."""

    path: str
    id: str | None
    body: dict
    # The number of the query, from the last text "query N" of the request; None if there is none.
    query: int | None = None
    # The answers of the earlier turns, if the request continues a conversation.
    history: list[str] = field(default_factory=list)
    # The text of the answer, if it was sent to its end.
    answer: str | None = None

    @property
    def kind(self):
        """What is asked for: `chat`, `redirected` (a chat after a redirect), `judge`, `tokenize` or `other`."""
        if self.path.endswith("?redirected"):
            return "redirected"
        if self.path.endswith("/chat/completions"):
            return "judge" if self.body.get("model") == "judge" else "chat"
        return "tokenize" if self.path.endswith("/tokenize") else "other"


class EventLoop:
    """An event loop in a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE_S)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(DEADLINE_S)


class Server:
    """A server on its own port. `answer(request, reader, writer)` answers requests for chat completions.

    `answer_other`, if it is set, answers all other requests in the same way.
    """

    def __init__(self, events, answer):
        self.events = events
        self.answer = answer
        self.answer_other = None
        self.requests = []
        self.connections = 0
        self.open_connections = 0
        self.server = events.run(asyncio.start_server(self.serve, LOCALHOST, 0, limit=1 << 20))
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://{LOCALHOST}:{self.port}"

    def close(self):
        self.events.loop.call_soon_threadsafe(self.server.close)

    async def serve(self, reader, writer):
        self.connections += 1
        self.open_connections += 1
        try:
            while await self.serve_one(reader, writer):
                pass
        except (OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The client is gone, or was killed.
            pass
        finally:
            self.open_connections -= 1
            writer.transport.abort()

    async def serve_one(self, reader, writer):
        """Serves a request; returns whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = lines[0].split(" ")
        request = Request(path, headers.get("x-request-id"), json.loads(raw) if raw else {})
        messages = request.body.get("messages") or []
        texts = [message["content"] for message in messages] or [raw.decode()]
        request.history = [message["content"] for message in messages if message["role"] == "assistant"]
        numbers = re.findall(r"query (\d+)", texts[-1])
        request.query = int(numbers[0]) if numbers else None
        if path != "/barrier":
            self.requests.append(request)
        if self.answer_other and path != "/barrier" and request.kind != "chat":
            return await self.answer_other(request, reader, writer)
        match request.kind:
            case "chat" | "redirected":
                return await self.answer(request, reader, writer)
            case "judge":
                request.answer = "It agrees.\nverdict: correct"
                return await send_json(writer, whole_answer(request.answer))
            case "tokenize":
                return await send_json(writer, {"count": 3})
        if path.endswith("/models"):
            return await send_json(writer, {"object": "list", "data": [{"id": "m", "object": "model"}]})
        return await send_json(writer, {"error": {"message": f"no {path}"}}, "404 Not Found")

    def settle(self):
        """Waits until every request that clients have sent is counted. The clients must have ended."""
        self.events.run(self.ask_itself())
        end = time.monotonic() + DEADLINE_S
        while self.open_connections:
            assert time.monotonic() < end, f"{self.open_connections} connections stay open"
            time.sleep(0.002)

    async def ask_itself(self):
        # Connections are accepted in their order, so all earlier ones have been accepted when this one is answered.
        reader, writer = await asyncio.open_connection(LOCALHOST, self.port)
        writer.write(b"GET /barrier HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        self.connections -= 1
        writer.close()


def whole_answer(text):
    """The JSON of an answer in one piece."""
    message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [message], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


async def send_json(writer, value, status="200 OK"):
    body = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n" % status.encode())
    writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()
    return True


def chunk(text=None, finish=None, role=None):
    """A chunk of an answer."""
    delta = {name: value for name, value in (("role", role), ("content", text)) if value is not None}
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def event(value):
    """A server-sent event."""
    return b"data: %s\n\n" % (value if isinstance(value, bytes) else json.dumps(value).encode())


def framed(data):
    """A part of a body with `transfer-encoding: chunked`."""
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Answers:
    """Answers every request, each with another text. Every `fails_every`-th answer is an error that can be retried."""

    def __init__(self, pieces=3, pause_s=0.001, has_usage=True, fails_every=0):
        self.pieces, self.pause_s, self.has_usage, self.fails_every = pieces, pause_s, has_usage, fails_every
        self.number = 0

    async def __call__(self, request, reader, writer):
        self.number += 1
        number = self.number
        if self.fails_every and number % self.fails_every == 0:
            await asyncio.sleep(self.pause_s)
            return await send_json(writer, {"error": {"message": "busy"}}, "503 Service Unavailable")
        words = [f"answer {number} ", f"to query {request.query}", *[" ."] * (self.pieces - 2)]
        writer.write(STREAM_HEAD + framed(event(chunk("", role="assistant"))))
        for word in words:
            await asyncio.sleep(self.pause_s)
            writer.write(framed(event(chunk(word))))
            await writer.drain()
        # Before the last byte: a client that is killed now may have it.
        request.answer = "".join(words)
        usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(words)}}
        end = [chunk(finish="stop"), *([usage] if self.has_usage else []), b"[DONE]"]
        writer.write(b"".join(framed(event(value)) for value in end) + b"0\r\n\r\n")
        await writer.drain()
        return True
