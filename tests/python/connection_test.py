"""The Python client against peers that behave otherwise than a warden does."""
import asyncio
import json
import os
import shutil
import socket
import tempfile
import unittest
import unittest.mock

import sallyport
from sallyport import aio, connection, wire


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


class Connecting(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = self.directory + "/peer"

    def test_to_one_who_takes_no_connections_waits_and_then_says_so(self):
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
            listener.bind(self.path)
            listener.listen(0)
            first.connect(self.path)
            with unittest.mock.patch.object(aio, "CONNECT_ATTEMPTS", 3):
                self.assertEqual(asyncio.run(failure_of(aio.connect(self.path))).code, "TIMEOUT")

            async def taken_later():
                asyncio.get_running_loop().call_later(0.2, lambda: listener.accept()[0].detach())
                client = await aio.connect(self.path)
                await client.close()

            asyncio.run(taken_later())

    def test_over_loopback_fails_with_an_error_of_ours(self):
        self.assertEqual(asyncio.run(failure_of(aio.connect_loopback(self.path))).code, "UNAVAILABLE")
        for text in ("", "[]", "{}", '{"token":"x"}', '{"token":"00","address":1,"boot_id":"","pid":1,"start_time":1}'):
            with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
            self.assertEqual(asyncio.run(failure_of(aio.connect_loopback(self.path))).code, "PROTOCOL_ERROR", text)


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


STARTED = {"stdout": {"$stream": 2}, "stderr": {"$stream": 4}}


class Abandoned(unittest.TestCase):
    """Streams that nobody reads: the peer is told, and nothing of them is kept."""

    def test_a_command_that_fails_leaves_none_behind(self):
        async def work(client, peer):
            running = asyncio.ensure_future(client.run_exec("c", ["true"]))
            asked = await peer.next()
            peer.send({"type": "event", "id": asked.id, "method": "container.started", "params": STARTED})
            peer.writer.write(wire.encode_chunk(2, b"x" * 1000) + wire.encode_chunk(4, b""))
            peer.send({"type": "response", "id": asked.id, "error": {"code": "TIMEOUT", "message": "too slow"}})
            self.assertEqual((await failure_of(running)).code, "TIMEOUT")
            self.assertEqual(await self.reset(peer), 2)
            self.assertTrue(client.is_as_new)
            self.assertEqual((await self.ping(client, peer)), "test.ping", "what had ended is not reset")

        with_peer(work)

    def test_a_command_that_is_cancelled_leaves_none_behind(self):
        for is_started in (True, False):
            with self.subTest(is_started=is_started):
                async def work(client, peer):
                    running = asyncio.ensure_future(client.run_exec("c", ["true"]))
                    asked = await peer.next()
                    started = {"type": "event", "id": asked.id, "method": "container.started", "params": STARTED}
                    if is_started:
                        peer.send(started)
                        while len(client._in) < 2:
                            await asyncio.sleep(0.01)
                    running.cancel()
                    self.assertEqual((await peer.next()).method, "cancel")
                    if not is_started:
                        peer.send(started)
                    peer.send({"type": "response", "id": asked.id, "error": {"code": "CANCELLED", "message": ""}})
                    self.assertEqual([await self.reset(peer), await self.reset(peer)], [2, 4])
                    self.assertEqual(client._in, {})
                    with self.assertRaises(asyncio.CancelledError):
                        await running

                with_peer(work)

    def test_an_answer_that_nobody_waits_for_has_none_that_stay(self):
        async def work(client, peer):
            call = asyncio.ensure_future(client.call("test.echo"))
            asked = await peer.next()
            call.cancel()
            self.assertEqual((await peer.next()).method, "cancel")
            peer.send({"type": "response", "id": asked.id, "result": {"data": {"$stream": 2}}})
            self.assertEqual(await self.reset(peer), 2)
            self.assertTrue(client.is_as_new)

        with_peer(work)

    def test_an_answer_that_comes_too_late_has_none_that_stay(self):
        async def work(client, peer):
            call = asyncio.ensure_future(client.call("test.echo", deadline=0.01))
            asked = await peer.next()
            self.assertEqual((await failure_of(call)).code, "TIMEOUT")
            self.assertEqual((await peer.next()).method, "cancel")
            peer.send({"type": "response", "id": asked.id, "result": {"data": {"$stream": 2}}})
            self.assertEqual(await self.reset(peer), 2)
            self.assertTrue(client.is_as_new)

        with unittest.mock.patch.object(connection, "GRACE_S", 0.01):
            with_peer(work)

    def test_what_somebody_reads_stays(self):
        async def work(client, peer):
            call = client.start("container.exec", {})
            asked = await peer.next()
            peer.send({"type": "event", "id": asked.id, "method": "container.started", "params": STARTED})
            await call.events.get()
            stream = client.stream({"$stream": 2})
            waiting = asyncio.ensure_future(call._wait())
            await asyncio.sleep(0)
            waiting.cancel()
            self.assertEqual((await peer.next()).method, "cancel")
            peer.send({"type": "response", "id": asked.id, "error": {"code": "CANCELLED", "message": ""}})
            self.assertEqual(await self.reset(peer), 4)
            peer.writer.write(wire.encode_chunk(2, b"the last") + wire.encode_chunk(2, b""))
            self.assertEqual(await stream.read_all(), b"the last")

        with_peer(work)

    async def reset(self, peer):
        event = await peer.next()
        self.assertEqual((event.method, event.params["error"]["code"]), ("stream.reset", "CANCELLED"))
        return event.params["stream"]

    async def ping(self, client, peer):
        client.start("test.ping")
        return (await peer.next()).method


if __name__ == "__main__":
    unittest.main()
