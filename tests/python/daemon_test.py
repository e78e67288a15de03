"""The Python client against the real daemon."""
import asyncio
import base64
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

import sallyport
from sallyport import aio
from warden import PACKAGE, Warden



class Daemon(Warden):
    # ---- whom to trust ----

    def test_a_socket_where_others_could_have_put_it_is_not_spoken_to(self):
        place = self.root / "shared"
        place.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place / "warden.sock"))
            listening.listen()
            listening.setblocking(False)
            self.assertTrue(self.is_refused(place, ""), "one that is ours is")
            listening.accept()[0].close()
            place.chmod(0o777)
            self.assertTrue(self.is_refused(place, "CONFLICT"))
            place.chmod(0o700)
            (self.root / "link").symlink_to(place)
            self.assertTrue(self.is_refused(self.root / "link", "CONFLICT"))
            if os.geteuid() == 0:
                os.chown(place, 65534, 65534)
                self.assertTrue(self.is_refused(place, "CONFLICT"))
                os.chown(place, 0, 0)
                # The kernel remembers who called listen().
                child = os.fork()
                if child == 0:
                    os.setuid(65534)
                    listening.listen()
                    os._exit(0)
                os.waitpid(child, 0)
                self.assertTrue(self.is_refused(place, "UNAUTHENTICATED"))
                connection, _ = listening.accept()
                self.assertEqual(connection.recv(1), b"", "and it learnt nothing")
                connection.close()
            with self.assertRaises(BlockingIOError):
                listening.accept()

    def is_refused(self, place, code):
        try:
            sallyport.connect(str(place / "warden.sock")).close()
        except sallyport.Error as error:
            return error.code == code
        return code == ""

    # ---- calls ----

    def test_a_call_and_its_answer(self):
        with sallyport.connect() as client:
            self.assertEqual(client.call("test.ping"), {"pong": True})
            self.assertEqual(client.call("warden.hello")["principal"], "host")
            data = {"text": "ä\u0000\U0001f600", "numbers": [1, -1, 2**64 - 1, 0.5], "none": None}
            self.assertEqual(client.call("test.echo", {"data": data})["data"], data)

    def test_errors_carry_code_and_details(self):
        with sallyport.connect() as client:
            with self.assertRaises(sallyport.Error) as raised:
                client.call("test.sleep", {"ms": "long"})
            self.assertEqual((raised.exception.code, raised.exception.details), ("INVALID_PARAMS", {"field": "params.ms"}))
            with self.assertRaises(sallyport.Error) as raised:
                client.call("no.such")
            self.assertEqual(raised.exception.code, "METHOD_NOT_FOUND")
            with self.assertRaises(sallyport.Error) as raised:
                client.call("test.echo", {"data": "x" * (1 << 20)})
            self.assertEqual(raised.exception.code, "PAYLOAD_TOO_LARGE")
            self.assertTrue(client.call("test.ping")["pong"])

    def test_what_cannot_be_sent_is_refused_here_and_hurts_no_other_call(self):
        deep = circular = []
        for _ in range(40):
            deep = [deep]
        circular.append(circular)
        with sallyport.connect() as client:
            waiting = sallyport.sync._loop.run(self.start_sleeping(client))
            for params in ({"data": deep}, {"data": circular}, {"data": 1 << 64}, {"data": [-(1 << 63) - 1]},
                           {"data": float("nan")}, {"data": float("inf")}, {"data": "\ud800"}, {"data": {"\udfff": 1}}):
                with self.assertRaisesRegex(ValueError, "^this cannot be sent: "):
                    client.call("test.echo", params)
            for params in ({"data": {1: "a", "1": "b"}}, {"data": object()}, ["data"]):
                with self.assertRaises(TypeError):
                    client.call("test.echo", params)
            for method, token in (("", ""), ("a b", ""), ("x" * 129, ""), ("test.ping", "a\nb"), ("test.ping", "x" * 4097)):
                with self.assertRaises(ValueError):
                    client.call(method, token=token)
            just = [0] * 3
            for _ in range(29):  # with the message, its params and this list: 32
                just = [just]
            for data in (just, (1 << 64) - 1, -(1 << 63), (1, 2)):
                self.assertEqual(client.call("test.echo", {"data": data})["data"], list(data) if data == (1, 2) else data)
            self.assertFalse(waiting._answer.done(), "the call that waited beside them")
            self.assertEqual(client.call("warden.hello")["principal"], "host")

    async def start_sleeping(self, client):
        return client.aio.start("test.sleep", {"ms": 60000}, deadline=90)

    def test_a_handlers_answer_that_cannot_be_sent_is_an_error_of_its_own(self):
        async def work():
            ours, theirs = socket.socketpair()
            server = await aio.adopt(ours, is_connecting=False)
            client = await aio.adopt(theirs, is_connecting=True)
            server.serve("wide", lambda message: 1 << 64)
            with self.assertRaises(sallyport.Error) as raised:
                await client.call("wide")
            self.assertEqual(raised.exception.code, "INTERNAL_ERROR")
            await client.close()
            await server.close()

        asyncio.run(work())

    def test_a_deadline_is_a_positive_number(self):
        with sallyport.connect() as client:
            for deadline in (0, -1, float("nan"), float("-inf")):
                with self.assertRaisesRegex(ValueError, "positive number of seconds"):
                    client.call("test.ping", deadline=deadline)
            for deadline in (float("inf"), None):
                self.assertTrue(client.call("test.ping", deadline=deadline)["pong"])
            # Only the peer's own limit counts, and the client waits for its answer.
            self.assertEqual(client.call("test.sleep", {"ms": 100}, deadline=None), client.call("test.sleep", {"ms": 100}))

    def test_behind_a_fork_a_connection_is_refused_and_a_new_one_works(self):
        program = (
            "import os, sys, sallyport\n"
            "client, pool = sallyport.connect(), sallyport.Pool(1)\n"
            "client.call('test.ping'); pool.call('test.ping')\n"
            "events = client.events('warden.*')\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    assert not client.is_open\n"
            "    for use in (lambda: client.call('test.ping'), lambda: next(events)):\n"
            "        try: use()\n"
            "        except sallyport.Error as error: print(error.code, 'fork' in error.message)\n"
            "    client.close()\n"
            "    with sallyport.connect() as own: print(own.call('test.ping'), pool.call('test.ping'))\n"
            "    sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            "print(client.call('test.ping'), pool.call('test.ping'))\n")
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
        pong = "{'pong': True} {'pong': True}\n"
        self.assertEqual((ended.stdout, ended.stderr), ("UNAVAILABLE True\n" * 2 + pong + pong, ""))

    def test_a_path_longer_than_an_address_holds_is_connected_to_all_the_same(self):
        directory = self.root / ("long-" * 20) / ("longer-" * 20)
        directory.mkdir(parents=True)
        (directory / "root").symlink_to(self.root)
        with sallyport.connect(str(directory / "root" / "run" / "warden.sock")) as client:
            self.assertTrue(client.call("test.ping")["pong"])
        for path in (str(directory / ("x" * 120)), str(self.root / "sallyport.toml" / "x")):
            with self.assertRaises(sallyport.Error) as raised:
                sallyport.connect(path)
            self.assertEqual(raised.exception.code, "UNAVAILABLE")
            self.assertIn(path, raised.exception.message)

    def test_a_deadline_is_kept_by_the_peer(self):
        with sallyport.connect() as client:
            with self.assertRaises(sallyport.Error) as raised:
                client.call("test.sleep", {"ms": 60000}, deadline=0.05)
            self.assertEqual(raised.exception.code, "TIMEOUT")

    def test_calls_are_answered_as_they_finish_and_can_be_cancelled(self):
        async def work():
            async with await aio.connect() as client:
                slow = client.start("test.sleep", {"ms": 60000}, deadline=90)
                self.assertTrue((await client.call("test.ping"))["pong"])
                slow.cancel()
                with self.assertRaises(sallyport.Error) as raised:
                    await slow
                self.assertEqual(raised.exception.code, "CANCELLED")
                task = asyncio.ensure_future(client.call("test.sleep", {"ms": 60000}, deadline=90))
                await client.call("test.ping")
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while (await client.call("warden.status"))["in_flight"] > 1:
                    await asyncio.sleep(0.01)

        asyncio.run(work())

    def test_what_a_call_tells_while_it_works_comes_with_it(self):
        project = self.root / "searched"
        project.mkdir()
        for name in ("a", "b", "c"):
            (project / name).write_text("hit\n")

        async def work():
            async with await aio.connect() as client:
                search = client.start("fs.grep", {"workspace": str(project), "pattern": "hit", "stream": True, "max_bytes": 64})
                result = await search
                events = [search.events.get_nowait() for _ in range(search.events.qsize())]
                self.assertEqual([hit["path"] for event in events for hit in event.params["matches"]], ["a", "b", "c"])
                self.assertEqual((result["total"], result["pages"]), (3, len(events)))

        asyncio.run(work())

    def test_many_threads_share_one_client_and_a_pool(self):
        pool = sallyport.Pool(3)
        with sallyport.connect() as client:
            results = []

            def work(number):
                for call in (client.call, pool.call):
                    results.append(call("test.echo", {"data": number})["data"] == number)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(results, [True] * 40)
        pool.close()

    def test_a_warden_that_is_not_there_is_unavailable(self):
        with self.assertRaises(sallyport.Error) as raised:
            sallyport.connect(str(self.root / "nobody.sock"))
        self.assertEqual(raised.exception.code, "UNAVAILABLE")

    def test_a_program_that_closes_nothing_ends_without_complaints(self):
        program = "import sallyport; print(sallyport.connect().call('test.ping'))"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "{'pong': True}\n", ""))

    # ---- loopback ----

    def test_loopback_with_mutual_proof(self):
        client = sallyport.sync.connect_loopback(str(self.root / "run" / "warden.json"))
        with client:
            self.assertEqual(client.call("warden.hello")["identity"], "proof")

    def test_a_squatter_on_the_port_is_found_out(self):
        state = json.loads((self.root / "run" / "warden.json").read_text())
        with socket.create_server(("127.0.0.1", 0)) as squatter:
            state["address"] = "127.0.0.1:%d" % squatter.getsockname()[1]
            fake = self.root / "fake.json"
            fake.write_text(json.dumps(state))
            fake.chmod(0o600)

            def squat():
                peer, _ = squatter.accept()
                with peer:
                    peer.recv(100)
                    peer.sendall(b"\0\0\0\x43\x02\x02\x01" + b"x" * 64)

            thread = threading.Thread(target=squat)
            thread.start()
            with self.assertRaises(sallyport.Error) as raised:
                sallyport.sync.connect_loopback(str(fake))
            thread.join()
        self.assertEqual(raised.exception.code, "UNAUTHENTICATED")

    # ---- streams, events, serving ----

    def test_streams_carry_more_than_their_credit_both_ways(self):
        data = os.urandom(5 << 20)

        async def work():
            async with await aio.connect() as client:
                stream = client.open_stream()
                pending = client.start("test.echo", {"data": stream.name})

                async def send():
                    await stream.write(data)
                    await stream.finish()

                sending = asyncio.ensure_future(send())
                named = (await pending)["data"]
                self.assertEqual(await client.stream(named).read_all(), data)
                await sending
                self.assertEqual(client._in, {})

        asyncio.run(work())

    def test_events_come_to_who_subscribed(self):
        with sallyport.connect() as client, sallyport.connect() as other:
            events = client.events("warden.reloaded")
            other.call("warden.reload")
            self.assertEqual(next(events).method, "warden.reloaded")

    def test_the_end_of_the_connection_ends_what_waits_for_it(self):
        ours, theirs = socket.socketpair()

        async def work():
            client = await aio.adopt(ours, is_connecting=True)
            call = client.start("test.ping")
            theirs.close()
            with self.assertRaises(sallyport.Error) as raised:
                await call
            self.assertEqual(raised.exception.code, "UNAVAILABLE")
            await client.close()

        asyncio.run(work())

    def test_serving_a_peer(self):
        async def work():
            ours, theirs = socket.socketpair()
            server = await aio.adopt(ours, is_connecting=False)
            client = await aio.adopt(theirs, is_connecting=True)
            server.serve("double", lambda message: message.params["x"] * 2)

            async def slow(message):
                await asyncio.sleep(3600)

            server.serve("slow", slow)
            self.assertEqual(await client.call("double", {"x": 21}), 42)
            for method, params, code in [("none", None, "METHOD_NOT_FOUND"), ("double", {}, "INTERNAL_ERROR")]:
                with self.assertRaises(sallyport.Error) as raised:
                    await client.call(method, params)
                self.assertEqual(raised.exception.code, code)
            call = client.start("slow")
            await client.call("double", {"x": 1})
            call.cancel()
            with self.assertRaises(sallyport.Error) as raised:
                await call
            self.assertEqual(raised.exception.code, "CANCELLED")
            await client.close()
            await server.close()

        asyncio.run(work())

    # ---- containers ----

    def test_a_command_in_a_container_with_its_output(self):
        with sallyport.connect() as client:
            done = client.run_exec(self.container(client), ["sh", "-c", "seq 1 300000; echo bad >&2; exit 3"])
        self.assertEqual((done.exit_code, done.stderr), (3, b"bad\n"))
        self.assertTrue(done.stdout.startswith(b"1\n2\n") and done.stdout.endswith(b"300000\n"))
        with sallyport.connect() as client:
            done = client.run_exec(self.container(client), ["echo", "hi"], deadline=None)
        self.assertEqual(repr(done), r"Completed(exit_code=0, stdout=b'hi\n', stderr=b'')")

    def test_commands_that_are_given_up_leave_no_streams_behind(self):
        with sallyport.connect() as client:
            container = self.container(client)
            for _ in range(10):  # two streams each, of sixteen
                with self.assertRaises(sallyport.Error) as raised:
                    client.run_exec(container, ["sh", "-c", "yes; true"], deadline=0.3)
                self.assertEqual(raised.exception.code, "TIMEOUT")
            self.assertEqual(client.run_exec(container, ["echo", "still"]).stdout, b"still\n")
            self.assertTrue(client.aio.is_as_new)

    def test_files_of_a_container_also_large_ones(self):
        with sallyport.connect() as client:
            container, data = self.container(client), os.urandom(3 << 20)
            client.upload("fs.write", {"container": container, "path": "blob"}, "content", data)
            self.assertEqual((self.root / "project" / "blob").read_bytes(), data)
            read = client.call("fs.read", {"container": container, "path": "blob", "stream": True})
            self.assertEqual(client.stream(read["content"]).read_all(), data)


class Wheel(unittest.TestCase):
    def test_help_makes_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            shown = subprocess.run([sys.executable, PACKAGE.parent / "build_wheel.py", "--help"], check=True, text=True,
                                   capture_output=True, cwd=directory)
            self.assertIn("usage: build_wheel.py", shown.stdout)
            self.assertEqual(os.listdir(directory), [])

    def test_is_built_offline_installs_and_works_from_there(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([sys.executable, PACKAGE.parent / "build_wheel.py", directory], check=True, capture_output=True)
            (wheel,) = pathlib.Path(directory).glob("*.whl")
            shown = subprocess.run([sys.executable, "-c", "import sallyport; print(sallyport.__file__)"], check=True,
                                   text=True, capture_output=True, cwd="/", env={**os.environ, "PYTHONPATH": str(wheel)})
            self.assertIn(".whl", shown.stdout)
            with zipfile.ZipFile(wheel) as opened:
                names = opened.namelist()
                for line in opened.read(names[-1]).decode().splitlines():
                    name, digest, _ = line.split(",")
                    if digest:
                        data = hashlib.sha256(opened.read(name)).digest()
                        self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(data).rstrip(b"=").decode())
            self.assertIn("sallyport/py.typed", names)

    def test_installs_as_the_documents_say_with_the_systems_own_python(self):
        tree = PACKAGE.parents[2]
        text = (tree / "docs/clients.md").read_text()
        block = text[text.index("```sh\n") + 6 :]
        commands = [line for line in block[: block.index("```")].splitlines() if not line.startswith("apt-get ")]
        self.assertTrue(all(f"{part}" in (tree / "README.md").read_text() for part in commands), commands)
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(PACKAGE.parent, f"{directory}/clients/python", ignore=shutil.ignore_patterns("__pycache__"))
            environment = {"PATH": "/usr/bin:/bin", "HOME": directory, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            commands.append("venv/bin/python3 -c 'import sallyport; print(sallyport.__file__)'")
            ran = subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=directory, env=environment, text=True,
                                 capture_output=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertRegex(ran.stdout, "venv/lib/.*/sallyport/__init__.py\n$")


if __name__ == "__main__":
    unittest.main()
