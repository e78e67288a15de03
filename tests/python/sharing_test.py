"""How uses of the Python client end: uploads that nobody reads, subscriptions that nobody holds, pools that are closed."""
import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import unittest

import sallyport
from sallyport import aio
from warden import PACKAGE, Warden

LARGE = b"x" * (3 << 20)  # more than a stream's first credit


async def pair():
    ours, theirs = socket.socketpair()
    return await aio.adopt(ours, is_connecting=False), await aio.adopt(theirs, is_connecting=True)


async def until(claim):
    while not claim():
        await asyncio.sleep(0.01)


class Uploads(Warden):
    def test_one_that_is_refused_before_it_was_read_ends_with_the_refusal(self):
        with sallyport.connect() as client:
            container = self.container(client)
            for path, code in (("/etc/x", "POLICY_DENIED"), ("no/such/directory/x", "IO_ERROR")):
                with self.assertRaises(sallyport.Error) as raised:
                    client.upload("fs.write", {"container": container, "path": path}, "content", LARGE, deadline=60)
                self.assertEqual(raised.exception.code, code)
            self.assertTrue(client.aio.is_as_new, "nothing is left of it")
            client.upload("fs.write", {"container": container, "path": "x"}, "content", LARGE)
            self.assertEqual((self.root / "project" / "x").read_bytes(), LARGE)

    def test_an_error_as_answer_ends_the_streams_even_if_the_peer_resets_none(self):
        async def work():
            server, client = await pair()

            def refuse(message):
                raise sallyport.Error("CONFLICT", "not now")

            server.serve("take", refuse)
            with self.assertRaises(sallyport.Error) as raised:
                await asyncio.wait_for(client.upload("take", {}, "data", LARGE), 60)
            self.assertEqual(raised.exception.code, "CONFLICT")
            stream = client.open_stream()
            pending = client.start("take", {"deep": [{"data": stream.name}]})
            with self.assertRaises(sallyport.Error) as raised:
                await asyncio.wait_for(stream.write(LARGE), 60)
            self.assertEqual(raised.exception.code, "CONFLICT")
            with self.assertRaises(sallyport.Error):
                await pending
            self.assertTrue(client.is_as_new)
            await until(lambda: all(incoming._error for incoming in server._in.values()))
            await client.close()
            await server.close()

        asyncio.run(work())

    def test_one_whose_deadline_passes_ends(self):
        async def work():
            server, client = await pair()
            server.serve("ignore", lambda message: asyncio.sleep(3600))
            for given_up in (client.upload("ignore", {}, "data", LARGE, deadline=0.01),
                             asyncio.wait_for(client.upload("ignore", {}, "data", LARGE), 0.2)):
                with self.assertRaises((sallyport.Error, asyncio.TimeoutError)):
                    await given_up
            await until(lambda: client.is_as_new)
            with self.assertRaises(ValueError):
                await client.upload("ignore", {"n": float("nan")}, "data", LARGE)
            self.assertTrue(client.is_as_new)
            await client.close()
            await server.close()

        asyncio.run(work())

    def test_one_that_is_answered_early_goes_on(self):
        with sallyport.connect() as client:
            named = client.upload("test.echo", {}, "data", LARGE)["data"]
            self.assertEqual(client.stream(named).read_all(), LARGE)

    def test_a_deadline_is_kept_though_the_peer_reads_nothing(self):
        async def work():
            ours, theirs = socket.socketpair()
            with theirs:
                async with await aio.adopt(ours, is_connecting=True) as client:
                    for call in (client.call("x", {"data": "x" * (1 << 19)}, deadline=0.01) for _ in range(2)):
                        with self.assertRaises(sallyport.Error) as raised:
                            await call
                        self.assertEqual(raised.exception.code, "TIMEOUT")

        asyncio.run(work())


class Subscriptions(Warden):
    def subscribers(self, client):
        return client.call("warden.status")["subscribers"]

    def test_one_that_nobody_holds_ends(self):
        async def work():
            async with await aio.connect() as client, await aio.connect() as other:
                for _ in range(40):  # more than a connection may have at once
                    async for event in await self.with_news(client, other):
                        self.assertEqual(event.method, "warden.reloaded")
                        break
                    gc.collect()
                    await client.call("test.ping")
                self.assertEqual(client._subscriptions, {})
                while (await client.call("warden.status"))["subscribers"]:
                    pass

        asyncio.run(work())

    async def with_news(self, client, other):
        events = await client.subscribe("warden.reloaded")
        await other.call("warden.reload")
        return events

    def test_closing_one_ends_whoever_waits_for_it_and_keeps_what_has_come(self):
        async def work():
            async with await aio.connect() as client, await aio.connect() as other:
                events = await client.subscribe("warden.reloaded")
                waiting = asyncio.ensure_future(self.all_of(events))
                await asyncio.sleep(0)
                events.close()
                self.assertEqual(await asyncio.wait_for(waiting, 60), [])
                events = await self.with_news(client, other)
                await until(lambda: not events._queue.empty())
                events.close()
                self.assertEqual(await asyncio.wait_for(self.all_of(events), 60), ["warden.reloaded"])
                self.assertEqual(await asyncio.wait_for(self.all_of(events), 60), [])

        asyncio.run(work())

    async def all_of(self, events):
        return [event.method async for event in events]

    def test_the_end_of_the_connection_is_told_each_time(self):
        async def work():
            client = await aio.connect()
            events = await client.subscribe("warden.*")
            await client.close()
            for _ in range(2):
                with self.assertRaises(sallyport.Error) as raised:
                    await asyncio.wait_for(events.__anext__(), 60)
                self.assertEqual(raised.exception.code, "UNAVAILABLE")

        asyncio.run(work())

    def test_without_asyncio_too(self):
        with sallyport.connect() as client, sallyport.connect() as other:
            for _ in range(40):
                events = client.events("warden.reloaded")
                other.call("warden.reload")
                self.assertEqual(next(events).method, "warden.reloaded")
                del events
            while self.subscribers(other):
                pass

    def test_a_program_that_ends_with_one_open_ends_without_complaints(self):
        program = ("import sallyport\nclient = sallyport.connect()\nevents = client.events()\n"
                   "client.call('warden.reload')\nprint(next(events).method)")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "warden.reloaded\n", ""))


class Serving(Warden):
    def pair(self):
        ours, theirs = socket.socketpair()
        server = sallyport.sync.adopt(ours, is_connecting=False)
        client = sallyport.sync.adopt(theirs, is_connecting=True)
        self.addCleanup(server.close)
        self.addCleanup(client.close)
        return server, client

    def test_a_handler_may_wait_and_ask_while_others_are_answered(self):
        server, client = self.pair()
        go = threading.Event()

        def slow(message):
            go.wait()
            return server.call("name")  # of the very connection that it serves

        server.serve("slow", slow)
        server.serve("quick", lambda message: message.params["x"] * 2)
        client.serve("name", lambda message: "client")
        found = []
        thread = threading.Thread(target=lambda: found.append(client.call("slow", deadline=60)))
        thread.start()
        self.assertEqual(client.call("quick", {"x": 21}), 42)
        go.set()
        thread.join()
        self.assertEqual(found, ["client"])

    def test_what_a_handler_raises_is_the_answer(self):
        server, client = self.pair()

        def refuse(message):
            raise sallyport.Error("CONFLICT", "not now")

        server.serve("refuse", refuse)
        server.serve("break", lambda message: 1 / 0)
        for method, code in (("refuse", "CONFLICT"), ("break", "INTERNAL_ERROR")):
            with self.assertRaises(sallyport.Error) as raised:
                client.call(method)
            self.assertEqual(raised.exception.code, code)

    def test_more_requests_than_threads_are_all_answered(self):
        server, client = self.pair()
        lock, running, most = threading.Lock(), [0], [0]

        def count(message):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            with lock:
                running[0] -= 1
            return message.params["n"]

        server.serve("count", count)

        async def ask():
            return await asyncio.gather(*(client.aio.call("count", {"n": n}, deadline=60) for n in range(200)))

        self.assertEqual(sallyport.sync._loop.run(ask()), list(range(200)))
        self.assertLessEqual(most[0], sallyport.sync.MOST_SERVING)

    def test_it_serves_until_the_peer_goes(self):
        server, client = self.pair()
        server.serve("bye", lambda message: "bye")
        ended = threading.Event()

        def work():
            server.wait_closed()
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        self.assertEqual(client.call("bye"), "bye")
        self.assertFalse(ended.is_set())
        client.close()
        thread.join()

    def test_a_handler_that_never_returns_does_not_keep_the_program(self):
        program = (
            "import socket, threading, sallyport\n"
            "ours, theirs = socket.socketpair()\n"
            "server = sallyport.sync.adopt(ours, is_connecting=False)\n"
            "client = sallyport.sync.adopt(theirs, is_connecting=True)\n"
            "server.serve('hang', lambda message: threading.Event().wait())\n"
            "try: client.call('hang', deadline=0.01)\n"
            "except sallyport.Error as error: print(error.code)\n")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "TIMEOUT\n", ""))


class Pools(Warden):
    def test_a_closed_one_says_so(self):
        pool = sallyport.Pool(1)
        self.assertTrue(pool.call("test.ping")["pong"])
        found = []

        def wait_for_room():
            try:
                pool.call("test.ping")
            except sallyport.Error as error:
                found.append(error.code)

        with pool.take() as client:
            thread = threading.Thread(target=wait_for_room)
            thread.start()
            pool.close()
            thread.join()
            self.assertTrue(client.call("test.ping")["pong"], "one that is in use goes on")
        self.assertFalse(client.is_open, "and ends when it comes back")
        wait_for_room()
        self.assertEqual(found, ["UNAVAILABLE"] * 2)
        pool.close()

    def test_nobody_inherits_what_another_one_left(self):
        pool = sallyport.Pool(1)
        self.addCleanup(pool.close)
        with pool.take() as first:
            pass
        with pool.take() as client:
            self.assertIs(client, first, "one that is as new is kept")
        with sallyport.connect() as host:
            container = self.container(host)
            for leave in (lambda client: client.call("session.narrow", {"container": container}),
                          lambda client: client.events("warden.*"),
                          lambda client: client.serve("x", lambda message: None),
                          lambda client: client.call("fs.read", {"workspace": "/etc", "path": "passwd", "stream": True}),
                          lambda client: sallyport.sync._loop.run(self.leave_a_call(client))):
                with pool.take() as client:
                    leave(client)
                self.assertFalse(client.is_open)
                self.assertEqual(pool.call("warden.hello")["principal"], "host")

    async def leave_a_call(self, client):
        client.aio.start("test.sleep", {"ms": 60000}, deadline=90)

    def test_one_that_cannot_connect_keeps_its_room(self):
        pool = sallyport.Pool(1, str(self.root / "nobody.sock"))
        for _ in range(3):
            with self.assertRaises(sallyport.Error) as raised:
                pool.call("test.ping")
            self.assertEqual(raised.exception.code, "UNAVAILABLE")


if __name__ == "__main__":
    unittest.main()
