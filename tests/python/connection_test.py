"""The Python client against peers that behave otherwise than a warden does."""
import asyncio
import json
import socket
import unittest

import sallyport
from sallyport import aio, wire


class Peer:
    """The other end of a client's connection, by hand."""

    def __init__(self, client, reader, writer):
        self.client, self.reader, self.writer = client, reader, writer

    def send(self, value):
        self.writer.write(wire.frame(json.dumps(value).encode()))

    async def next(self):
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return wire.decode(await self.reader.readexactly(length))


def with_peer(work):
    async def whole():
        ours, theirs = socket.socketpair()
        client = await aio.adopt(ours, is_connecting=True)
        peer = Peer(client, *await asyncio.open_connection(sock=theirs))
        await asyncio.wait_for(work(client, peer), 30)
        await client.close()
        peer.writer.close()

    asyncio.run(whole())


async def failure_of(call):
    try:
        await asyncio.wait_for(call, 10)
    except sallyport.Error as error:
        return error
    raise AssertionError("it did not fail")


class Faults(unittest.TestCase):
    def test_a_handler_of_events_that_fails_is_reported_and_hurts_no_call(self):
        async def work(client, peer):
            told = []
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
            client.on_event = lambda event: event.params["no such"]
            call = client.start("test.ping")
            peer.send({"type": "event", "method": "progress", "params": {}})
            peer.send({"type": "response", "id": call.id, "result": 1})
            self.assertEqual(await asyncio.wait_for(call, 10), 1)
            self.assertEqual([type(problem) for problem in told], [KeyError])

        with_peer(work)

    def test_a_message_of_no_type_ends_the_connection(self):
        async def work(client, peer):
            call = client.start("test.ping")
            peer.send({"type": [], "id": call.id})
            self.assertEqual((await failure_of(call)).code, "INVALID_REQUEST")
            self.assertFalse(client.is_open)

        with_peer(work)

    def test_streams_and_codes_that_are_none_are_nobodys(self):
        async def work(client, peer):
            call = client.start("test.ping")
            for method in ["stream.credit", "stream.reset"]:
                peer.send({"type": "event", "method": method, "params": {"stream": [], "bytes": 1, "error": {}}})
            peer.send({"type": "response", "id": call.id, "error": {"code": {}, "message": "?"}})
            self.assertEqual((await failure_of(call)).code, "INTERNAL_ERROR")
            self.assertTrue(client.is_open)

        with_peer(work)

    def test_a_fault_of_the_reader_itself_ends_what_waits(self):
        def fail(event):
            raise RuntimeError("a fault")

        async def work(client, peer):
            client._handle_event = fail
            call = client.start("test.ping")
            peer.send({"type": "event", "method": "progress"})
            error = await failure_of(call)
            self.assertEqual(error.code, "PROTOCOL_ERROR")
            self.assertIsInstance(error.__cause__, RuntimeError)
            self.assertFalse(client.is_open)

        with_peer(work)


if __name__ == "__main__":
    unittest.main()
