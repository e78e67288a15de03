"""What a container asks of its host with the Python client: by its mailbox, and by calls that a human must approve."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

import sallyport
from warden import PACKAGE, Warden

PROFILE = """[profile.reviewed]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
methods = ["warden.hello", "container.exec"]
signals = ["context_reset", "register_group"]
review = { "container.exec" = "human", "register_group" = "human" }
env = { PATH = "/usr/bin:/bin" }
"""


class Inside(Warden):
    """Programs in a container, and a human outside."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.root / "profiles").mkdir()
        (cls.root / "profiles" / "reviewed.toml").write_text(PROFILE)
        with sallyport.connect() as client:
            client.call("warden.reload")
        shutil.copytree(PACKAGE, cls.root / "project" / "sallyport")

    def start(self, program):
        """Runs it in a container, in a thread; join() returns what it printed, as lines."""
        client = sallyport.connect()
        self.addCleanup(client.close)
        config = {"workspace": str(self.root / "project"), "ends_with_session": True}
        self.inside = client.call("container.create", {"template": "reviewed", "config": config})["container"]
        found = []

        def work():
            found.append(client.run_exec(self.inside, ["/usr/bin/python3", "-B", "-c", program]))

        thread = threading.Thread(target=work)
        thread.start()

        def join():
            thread.join()
            self.assertEqual(found[0].exit_code, 0, found[0].stderr.decode())
            return found[0].stdout.decode().splitlines()

        return join

    def answer(self, client, events, method, **params):
        """What the human says to the next question; returns the question."""
        id = next(event.params["id"] for event in events if event.method == "approval.asked")
        question = client.call("approval.show", {"id": id})
        client.call(method, {"id": id, **params})
        return question

    def test_a_reviewed_command_runs_once_it_is_approved(self):
        program = (
            "import sallyport\n"
            "with sallyport.connect() as client:\n"
            "    print(client.call('warden.hello')['principal'])\n"
            "    done = client.run_exec(None, ['sh', '-c', 'echo hi; echo bad >&2; exit 3'])\n"
            "    print(done.exit_code, done.stdout, done.stderr)\n"
            "    try: client.run_exec(None, ['echo', 'again'])\n"
            "    except sallyport.Error as error: print(error.code)\n"
            "    try: client.call('container.list')\n"
            "    except sallyport.Error as error: print(error.code)\n")
        with sallyport.connect() as human:
            events = human.events("approval.asked")
            join = self.start(program)
            self.answer(human, events, "approval.approve")
            self.answer(human, events, "approval.deny", why="not again")
            lines = join()
        self.assertEqual(lines, [f"container/{self.inside}", "3 b'hi\\n' b'bad\\n'", "APPROVAL_DENIED", "POLICY_DENIED"])

    def test_a_request_is_answered_once_it_is_decided(self):
        program = (
            "import json, os, sallyport\n"
            "box = sallyport.Mailbox()\n"
            "box.signal('context_reset')\n"
            "print(json.dumps(box.request('register_group', {'name': 'builds', 'folder': 'builds'}, timeout=90)))\n"
            "for name, payload in (('register_group', {'name': 'others', 'folder': 'others'}),\n"
            "                      ('register_group', {'name': 7}), ('deploy', {})):\n"
            "    try: print(box.request(name, payload, timeout=90))\n"
            "    except sallyport.Error as error: print(error.code, error.message)\n"
            "print(sorted(os.listdir(box.directory + '/in')), os.listdir(box.directory + '/in/tmp'))\n")
        with sallyport.connect() as human:
            events = human.events("approval.asked")
            join = self.start(program)
            question = self.answer(human, events, "approval.approve")
            self.assertEqual((question["container"], question["signal"]), (self.inside, "register_group"))
            self.answer(human, events, "approval.deny", why="not today")
            done, denied, invalid, forbidden, left = join()
            groups = human.call("group.list")["groups"]
        self.assertEqual(json.loads(done), {"group": "builds", "profile": "reviewed"})
        self.assertIn("builds", [group["group"] for group in groups], groups)
        self.assertRegex(denied, "^APPROVAL_DENIED .*not today")
        self.assertRegex(invalid, "^INVALID_PARAMS payload")
        self.assertRegex(forbidden, "^POLICY_DENIED ")
        self.assertEqual(left, "['new', 'tmp'] []")

    def test_a_request_that_the_host_cannot_read_is_answered_too(self):
        program = (
            "import os, sallyport, sys\n"
            "from sallyport import mailbox\n"
            "mailbox.MAX_MESSAGE_BYTES = 1 << 20  # as a client that does not know the limit\n"
            "try: sallyport.Mailbox().request('register_group', {'name': 'x' * (64 << 10)}, timeout=90)\n"
            "except sallyport.Error as error: print(error.code)\n")
        self.assertEqual(self.start(program)(), ["PAYLOAD_TOO_LARGE"])


class Files(unittest.TestCase):
    """What a mailbox's files hold; no warden is asked."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-box-"))
        self.addCleanup(shutil.rmtree, self.directory)
        for name in ("in/tmp", "in/new", "out"):
            (self.directory / name).mkdir(parents=True)
        self.box = sallyport.Mailbox(str(self.directory))

    def dropped(self):
        self.assertEqual(list((self.directory / "in/tmp").iterdir()), [])
        return list((self.directory / "in/new").iterdir())

    def test_a_signal_is_a_name_and_nothing_else(self):
        self.box.signal("context_reset")
        (file,) = self.dropped()
        self.assertEqual(file.read_text(), '{"signal":"context_reset"}')

    def test_a_request_is_a_file_named_after_its_id(self):
        request_id = self.box.send("deploy", {"what": "ä"})
        (file,) = self.dropped()
        self.assertEqual(file.name, request_id)
        self.assertEqual(json.loads(file.read_text()), {"signal": "deploy", "request_id": request_id, "payload": {"what": "ä"}})
        self.assertEqual(self.box.send("deploy", {"what": "ä"}, request_id), request_id)
        self.assertEqual(self.dropped(), [file])

    def test_replies_until_the_final_one(self):
        request_id = self.box.send("deploy", {})
        out = self.directory / "out" / f"{request_id}.json"
        self.assertIsNone(self.box.reply(request_id))
        out.write_text('{"id":"%s","type":"response","result":{"state":"awaiting_human","final":false}}' % request_id)
        self.assertFalse(self.box.reply(request_id).is_final)
        out.write_text('{"id":"%s","type":"response","error":{"code":"APPROVAL_DENIED","message":"no","retryable":false}}' % request_id)
        self.assertEqual(self.box.wait(request_id).error.code, "APPROVAL_DENIED")

    def test_what_would_never_be_answered_is_not_sent(self):
        for id in ("../../x", "", "6F1A2B3C-0000-4000-8000-000000000001", "6f1a2b3c000040008000000000000001",
                   "{6f1a2b3c-0000-4000-8000-000000000001}", "6f1a2b3c-0000-4000-8000-000000000001\n", 7):
            with self.assertRaisesRegex(ValueError, "UUID in lower case"):
                self.box.send("deploy", {}, id)
            with self.assertRaisesRegex(ValueError, "UUID in lower case"):
                self.box.reply(id)
        for name in ("", "Deploy", "a/b", "../x", "x" * 65, "deploy\n", None):
            with self.assertRaisesRegex(ValueError, "a signal is a name"):
                self.box.signal(name)
        with self.assertRaises(TypeError):
            self.box.send("deploy", ["x"])
        with self.assertRaises(sallyport.Error) as raised:
            self.box.request("deploy", {"what": "x" * (64 << 10)})
        self.assertEqual(raised.exception.code, "PAYLOAD_TOO_LARGE")
        self.assertEqual(self.dropped(), [])

    def test_the_largest_message_is_sent(self):
        envelope = len(json.dumps({"signal": "deploy", "request_id": str(uuid.uuid4()), "payload": {"what": ""}},
                                  separators=(",", ":")))
        self.box.send("deploy", {"what": "x" * ((64 << 10) - envelope)})
        self.assertEqual(self.dropped()[0].stat().st_size, 64 << 10)

    def test_without_a_mailbox_or_room_in_it_the_error_says_so(self):
        with self.assertRaises(sallyport.Error) as raised:
            sallyport.Mailbox(str(self.directory / "none")).signal("context_reset")
        self.assertEqual(raised.exception.code, "UNAVAILABLE")
        program = (
            "import resource, signal, sys, sallyport\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
            "try: sallyport.Mailbox(sys.argv[1]).send('deploy', {})\n"
            "except sallyport.Error as error: print(error.code)\n")
        ran = subprocess.run([sys.executable, "-B", "-c", program, self.directory], text=True, capture_output=True)
        self.assertEqual((ran.stdout, ran.stderr), ("IO_ERROR\n", ""))
        self.assertEqual(self.dropped(), [])


if __name__ == "__main__":
    unittest.main()
