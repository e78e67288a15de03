"""One connection, used from one event loop: calls, events, serving and streams over it."""
from __future__ import annotations

import asyncio
import inspect
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, Optional, Union

from . import wire
from .errors import Error
from .streams import InStream, OutStream

# Calls that change what a connection is: it is not handed on to others.
CHANGING = frozenset(["warden.subscribe", "session.narrow"])
# The peer is told the deadline; we wait this much longer, so that its own TIMEOUT answer wins.
GRACE_S = 2.0
DEFAULT_DEADLINE_S = 30.0

Handler = Callable[[wire.Message], Union[Any, Awaitable[Any]]]


class PendingCall:
    """A request in flight. Await it for its result; `cancel()` asks the peer to end it. An error as its answer also ends
    the streams that it named: nobody reads them. What is told to one whose waiter was cancelled ends too, unless
    somebody took it with stream()."""

    def __init__(self, client: "Client", id: str, deadline: Optional[float], streams: List[int]):
        self.id = id
        self.events: "asyncio.Queue[wire.Message]" = asyncio.Queue()  # that belong to this request
        self._client = client
        self._deadline = deadline
        self._streams = streams
        self._named: List[int] = []  # streams of the peer's, in events and in the answer
        self._is_given_up = False
        self._answer: "asyncio.Future[wire.Message]" = asyncio.get_running_loop().create_future()
        # Nobody may be waiting when the connection ends.
        self._answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def cancel(self) -> None:
        if self.id in self._client._pending:
            self._client._send(wire.encode_event("cancel", id=self.id))

    def __await__(self) -> Any:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        self._is_given_up = False
        try:
            limit = None if self._deadline is None else self._deadline + GRACE_S
            answer = await asyncio.wait_for(asyncio.shield(self._answer), limit)
        except asyncio.TimeoutError:
            self.cancel()
            self._client._pending.pop(self.id, None)
            late = Error("TIMEOUT", "no answer in time")
            self._end_streams(late)
            self._give_up()
            raise late from None
        except asyncio.CancelledError:
            self.cancel()
            self._give_up()
            raise
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _arrive(self, answer: wire.Message) -> None:
        if answer.error is not None:
            self._end_streams(answer.error)
        if not self._answer.done():
            self._answer.set_result(answer)
        if self._is_given_up:
            self._give_up()

    def _give_up(self) -> None:
        self._is_given_up = True
        if self.id in self._client._pending:  # it may still be awaited again
            return
        streams = self._client._in
        self._client._drop_all([each for each in self._named if each in streams and not streams[each]._is_taken])

    def _end_streams(self, error: Error) -> None:
        for number in self._streams:
            if number in self._client._out:
                self._client._out[number].reset(error)


class Subscription:
    """Events as they come: iterate. It ends with close(), with the connection, or when nobody holds it any more."""

    def __init__(self, client: "Client", call: PendingCall):
        self._client, self._id, self._queue = client, call.id, call.events
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> wire.Message:
        self._client._require_own()
        if self._queue.empty():
            if self._client._failure is not None:
                raise self._client._failure
            if self._id not in self._client._subscriptions:
                raise StopAsyncIteration
        event = await self._queue.get()
        if event.error is not None:
            raise event.error
        if event.method == "":  # closed by another task
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """What has come already can still be read."""
        self._client._unsubscribe(self._id)

    def __del__(self) -> None:
        # In whichever thread it was dropped; a loop that is closed has nothing left to end.
        if self._client._is_own:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._client._unsubscribe, self._id)


@dataclass(frozen=True)
class Completed:
    exit_code: int
    stdout: bytes
    stderr: bytes


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
        self._is_changed = False
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
    def is_as_new(self) -> bool:
        """Whether somebody else could use the connection as if it were new: nothing is left on its way, nobody listens or
        serves, and no call changed what the connection is."""
        return (self.is_open and not self._is_changed and self.on_event is None
                and not (self._served or self._serving or self._pending or self._in or self._out))

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
        closing = asyncio.ensure_future(self._writer.wait_closed())
        await asyncio.wait([closing], timeout=GRACE_S)
        self._writer.transport.abort()  # a peer that does not read keeps nobody
        await asyncio.gather(closing, return_exceptions=True)

    async def wait_closed(self) -> None:
        """Serves until the peer ends the connection."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- calls ----

    def start(self, method: str, params: Optional[Dict[str, Any]] = None, *, deadline: Optional[float] = DEFAULT_DEADLINE_S,
              token: str = "") -> PendingCall:
        """Sends a request without waiting. The deadline is in seconds, at most a day; with None only the peer's own limit
        counts, which not every method has. ValueError or TypeError for what
        cannot be sent: that hurts no other call."""
        self._require_own()
        if self._failure is not None:
            raise self._failure
        if deadline is not None and not deadline > 0:
            raise ValueError(f"a deadline is a positive number of seconds, not {deadline!r}")
        self._last_id += 1
        id = str(self._last_id)
        deadline_ms = None
        if deadline is not None:
            deadline = min(deadline, wire.MAX_DEADLINE_MS / 1000)
            deadline_ms = max(1, int(deadline * 1000))
        data = wire.encode_request(id, method, params, deadline_ms, token)
        streams = wire.streams_in(params) if self._out else []
        call = self._pending[id] = PendingCall(self, id, deadline, streams)
        self._is_changed = self._is_changed or method in CHANGING
        self._send(data)
        return call

    async def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
                   deadline: Optional[float] = DEFAULT_DEADLINE_S, token: str = "") -> Any:
        return await self.start(method, params, deadline=deadline, token=token)

    async def upload(self, method: str, params: Dict[str, Any], name: str, data: bytes, *,
                     deadline: Optional[float] = DEFAULT_DEADLINE_S) -> Any:
        """A call whose parameter `name` is sent as a stream. A peer that answers before it has read everything gets the
        rest all the same, as it takes it."""
        stream = self.open_stream()
        try:
            pending = self.start(method, {**params, name: stream.name}, deadline=deadline)
        except BaseException:
            self._out.pop(stream.number)  # the peer never heard of it
            raise
        sending = asyncio.ensure_future(stream.write_all(data))
        sending.add_done_callback(lambda done: done.cancelled() or done.exception())  # the answer says what was wrong
        try:
            return await pending
        except BaseException as problem:
            stream.reset(problem if isinstance(problem, Error) else Error("CANCELLED", "the caller gave up"))
            raise

    async def run_exec(self, container: Optional[str], command: List[str], *, deadline: Optional[float] = 3600.0) -> "Completed":
        """container.exec from start to end, with all of its output. Without a container: in the one that we are in."""
        params: Dict[str, Any] = {"command": command}
        if container is not None:
            params["container"] = container
        pending = self.start("container.exec", params, deadline=deadline)

        async def output() -> List[bytes]:
            while True:  # before it starts, somebody may be asked (approval.asked)
                event = await pending.events.get()
                if event.method == "container.started":
                    break
            named = event.params or {}
            return list(await asyncio.gather(self.stream(named["stdout"]).read_all(),
                                             self.stream(named["stderr"]).read_all()))

        reading = asyncio.ensure_future(output())
        try:
            result = await pending
            out, err = await reading
        finally:
            reading.cancel()
            self._drop_all(pending._named)
        return Completed(result["exit_code"], out, err)

    async def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        self._send(wire.encode_event(method, params))
        await self._drain()

    async def subscribe(self, *patterns: str) -> Subscription:
        """Events of the warden whose names match, as they come."""
        call = self.start("warden.subscribe", {"events": list(patterns) or ["*"]})
        self._subscriptions[call.id] = call.events
        subscription = Subscription(self, call)
        await call
        return subscription

    def _unsubscribe(self, id: str) -> None:
        queue = self._subscriptions.pop(id, None)
        if queue is not None and self._is_own:
            queue.put_nowait(wire.Message("event"))
            self._send(wire.encode_event("cancel", id=id))

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
        if not isinstance(number, int) or number not in self._in:
            raise Error("NOT_FOUND", "no such stream")
        stream = self._in[number]
        stream._is_taken = True
        return stream

    def _drop_all(self, numbers: List[int]) -> None:
        """Nobody reads these streams (any more): what came is forgotten, and a peer that still sends is told."""
        error = Error("CANCELLED", "nobody reads this stream")
        for number in numbers:
            stream = self._in.pop(number, None)
            if stream is not None and not stream._is_ended and stream._error is None:
                stream._fail(error)
                self._send(wire.encode_event("stream.reset", {"stream": number, "error": error.to_json()}))

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
        except Exception as problem:  # whatever it is: nobody waits for a connection that is not read any more
            failure = Error("PROTOCOL_ERROR", "the peer sent what cannot be handled")
            failure.__cause__ = problem
            self._fail(failure)

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
            if call is not None:
                call._named += frame.streams
                call._arrive(frame)
            else:
                self._drop_all(frame.streams)  # it came too late
        elif frame.type == "request":
            self._serving[frame.id or ""] = asyncio.get_running_loop().create_task(self._answer(frame))
        else:
            self._handle_event(frame)

    def _handle_event(self, event: wire.Message) -> None:
        params = event.params or {}
        number = params.get("stream")
        if not isinstance(number, int):
            number = 0  # nobody's
        if event.method == "stream.credit":
            outgoing = self._out.get(number)
            if outgoing is not None and isinstance(params.get("bytes"), int) and params["bytes"] > 0:
                outgoing._credit += params["bytes"]
                outgoing._news.set()
        elif event.method == "stream.reset":
            error = Error.from_json(params.get("error"))
            if number in self._out:
                self._out.pop(number)._fail(error)
            if number in self._in:
                self._in[number]._fail(error)
        elif event.method == "cancel":
            task = self._serving.get(event.id or "")
            if task is not None:
                task.cancel()
        elif event.id in self._subscriptions:
            self._subscriptions[event.id or ""].put_nowait(event)
        elif event.id in self._pending:
            call = self._pending[event.id or ""]
            call._named += event.streams
            call.events.put_nowait(event)
        elif self.on_event is not None:
            try:
                self.on_event(event)
            except Exception as problem:  # its own fault, for which no call may suffer
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "on_event of a sallyport client failed", "exception": problem})
        else:
            self._drop_all(event.streams)
