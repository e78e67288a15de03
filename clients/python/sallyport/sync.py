"""The same client without asyncio: an event loop of its own in a thread does the work. Thread-safe."""
from __future__ import annotations

import asyncio
import atexit
import os
import queue
import select
import selectors
import threading
from contextlib import contextmanager
from typing import Any, Callable, Coroutine, Dict, Iterator, List, Optional, TypeVar

from . import aio, wire
from .errors import Error

T = TypeVar("T")


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
             deadline: float = aio.DEFAULT_DEADLINE_S, token: str = "") -> Any:
        return _loop.run(self.aio.call(method, params, deadline=deadline, token=token))

    def upload(self, method: str, params: Dict[str, Any], name: str, data: bytes, *,
               deadline: float = aio.DEFAULT_DEADLINE_S) -> Any:
        """A call whose parameter `name` is sent as a stream."""

        async def work() -> Any:
            stream = self.aio.open_stream()
            pending = self.aio.start(method, {**params, name: stream.name}, deadline=deadline)
            try:
                await stream.write(data)
                await stream.finish()
            except Error:
                pass  # the answer says what was wrong with it
            return await pending

        return _loop.run(work())

    def stream(self, named: Any) -> Stream:
        return Stream(self.aio.stream(named))

    def events(self, *patterns: str) -> Iterator[wire.Message]:
        """Subscribes at once; then waits for each event."""
        source = _loop.run(self.aio.subscribe(*patterns))

        def each() -> Iterator[wire.Message]:
            while True:
                yield _loop.run(source.__anext__())  # type: ignore[arg-type]

        return each()

    def serve(self, method: str, handler: Callable[[wire.Message], Any]) -> None:
        """`handler` runs in the loop's thread and must not block."""
        self.aio.serve(method, handler)

    def run_exec(self, container: Optional[str], command: List[str], *, deadline: float = 3600.0) -> "Completed":
        """container.exec from start to end, with all of its output."""

        async def work() -> Completed:
            params: Dict[str, Any] = {"command": command}
            if container is not None:
                params["container"] = container
            pending = self.aio.start("container.exec", params, deadline=deadline)

            async def output() -> List[bytes]:
                event = await pending.events.get()
                named = event.params or {}
                return list(await asyncio.gather(self.aio.stream(named["stdout"]).read_all(),
                                                 self.aio.stream(named["stderr"]).read_all()))

            reading = asyncio.ensure_future(output())
            try:
                result = await pending
                out, err = await reading
            finally:
                reading.cancel()
            return Completed(result["exit_code"], out, err)

        return _loop.run(work())


class Completed:
    def __init__(self, exit_code: int, stdout: bytes, stderr: bytes):
        self.exit_code, self.stdout, self.stderr = exit_code, stdout, stderr


def connect(path: Optional[str] = None) -> Client:
    """Connects to a Unix socket; by default the door of the container we are in, else the user's warden."""
    return Client(_loop.run(aio.connect(path)))


def connect_loopback(state_file: str) -> Client:
    return Client(_loop.run(aio.connect_loopback(state_file)))


class Pool:
    """At most `most` connections, opened when needed and kept for reuse. A lost one is replaced, and behind a fork all."""

    def __init__(self, most: int = 8, path: Optional[str] = None):
        if most < 1:
            raise ValueError("a pool needs room for at least one connection")
        self._path, self._most = path, most
        self._fill()

    def _fill(self) -> None:
        self._pid = os.getpid()
        self._slots: "queue.LifoQueue[Optional[Client]]" = queue.LifoQueue()
        for _ in range(self._most):
            self._slots.put(None)

    @contextmanager
    def take(self) -> Iterator[Client]:
        if self._pid != os.getpid():
            self._fill()
        slots = self._slots
        client = slots.get()
        try:
            if client is None or not client.is_open:
                client = None
                client = connect(self._path)
            yield client
        finally:
            slots.put(client if client is not None and client.is_open else None)

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
             deadline: float = aio.DEFAULT_DEADLINE_S) -> Any:
        with self.take() as client:
            return client.call(method, params, deadline=deadline)

    def close(self) -> None:
        while not self._slots.empty():
            client = self._slots.get()
            if client is not None:
                client.close()
