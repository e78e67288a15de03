"""--json of every command that says something of its own: one JSON value per line, whatever it is asked about."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SALLYPORT = os.environ["SALLYPORT_BIN"] + "/sallyport"


class Json(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-json-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        (self.home / "project").mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
                            "SALLYPORT_RUNTIME_DIR": str(self.home / "run"), "SALLYPORT_STATE_DIR": str(self.home / "state"),
                            "SALLYPORT_CONFIG": str(self.home / "sallyport.toml")}
        self.addCleanup(self.sallyport, "down")

    def sallyport(self, *words):
        return subprocess.run([SALLYPORT, *words], env=self.environment, cwd=self.home / "project", text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def ask(self, text, status=0):
        ran = self.sallyport(*text.split(), "--json")
        self.assertEqual(ran.returncode, status, text + ": " + ran.stdout + ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertTrue(lines, text)
        return [json.loads(line) for line in lines]

    def test_of_every_command(self):
        self.ask("up")
        (created,) = self.ask("container create")
        name = created["container"]
        for text in ("status", "ping", "doctor", "call warden.hello", "container ls", f"container inspect {name}",
                     "policy show", "policy explain fs.read", "audit tail", "audit query", "audit verify",
                     "audit checkpoint", "mailbox status", "schedule ls", "group ls", "platform status", "platform check",
                     "approvals", "approvals ls"):
            with self.subTest(text):
                self.ask(text)
        # Standard output is the command's own.
        ran = self.sallyport("--json", "container", "exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((ran.returncode, ran.stdout), (3, "out\n"))
        self.assertEqual([ran.stderr.splitlines()[0], json.loads(ran.stderr.splitlines()[1])], ["err", {"exit_code": 3}])
        self.ask("pod ls")
        self.ask(f"container stop {name}")
        self.ask(f"container rm {name}")
        self.ask("down")

    def test_of_pods(self):
        made = self.sallyport("pod", "new", "--name", "p", "--json", "--", "sh", "-c", "exit 3")
        self.assertEqual(json.loads(made.stdout)["pod"], "p", made.stdout)
        self.ask("pod wait p", status=3)

    def test_errors_go_to_stderr_as_json(self):
        for words, code, status in ((["container", "inspect", "nope"], "NOT_FOUND", 1), (["status"], "UNAVAILABLE", 4)):
            if code == "UNAVAILABLE":
                self.sallyport("down")
            ran = self.sallyport(*words, "--json")
            self.assertEqual(ran.returncode, status, ran.stderr)
            self.assertEqual(json.loads(ran.stderr)["code"], code)


if __name__ == "__main__":
    unittest.main()
