"""--json of every command that says something of its own: one JSON value per line, whatever it is asked about."""
import json
import os
import subprocess
import unittest

import help_test
from homes import Home


class Json(Home):
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
                     "platform recount host",
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

    def test_lists_are_whole_though_they_come_in_pages(self):
        labels = json.dumps({"config": {"labels": {"text": "x" * 100_000}}})  # twelve are more than a frame
        made = sorted(json.loads(self.sallyport("call", "container.create", labels).stdout)["container"] for _ in range(12))
        (listed,) = self.ask("container ls")
        self.assertEqual([each["container"] for each in listed["containers"]], made)
        self.assertEqual([line.split()[0] for line in self.sallyport("container", "ls").stdout.splitlines()], made)
        (shown,) = self.ask("mailbox status")
        self.assertEqual([each["container"] for each in shown["mailboxes"]], made)

    def test_what_a_container_printed_is_shown_with_it(self):
        made = self.sallyport("container", "create", "--", "echo", "said").stdout.strip()
        self.sallyport("call", "container.wait", json.dumps({"container": made}))
        (shown,) = self.ask("container inspect " + made)
        self.assertEqual(shown["log"]["stdout"], "said\n")

    def test_of_pods(self):
        made = self.sallyport("pod", "new", "--name", "p", "--json", "--", "sh", "-c", "exit 3")
        self.assertEqual(json.loads(made.stdout)["pod"], "p", made.stdout)
        self.ask("pod wait p", status=3)

    def error(self, text):
        """What a command that must fail says: one JSON object on stderr, and nothing on stdout."""
        ran = self.sallyport("--json", *text.split())
        self.assertNotEqual(ran.returncode, 0, text)
        self.assertEqual((ran.stdout, len(ran.stderr.splitlines())), ("", 1), text + ": " + ran.stderr)
        error = json.loads(ran.stderr)
        self.assertTrue(error["message"], text)
        return error["code"], ran.returncode

    # What each command cannot do where no warden can be started, and what it says then.
    ERRORS = {
        "run --profile nosuch -- true": "NOT_FOUND", "container create": "UNAVAILABLE", "container ls": "UNAVAILABLE",
        "container inspect x": "UNAVAILABLE", "container stop x": "UNAVAILABLE", "container rm x": "UNAVAILABLE",
        "container exec x -- true": "UNAVAILABLE", "pod new -- true": "UNAVAILABLE", "pod attach x": "NOT_FOUND",
        "pod log x": "NOT_FOUND", "pod kill x": "UNAVAILABLE", "pod stop x": "UNAVAILABLE", "pod wait x": "NOT_FOUND",
        "schedule ls": "UNAVAILABLE", "schedule rm x": "UNAVAILABLE", "group ls": "UNAVAILABLE",
        "group inspect x": "UNAVAILABLE", "up": "UNAVAILABLE", "status": "UNAVAILABLE", "ping": "UNAVAILABLE",
        "call test.ping": "UNAVAILABLE", "policy check /nowhere": "NOT_FOUND", "policy show": "INVALID_PARAMS",
        "policy explain fs.read": "UNAVAILABLE", "approvals ls": "UNAVAILABLE", "approvals show x": "UNAVAILABLE",
        "approvals approve x": "UNAVAILABLE", "approvals deny x": "UNAVAILABLE", "audit tail": "NOT_FOUND",
        "audit query": "NOT_FOUND", "audit verify": "NOT_FOUND", "audit checkpoint": "UNAVAILABLE",
        "mcp --profile nosuch": "NOT_FOUND", "mailbox status": "UNAVAILABLE", "mailbox resolve a b done": "UNAVAILABLE",
        "platform check": "INVALID_PARAMS", "platform recount x": "UNAVAILABLE", "platform status": "UNAVAILABLE",
        "platform forget container.x": "UNAVAILABLE",
    }
    # A list of nothing, nothing to stop, and rows that say themselves what is wrong.
    NEVER_FAIL = {"pod ls", "down", "doctor"}

    def test_an_error_of_every_command_goes_to_stderr_as_json(self):
        paths = {" ".join(path) for path, page in help_test.commands() if path and not page.splitlines()[1].endswith(" COMMAND")}
        tried = {path for path in paths for text in self.ERRORS if (text + " ").startswith(path + " ")}
        self.assertEqual(paths - tried, self.NEVER_FAIL, "a command whose errors nobody looked at")
        (self.home / "sallyport.toml").write_text("x = [")
        for text, code in self.ERRORS.items():
            with self.subTest(text):
                self.assertEqual(self.error(text), (code, 4 if code == "UNAVAILABLE" else 2 if "nosuch" in text else 1))
        (self.home / "run").mkdir(exist_ok=True)
        (self.home / "run").chmod(0o777)
        self.assertEqual(self.error("down")[0], "CONFLICT")

    def test_errors_of_a_warden_go_to_stderr_as_json(self):
        self.ask("up")
        for text, code in {"container inspect x": "NOT_FOUND", "container stop x": "NOT_FOUND", "container rm x": "NOT_FOUND",
                           "container exec x -- true": "NOT_FOUND", "container create --profile nosuch": "NOT_FOUND",
                           "pod kill x": "NOT_FOUND", "pod stop x": "NOT_FOUND", "pod new --profile nosuch -- true": "NOT_FOUND",
                           "schedule rm x": "NOT_FOUND", "group inspect x": "NOT_FOUND", "call no.such": "METHOD_NOT_FOUND",
                           "policy explain fs.reed": "NOT_FOUND", "policy show --profile nosuch": "NOT_FOUND",
                           "approvals show x": "NOT_FOUND", "approvals approve x": "NOT_FOUND", "approvals deny x": "NOT_FOUND",
                           "mailbox resolve a b done": "NOT_FOUND"}.items():
            with self.subTest(text):
                self.assertEqual(self.error(text), (code, 2 if "nosuch" in text else 1))

    def test_what_was_typed_wrong_exits_with_2_whichever_command_finds_it(self):
        name = self.sallyport("container", "create").stdout.strip()
        for text in ("container create --workspace /nowhere", "pod new --workspace /nowhere -- true",
                     "mcp --workspace /nowhere", "pod new --allow-net http://x -- true", "pod new --allow-net @nosuch -- true",
                     "container create --name " + "n" * 49, "pod new --name " + "n" * 49 + " -- true",
                     f"container exec {name} --", "pod attach x --escape ab", "pod stop x --grace nan"):
            with self.subTest(text):
                self.assertEqual(self.error(text)[1], 2)
        said = self.sallyport("container", "create", "--name", "n" * 49).stderr
        self.assertEqual(said, "sallyport: --name: must have from 1 to 48 bytes\n")
        self.environment["SALLYPORT_STATE_DIR"] = "relative"
        self.assertEqual(self.error("status"), ("INVALID_PARAMS", 2))

    def test_a_launch_that_failed_says_what_it_says_of_run(self):
        name = self.sallyport("container", "create").stdout.strip()
        for words in ("container create", f"container exec {name}", "run"):
            with self.subTest(words):
                self.assertEqual(self.error(words + " -- no-such-program"), ("NOT_FOUND", 1))
                self.assertEqual(self.error(words + " -- /etc/passwd"), ("POLICY_DENIED", 3))
        ran = self.sallyport("call", "container.exec",
                             json.dumps({"container": name, "command": ["true"], "directory": "/nowhere"}))
        self.assertEqual(json.loads(ran.stderr)["details"], {"errno": "ENOENT"}, ran.stderr)

    def test_of_run_tells_all_that_its_words_tell(self):
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True)
        os.link(self.project / ".git/config", self.project / "other-name")
        ran = self.sallyport("run", "--json", "--", "sh", "-c", "kill -9 $$")
        report = json.loads(ran.stderr)
        self.assertEqual(report["hard_links"], [str(self.project / ".git/config")])
        self.assertEqual((report["exit_code"], report["signal"], report["violation_count"]), (137, 9, 0))
        self.assertNotIn("container", report)
        self.ask("up")
        ran = self.sallyport("run", "--json", "--", "sh", "-c", "echo $SALLYPORT_CONTAINER")
        self.assertEqual(json.loads(ran.stderr)["container"], ran.stdout.strip())

    def test_a_checkpoint_is_printed_though_it_is_also_written(self):
        self.ask("up")
        (shown,) = self.ask("audit checkpoint --output checkpoint")
        self.assertEqual(shown, json.loads((self.project / "checkpoint").read_text()))

    def test_without_it_people_are_told_in_words(self):
        made = self.sallyport("container", "create").stdout.strip()
        for text, said in ((f"container stop {made}", r"exited(, its command's exit code is \d+)?\n"),
                           (f"container rm {made}", "forgotten\n")):
            ran = self.sallyport(*text.split())
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stdout, f"^{said}$")


if __name__ == "__main__":
    unittest.main()
