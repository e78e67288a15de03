"""The client for asyncio: one connection, used from one event loop."""
from __future__ import annotations

import asyncio
import inspect
import json
import os
import secrets
import socket
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Optional, Union

from . import trust, wire
from .errors import Error
from .paths import door

# The peer is told the deadline; we wait this much longer, so that its own TIMEOUT answer wins.
GRACE_S = 2.0
DEFAULT_DEADLINE_S = 30.0
PIECE_BYTES = (64 << 10) - 9

Handler = Callable[[wire.Message], Union[Any, Awaitable[Any]]]


class InStream:
    """Bytes that the peer sends beside its messages. Reading grants it credit for more."""

    def __init__(self, client: "Client", number: int):
        self.number = number
        self._client = client
        self._buffer = bytearray()
        self._granted = wire.INITIAL_CREDIT
        self._consumed = 0
        self._is_ended = False
        self._error: Optional[Error] = None
        self._news = asyncio.Event()

    def _arrive(self, data: bytes) -> None:
        if len(data) > self._granted:
            raise Error("PROTOCOL_ERROR", "the peer sent more than it was granted")
        self._granted -= len(data)
        self._buffer += data
        self._is_ended = self._is_ended or not data
        self._news.set()

    def _fail(self, error: Error) -> None:
        self._error = self._error or error
        self._news.set()

    async def read(self) -> bytes:
        """The next bytes; empty at the good end of the stream."""
        self._client._require_own()
        while not self._buffer and not self._is_ended and self._error is None:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if data:
            self._consumed += len(data)
            if self._consumed >= wire.INITIAL_CREDIT // 2 and not self._is_ended:
                self._client._send(wire.encode_event("stream.credit", {"stream": self.number, "bytes": self._consumed}))
                self._granted += self._consumed
                self._consumed = 0
        else:
            self._client._in.pop(self.number, None)  # read to its end: forgotten
            if self._error is not None:
                raise self._error
        return data

    async def read_all(self) -> bytes:
        return b"".join([piece async for piece in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            piece = await self.read()
            if not piece:
                return
            yield piece


class OutStream:
    """Bytes that we send. Name it as `stream.name` in the params of a call, then write."""

    def __init__(self, client: "Client", number: int):
        self.number = number
        self.name = {"$stream": number}
        self._client = client
        self._credit = wire.INITIAL_CREDIT
        self._error: Optional[Error] = None
        self._news = asyncio.Event()

    def _fail(self, error: Error) -> None:
        self._error = self._error or error
        self._news.set()

    async def write(self, data: bytes) -> None:
        self._client._require_own()
        view = memoryview(data)
        while view:
            while self._credit == 0 and self._error is None:
                self._news.clear()
                await self._news.wait()
            if self._error is not None:
                raise self._error
            piece = view[: min(len(view), self._credit, PIECE_BYTES)]
            self._credit -= len(piece)
            view = view[len(piece) :]
            self._client._send(wire.encode_chunk(self.number, bytes(piece)))
            await self._client._drain()

    async def finish(self) -> None:
        if self._error is not None:
            raise self._error
        self._client._out.pop(self.number, None)
        self._client._send(wire.encode_chunk(self.number, b""))
        await self._client._drain()

    def reset(self, error: Error) -> None:
        if self._client._out.pop(self.number, None):
            self._client._send(
                wire.encode_event("stream.reset", {"stream": self.number, "error": error.to_json()}))


class PendingCall:
    """A request in flight. Await it for its result; `cancel()` asks the peer to end it."""

    def __init__(self, client: "Client", id: str, deadline: float):
        self.id = id
        self.events: "asyncio.Queue[wire.Message]" = asyncio.Queue()  # that belong to this request
        self._client = client
        self._deadline = deadline
        self._answer: "asyncio.Future[wire.Message]" = asyncio.get_running_loop().create_future()
        # Nobody may be waiting when the connection ends.
        self._answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def cancel(self) -> None:
        if self.id in self._client._pending:
            self._client._send(wire.encode_event("cancel", id=self.id))

    def __await__(self) -> Any:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        try:
            answer = await asyncio.wait_for(asyncio.shield(self._answer), self._deadline + GRACE_S)
        except asyncio.TimeoutError:
            self.cancel()
            self._client._pending.pop(self.id, None)
            raise Error("TIMEOUT", "no answer in time") from None
        except asyncio.CancelledError:
            self.cancel()
            raise
        if answer.error is not None:
            raise answer.error
        return answer.result


class Client:
    """Made by connect() and its relatives. `on_event` gets events that belong to no call of ours in flight."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_connecting: bool = True):
        self._reader, self._writer = reader, writer
        self._frames = wire.FrameReader()
        self._pending: Dict[str, PendingCall] = {}
        self._subscriptions: Dict[str, "asyncio.Queue[wire.Message]"] = {}
        self._served: Dict[str, Handler] = {}
        self._serving: Dict[str, "asyncio.Task[None]"] = {}
        self._in: Dict[int, InStream] = {}
        self._out: Dict[int, OutStream] = {}
        self._last_id = 0
        self._next_stream = 1 if is_connecting else 2
        self._last_announced = 0
        self._failure: Optional[Error] = None
        self._pid = os.getpid()
        self.on_event: Optional[Callable[[wire.Message], None]] = None
        self._task: "Optional[asyncio.Task[None]]" = None

    def _begin(self) -> "Client":
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        return self._failure is None and self._is_own

    @property
    def _is_own(self) -> bool:
        return self._pid == os.getpid()

    def _require_own(self) -> None:
        """Behind a fork both processes would read from one socket, each what is meant for the other."""
        if not self._is_own:
            raise Error("UNAVAILABLE", "this connection belongs to the process that made it; after a fork, connect again")

    async def close(self) -> None:
        if not self._is_own:
            return
        self._fail(Error("UNAVAILABLE", "the connection was closed by this side"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def wait_closed(self) -> None:
        """Serves until the peer ends the connection."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- calls ----

    def start(self, method: str, params: Optional[Dict[str, Any]] = None, *, deadline: float = DEFAULT_DEADLINE_S,
              token: str = "") -> PendingCall:
        """Sends a request without waiting. The deadline is in seconds, at most a day. ValueError or TypeError for what
        cannot be sent: that hurts no other call."""
        self._require_own()
        if self._failure is not None:
            raise self._failure
        if not deadline > 0:
            raise ValueError(f"a deadline is a positive number of seconds, not {deadline!r}")
        self._last_id += 1
        id = str(self._last_id)
        deadline = min(deadline, wire.MAX_DEADLINE_MS / 1000)
        deadline_ms = max(1, int(deadline * 1000))
        data = wire.encode_request(id, method, params, deadline_ms, token)
        call = self._pending[id] = PendingCall(self, id, deadline)
        self._send(data)
        return call

    async def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
                   deadline: float = DEFAULT_DEADLINE_S, token: str = "") -> Any:
        pending = self.start(method, params, deadline=deadline, token=token)
        await self._drain()
        return await pending

    async def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        self._send(wire.encode_event(method, params))
        await self._drain()

    async def subscribe(self, *patterns: str) -> AsyncIterator[wire.Message]:
        """Events of the warden whose names match, as they come."""
        call = self.start("warden.subscribe", {"events": list(patterns) or ["*"]})
        queue = self._subscriptions[call.id] = call.events
        await call

        async def events() -> AsyncIterator[wire.Message]:
            while True:
                self._require_own()
                event = await queue.get()
                if event.error is not None:
                    raise event.error
                yield event

        return events()

    # ---- serving ----

    def serve(self, method: str, handler: Handler) -> None:
        """Answers the peer's requests for a method with what `handler(message)` returns or, raising Error, refuses."""
        self._served[method] = handler

    async def _answer(self, message: wire.Message) -> None:
        assert message.id is not None
        try:
            handler = self._served.get(message.method)
            if handler is None:
                raise Error("METHOD_NOT_FOUND", "no such method")
            result = handler(message)
            if inspect.isawaitable(result):
                result = await result
            data = wire.encode_result(message.id, result)
        except Error as error:
            data = wire.encode_error(message.id, error)
        except asyncio.CancelledError:
            data = wire.encode_error(message.id, Error("CANCELLED", "the caller gave up"))
        except Exception:  # whatever a handler throws ends here; what it says may not be for the peer
            data = wire.encode_error(message.id, Error("INTERNAL_ERROR", "the request could not be handled"))
        self._serving.pop(message.id, None)
        self._send(data)

    # ---- streams ----

    def open_stream(self) -> OutStream:
        if len(self._out) >= wire.MAX_OPEN_STREAMS:
            raise Error("RATE_LIMITED", "too many open streams")
        stream = self._out[self._next_stream] = OutStream(self, self._next_stream)
        self._next_stream += 2
        return stream

    def stream(self, named: Any) -> InStream:
        """The stream that an answer or event named as {"$stream": n}."""
        number = named.get("$stream") if isinstance(named, dict) else named
        if number not in self._in:
            raise Error("NOT_FOUND", "no such stream")
        return self._in[number]

    # ---- the connection ----

    def _send(self, data: bytes) -> None:
        self._require_own()
        if self._failure is None:
            self._writer.write(data)

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except (ConnectionError, OSError):
            self._fail(Error("UNAVAILABLE", "the connection is lost"))
            raise self._failure from None  # type: ignore[misc]

    def _fail(self, error: Error) -> None:
        if self._failure is not None:
            return
        self._failure = error
        pending, self._pending = self._pending, {}
        for call in pending.values():
            if not call._answer.done():
                call._answer.set_exception(error)
        for queue in self._subscriptions.values():
            queue.put_nowait(wire.Message("event", error=error))
        for task in list(self._serving.values()):
            task.cancel()
        for incoming in self._in.values():
            if not incoming._is_ended:
                incoming._fail(error)
        for outgoing in self._out.values():
            outgoing._fail(error)
        self._writer.close()

    async def _run(self) -> None:
        try:
            while True:
                data = await self._reader.read(256 << 10)
                if not data:
                    self._frames.finish()
                    raise Error("UNAVAILABLE", "the connection was ended by the peer")
                for body in self._frames.feed(data):
                    self._handle(wire.decode(body))
        except Error as error:
            self._fail(error)
        except (ConnectionError, OSError):
            self._fail(Error("UNAVAILABLE", "the connection is lost"))

    def _handle(self, frame: Union[wire.Message, wire.Chunk]) -> None:
        if isinstance(frame, wire.Chunk):
            stream = self._in.get(frame.stream)
            if stream is not None:
                stream._arrive(frame.data)
            elif frame.stream > self._last_announced:
                raise Error("PROTOCOL_ERROR", "a chunk for a stream that nobody named")
            return
        for number in frame.streams:
            if number % 2 == self._next_stream % 2 or number <= self._last_announced:
                raise Error("PROTOCOL_ERROR", "a stream's number that is not the peer's to give")
            self._last_announced = number
            self._in[number] = InStream(self, number)
        if frame.type == "response":
            if frame.id is None:
                raise frame.error or Error("PROTOCOL_ERROR", "an answer to nobody")
            call = self._pending.pop(frame.id, None)
            if call is not None and not call._answer.done():
                call._answer.set_result(frame)
        elif frame.type == "request":
            self._serving[frame.id or ""] = asyncio.get_running_loop().create_task(self._answer(frame))
        else:
            self._handle_event(frame)

    def _handle_event(self, event: wire.Message) -> None:
        params = event.params or {}
        number = params.get("stream")
        if event.method == "stream.credit":
            outgoing = self._out.get(number)  # type: ignore[arg-type]
            if outgoing is not None and isinstance(params.get("bytes"), int) and params["bytes"] > 0:
                outgoing._credit += params["bytes"]
                outgoing._news.set()
        elif event.method == "stream.reset":
            error = Error.from_json(params.get("error"))
            if number in self._out:
                self._out.pop(number)._fail(error)  # type: ignore[arg-type]
            if number in self._in:
                self._in[number]._fail(error)  # type: ignore[index]
        elif event.method == "cancel":
            task = self._serving.get(event.id or "")
            if task is not None:
                task.cancel()
        elif event.id in self._subscriptions:
            self._subscriptions[event.id or ""].put_nowait(event)
        elif event.id in self._pending:
            self._pending[event.id or ""].events.put_nowait(event)
        elif self.on_event is not None:
            self.on_event(event)


# ---- connecting ----


async def _connect_unix(path: str) -> socket.socket:
    """An address holds 107 bytes; through its directory's descriptor any path fits."""
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        address = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


async def connect(path: Optional[str] = None) -> Client:
    """Connects to a Unix socket; by default the door of the container we are in, else the user's warden."""
    path = path or door()
    trust.require_own_directory(path)
    try:
        sock = await _connect_unix(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise Error("UNAVAILABLE", f"no warden is running; start one with: sallyport up (nobody listens at {path})",
                    True) from None
    except OSError as problem:
        raise Error("UNAVAILABLE", f"cannot connect to {path}: {problem.strerror or problem}") from None
    try:
        trust.require_own_peer(sock)
    except Error:
        sock.close()
        raise
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=4 << 20)
    return Client(reader, writer)._begin()


async def connect_loopback(state_file: str) -> Client:
    """Connects to the loopback TCP door that a daemon published in a 0600 file. Both sides prove that they hold its
    token: UNAUTHENTICATED if whoever listens there does not."""
    with open(state_file, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise Error("UNAUTHENTICATED", "the state file is not this user's alone")
        state = json.load(file)
    token = bytes.fromhex(state["token"])
    binding = wire.Binding(state["address"], state["boot_id"], state["pid"], state["start_time"])
    host, _, port = binding.address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=4 << 20)
    except ConnectionRefusedError:
        raise Error("UNAVAILABLE", "nobody listens there", True) from None
    nonce = secrets.token_bytes(32)
    hello = wire.hello(nonce)
    writer.write(wire.frame(hello))
    try:
        challenge = await asyncio.wait_for(reader.readexactly(4 + 67), 5)
    except (asyncio.IncompleteReadError, asyncio.TimeoutError):
        writer.close()
        raise Error("UNAUTHENTICATED", "no answer to the handshake") from None
    if not wire.is_genuine(token, hello, challenge[4:], binding):
        writer.close()
        raise Error("UNAUTHENTICATED", "whoever listens there does not hold the token")
    writer.write(wire.frame(wire.proof(token, hello, challenge[4:], nonce, binding)))
    return Client(reader, writer)._begin()


async def adopt(sock: Any, *, is_connecting: bool) -> Client:
    """Speaks over a socket that is there already, such as one end of a pair."""
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=4 << 20)
    return Client(reader, writer, is_connecting)._begin()
