"""Streams of bytes beside the messages of a connection, in both directions."""
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, AsyncIterator, Optional

from . import wire
from .errors import Error

if TYPE_CHECKING:
    from .aio import Client

PIECE_BYTES = (64 << 10) - 9


class InStream:
    """Bytes that the peer sends beside its messages. Reading grants it credit for more."""

    def __init__(self, client: "Client", number: int):
        self.number = number
        self._client = client
        self._buffer = bytearray()
        self._granted = wire.INITIAL_CREDIT
        self._consumed = 0
        self._is_ended = False
        self._is_taken = False  # by somebody who reads it, or will
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

    async def write_all(self, data: bytes) -> None:
        await self.write(data)
        await self.finish()

    def reset(self, error: Error) -> None:
        """Ends it for both sides, unless it has ended already; whoever still writes gets this error."""
        if self._client._out.pop(self.number, None):
            self._fail(error)
            self._client._send(
                wire.encode_event("stream.reset", {"stream": self.number, "error": error.to_json()}))
