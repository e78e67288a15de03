"""The same client without asyncio: an event loop of its own in a thread does the work. Thread-safe."""
from __future__ import annotations

import asyncio
import atexit
import os
import select
import selectors
import threading
import weakref
from contextlib import contextmanager, suppress
from typing import Any, Callable, Coroutine, Dict, Iterator, List, Optional, TypeVar

from . import aio, wire
from .connection import DEFAULT_DEADLINE_S
from .errors import Error

T = TypeVar("T")

# Handlers of one client that run at the same time; more requests wait.
MOST_SERVING = 32


class _Loop:
    """One thread with one event loop, shared by all clients of the process and started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A fork leaves the thread behind: the child starts its own. What it inherited of the parent's may be taken down
        without a trace there, because its epoll set, which both would share, is exchanged for an empty one."""
        self._lock = threading.Lock()
        if self._loop is None:
            return
        with select.epoll() as empty:
            os.dup2(empty.fileno(), self._selector.fileno(), inheritable=False)
        for task in asyncio.all_tasks(self._loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it goes on, in the parent
        self._loop = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._loop is None:
                self._selector = selectors.EpollSelector()
                self._loop = asyncio.SelectorEventLoop(self._selector)
                self._thread = threading.Thread(target=self._loop.run_forever, name="sallyport", daemon=True)
                self._thread.start()
                atexit.register(self._end)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        """Ends what still waits: a program that does not close its clients ends without complaints."""
        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        loop, self._loop = self._loop, None
        if loop is None:  # a child that made no connections, or one that inherited this call and made its own too
            return
        asyncio.run_coroutine_threadsafe(cancel_all(), loop).result(timeout=1)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(timeout=1)


_loop = _Loop()


class Stream:
    """Bytes from the peer; iterate, or read_all()."""

    def __init__(self, stream: aio.InStream):
        self._stream = stream

    def read(self) -> bytes:
        return _loop.run(self._stream.read())

    def read_all(self) -> bytes:
        return _loop.run(self._stream.read_all())

    def __iter__(self) -> Iterator[bytes]:
        while True:
            piece = self.read()
            if not piece:
                return
            yield piece


class Client:
    def __init__(self, client: aio.Client):
        self.aio = client
        self._room: Optional[asyncio.Semaphore] = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        _loop.run(self.aio.close())

    @property
    def is_open(self) -> bool:
        return self.aio.is_open

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
             deadline: Optional[float] = DEFAULT_DEADLINE_S, token: str = "") -> Any:
        return _loop.run(self.aio.call(method, params, deadline=deadline, token=token))

    def upload(self, method: str, params: Dict[str, Any], name: str, data: bytes, *,
               deadline: Optional[float] = DEFAULT_DEADLINE_S) -> Any:
        """A call whose parameter `name` is sent as a stream."""
        return _loop.run(self.aio.upload(method, params, name, data, deadline=deadline))

    def stream(self, named: Any) -> Stream:
        return Stream(self.aio.stream(named))

    def events(self, *patterns: str) -> Iterator[wire.Message]:
        """Subscribes at once; then waits for each event."""
        source = _loop.run(self.aio.subscribe(*patterns))

        async def following() -> Optional[wire.Message]:
            async for event in source:
                return event
            return None

        def each() -> Iterator[wire.Message]:
            while True:
                event = _loop.run(following())
                if event is None:
                    return
                yield event

        return each()

    def serve(self, method: str, handler: Callable[[wire.Message], Any]) -> None:
        """`handler(message)` runs in a thread of its own and may take its time; up to MOST_SERVING run at once. It goes on
        when its caller gives up."""
        self.aio.serve(method, lambda message: self._serve_in_thread(handler, message))

    async def _serve_in_thread(self, handler: Callable[[wire.Message], Any], message: wire.Message) -> Any:
        loop = asyncio.get_running_loop()
        if self._room is None:
            self._room = asyncio.Semaphore(MOST_SERVING)
        room = self._room
        await room.acquire()
        answer: "asyncio.Future[Any]" = loop.create_future()

        def settle(result: Any, problem: Optional[Exception]) -> None:
            room.release()
            if answer.done():  # given up meanwhile
                return
            if problem is None:
                answer.set_result(result)
            else:
                answer.set_exception(problem)

        def work() -> None:
            result, problem = None, None
            try:
                result = handler(message)
            except Exception as raised:
                problem = raised
            with suppress(RuntimeError):  # the program ends, and its loop with it
                loop.call_soon_threadsafe(settle, result, problem)

        threading.Thread(target=work, name="sallyport-serve", daemon=True).start()
        return await answer

    def wait_closed(self) -> None:
        """Serves until the peer ends the connection."""
        _loop.run(self.aio.wait_closed())

    def run_exec(self, container: Optional[str], command: List[str], *, deadline: Optional[float] = 3600.0) -> aio.Completed:
        """container.exec from start to end, with all of its output. Without a container: in the one that we are in."""
        return _loop.run(self.aio.run_exec(container, command, deadline=deadline))


def connect(path: Optional[str] = None) -> Client:
    """Connects to a Unix socket; by default the door of the container we are in, else the user's warden."""
    return Client(_loop.run(aio.connect(path)))


def connect_loopback(state_file: str) -> Client:
    return Client(_loop.run(aio.connect_loopback(state_file)))


def adopt(sock: Any, *, is_connecting: bool) -> Client:
    """Speaks over a socket that is there already, such as one end of a pair."""
    return Client(_loop.run(aio.adopt(sock, is_connecting=is_connecting)))


class _Room:
    """A pool's connections in one process."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.idle: List[Client] = []
        self.open = 0


class Pool:
    """At most `most` connections, opened when needed and kept for reuse. A lost one is replaced, and behind a fork all.
    One that comes back changed (a narrowing, a subscription, a handler, something still on its way) is closed: nobody
    inherits what another one left."""

    def __init__(self, most: int = 8, path: Optional[str] = None):
        if most < 1:
            raise ValueError("a pool needs room for at least one connection")
        self._path, self._most = path, most
        self._room, self._is_closed = _Room(), False
        _pools.add(self)

    @contextmanager
    def take(self) -> Iterator[Client]:
        """One connection; waits while all are in use. UNAVAILABLE once the pool is closed."""
        room = self._room
        client = self._find(room)
        try:
            if client is None:
                client = connect(self._path)
            yield client
        finally:
            self._give_back(room, client)

    def _find(self, room: _Room) -> Optional[Client]:
        """One to use, or None and the right to make one."""
        with room.changed:
            while True:
                if self._is_closed:
                    raise Error("UNAVAILABLE", "this pool was closed; make another one")
                while room.idle:
                    client = room.idle.pop()
                    if client.is_open:
                        return client
                    room.open -= 1
                if room.open < self._most:
                    room.open += 1
                    return None
                room.changed.wait()

    def _give_back(self, room: _Room, client: Optional[Client]) -> None:
        with room.changed:
            is_kept = client is not None and not self._is_closed and client.aio.is_as_new
            if client is not None and is_kept:
                room.idle.append(client)
            else:
                room.open -= 1
            room.changed.notify()
        if client is not None and not is_kept:
            client.close()

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
             deadline: Optional[float] = DEFAULT_DEADLINE_S) -> Any:
        with self.take() as client:
            return client.call(method, params, deadline=deadline)

    def close(self) -> None:
        """Connections that are in use end when they come back."""
        room = self._room
        with room.changed:
            self._is_closed = True
            idle, room.idle = room.idle, []
            room.open -= len(idle)
            room.changed.notify_all()
        for client in idle:
            client.close()


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _renew_pools() -> None:
    for pool in list(_pools):
        pool._room = _Room()


os.register_at_fork(after_in_child=_renew_pools)
