"""The bridge as a client meets it: what is piped into it, many commands at once, images, and how it ends."""
import base64
import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import time
import unittest

from bridged import HELLO, SALLYPORT, Bridged, call, lines, text


class Bridge(Bridged):
    # ---- the end of input ----

    def test_everything_that_was_piped_in_is_answered_however_long_it_takes(self):
        answers = self.pipe(call(1, "exec", command="sleep 3; echo late"), call(2, "write", path="x", content="y"))
        self.assertIn("late\n[exit code 0]", text(answers[1]))
        self.assertEqual((self.project / "x").read_text(), "y")

    def test_a_last_line_may_lack_its_end(self):
        ran = self.sallyport("mcp", input=lines(HELLO, call(1, "exec", command="echo there")).rstrip("\n"), timeout=100)
        self.assertIn("there", ran.stdout)

    def test_a_client_that_is_gone_is_not_worked_for(self):
        server = self.start()
        server.stdin.write(lines(call(1, "exec", command="touch started; sleep 3600")))
        server.stdin.flush()
        while not (self.project / "started").exists():
            self.assertIsNone(server.poll())
        server.stdin.close()
        server.stdout.close()
        self.assertEqual(server.wait(60), 0)
        while json.loads(self.sallyport("container", "ls", "--json").stdout)["containers"]:
            pass

    def test_sigterm_ends_it_while_a_command_runs(self):
        server = self.start()
        server.stdin.write(lines(call(1, "exec", command="sleep 3600")))
        server.stdin.close()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), -signal.SIGTERM)

    def test_somebody_at_a_terminal_is_told_what_it_is_for(self):
        ours, theirs = pty.openpty()
        server = subprocess.Popen([SALLYPORT, "mcp"], cwd=self.project, env=self.environment, text=True, stdin=theirs,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(theirs)
        self.assertIn("is started by a client; see sallyport-mcp(1)", server.stderr.readline())
        os.close(ours)
        server.stderr.close()
        self.assertEqual(server.wait(60), 0)

    # ---- what the documents tell people to configure ----

    def test_the_snippets_for_clients_start_it(self):
        found = []
        for document in ("README.md", "docs/mcp.md"):
            page = (pathlib.Path(__file__).resolve().parents[2] / document).read_text()
            commands = re.findall(r'mcp add sallyport -- ([^`]*)`', page)
            for snippet in re.findall(r'`(\{"(?:servers|mcpServers)":[^`]*)`', page):
                (servers,) = json.loads(snippet).values()
                server = servers["sallyport"]
                commands.append(shlex.join([server["command"], *server["args"]]).replace("${workspaceFolder}", "$PWD"))
            self.assertEqual(len(commands), 4, document)
            found += commands
        for command in found:
            ran = subprocess.run(["sh", "-c", command.replace("'$PWD'", '"$PWD"')], cwd=self.project, text=True, timeout=100,
                                 input=lines(HELLO, call(1, "exec", command="pwd")), capture_output=True,
                                 env={**self.environment, "PATH": f"{os.environ['SALLYPORT_BIN']}:{os.environ['PATH']}"})
            self.assertIn(f"{self.project}\\n[exit code 0]", ran.stdout, command + ran.stderr)

    # ---- many at once ----

    def test_more_commands_than_run_at_once_wait_for_their_turn(self):
        meet = "echo x >> came; until [ $(wc -l < came) -ge 8 ]; do sleep 0.05; done; echo done"
        answers = self.pipe(*(call(i, "exec", command=meet) for i in range(1, 13)))
        for i in range(1, 13):
            self.assertIn("done\n[exit code 0]", text(answers[i]), i)

    def test_a_command_cancelled_while_it_waits_is_never_started(self):
        hold = "until [ -e go ]; do sleep 0.05; done"
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        answers = self.pipe(*(call(i, "exec", command=hold) for i in range(1, 9)), call(9, "exec", command="touch never"),
                            cancel, call(10, "write", path="go", content=""))
        self.assertEqual(set(answers), {*range(0, 9), 10})
        self.assertFalse((self.project / "never").exists())

    # ---- the end of a command ----

    # How many processes of the sandbox have this word in their command line.
    def count(self, server, number, word):
        answer = self.ask(server, call(number, "exec", command=f"grep -laz '^{word}$' /proc/[0-9]*/cmdline | wc -l"))
        return int(answer["result"]["structuredContent"]["stdout"])

    def ask(self, server, *messages):
        server.stdin.write(lines(*messages))
        server.stdin.flush()
        while True:
            answer = json.loads(server.stdout.readline())
            if answer.get("id") == messages[-1]["id"]:
                return answer

    # It may yet have to become what it is called for.
    def expect_there(self, server, number, word):
        while self.count(server, number, word) != 1:
            number += 1
        return number + 1

    # Before their time is over, which is longer than the test's.
    def expect_gone(self, server, number):
        for word in ("11111", "22222", "33333"):
            while self.count(server, number, word):
                number += 1
            number += 1

    # A child in a session of its own, and one that nobody's child is any more.
    RUNAWAYS = "setsid sleep 11111 & (setsid setsid sleep 22222 &); touch started; sleep 33333; true"

    def test_a_command_that_takes_too_long_is_killed_with_what_has_left_its_session(self):
        server = self.start()
        answer = self.ask(server, call(1, "exec", command=self.RUNAWAYS, timeout_ms=1000))
        self.assertTrue(answer["result"]["structuredContent"]["timed_out"])
        self.expect_gone(server, 2)

    def test_a_cancelled_command_is_killed_with_what_has_left_its_session(self):
        server = self.start()
        server.stdin.write(lines(call(1, "exec", command=self.RUNAWAYS)))
        server.stdin.flush()
        while not (self.project / "started").exists():
            self.assertIsNone(server.poll())
        number = self.expect_there(server, 2, "22222")
        server.stdin.write(lines({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        self.expect_gone(server, number)

    def test_what_a_finished_command_left_running_goes_on(self):
        server = self.start()
        self.ask(server, call(1, "exec", command="setsid sleep 11111 >/dev/null 2>&1 & true"))
        self.ask(server, call(2, "exec", command="sleep 22222", timeout_ms=100))
        self.expect_there(server, 3, "11111")

    def test_a_silent_command_reports_that_it_goes_on(self):
        server = self.start()
        silent = call(1, "exec", command="until [ -e go ]; do sleep 0.05; done")
        silent["params"]["_meta"] = {"progressToken": 7}
        server.stdin.write(lines(silent))
        server.stdin.flush()
        beats = [json.loads(server.stdout.readline())["params"] for _ in range(3)]
        self.assertEqual(beats, [{"progressToken": 7, "progress": i} for i in (1, 2, 3)])
        (self.project / "go").touch()

    # ---- what its sandbox left behind ----

    def test_what_the_scan_at_exit_found_is_told_and_recorded(self):
        plant = "mkdir .vscode && echo '{}' > .vscode/tasks.json && git init -q . && echo evil > .git/hooks/pre-commit"
        ran = self.sallyport("mcp", input=lines(HELLO, call(1, "exec", command=plant)), timeout=100)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        hook, tasks = self.project / ".git/hooks/pre-commit", self.project / ".vscode"
        log = (self.home / "state/warden.log").read_text()
        audit = self.sallyport("audit", "query", "--method", "container.finding", "--json").stdout
        for place in (ran.stderr, log, audit):
            self.assertIn(f"quarantined: {hook}", place)
            self.assertIn(f"new, and may run code on the host: {tasks}", place)
        self.assertIn("container/mcp-", audit)
        self.assertFalse(hook.exists())

    def test_a_command_of_many_lines_passes_for_no_part_of_the_question_about_it(self):
        (self.home / "profiles").mkdir()
        (self.home / "profiles/asked.toml").write_text("""[profile.asked]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
methods = ["container.exec"]
review = { "container.exec" = "human" }
""")
        server = self.start("--profile", "asked")
        server.stdin.write(lines(call(1, "exec", command="rm -rf .\npayload\n{}\n\nwants      fs.stat")))
        server.stdin.flush()
        while not (waiting := json.loads(self.sallyport("--json", "approvals", "ls").stdout)["approvals"]):
            time.sleep(0.05)
        shown = self.sallyport("approvals", "show", waiting[0]["id"]).stdout
        self.assertIn("command\n  | rm -rf .\n  | payload\n  | {}\n  | \n  | wants      fs.stat\npayload\n", shown)
        self.sallyport("approvals", "deny", waiting[0]["id"])

    def test_an_end_beside_a_warden_that_hangs_is_a_quick_one(self):
        server = self.start()
        self.ask(server, call(1, "list"))
        warden = int(self.sallyport("status").stdout.split("pid ")[1].split(",")[0])
        os.kill(warden, signal.SIGSTOP)
        self.addCleanup(os.kill, warden, signal.SIGCONT)
        began = time.monotonic()
        server.stdin.close()
        self.assertEqual(server.wait(30), 0)
        self.assertLess(time.monotonic() - began, 2)

    def test_an_end_with_nothing_to_say_says_nothing(self):
        ran = self.sallyport("mcp", input=lines(HELLO, call(1, "write", path="x", content="y")), timeout=100)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(json.loads(self.sallyport("container", "ls", "--json").stdout)["containers"], [])

    # ---- images ----

    def test_an_image_of_any_usual_size_comes_as_one(self):
        for size in (190_000, 200_000, 3_000_001, 8 << 20):
            data = b"\x89PNG\r\n\x1a\n" + os.urandom(size - 8)
            (self.project / "picture.png").write_bytes(data)
            (image,) = self.pipe(call(1, "read", path="picture.png"))[1]["result"]["content"]
            self.assertEqual((image["type"], image["mimeType"]), ("image", "image/png"))
            self.assertEqual(base64.b64decode(image["data"]), data, size)

    def test_an_image_or_sound_is_told_by_its_bytes(self):
        for name, data, mime in (("a.png", b"\xff\xd8\xff\xe0\0\0", "image/jpeg"), ("a.JPG", b"\xff\xd8\xff\xe0\0", "image/jpeg"),
                                 ("a.gif", b"GIF89a\0", "image/gif"), ("a.webp", b"RIFF\1\0\0\0WEBPVP8 \0", "image/webp"),
                                 ("a.bmp", b"BM\0\0\xff", "image/bmp"), ("a.mp3", b"ID3\4\0\0", "audio/mpeg"),
                                 ("b.mp3", b"\xff\xfb\x90\0", "audio/mpeg"), ("a.wav", b"RIFF\1\0\0\0WAVEfmt \0", "audio/wav"),
                                 ("a.ogg", b"OggS\0", "audio/ogg"), ("a.flac", b"fLaC\0", "audio/flac"),
                                 ("a.m4a", b"\0\0\0 ftypM4A ", "audio/mp4"), ("a.aac", b"\xff\xf1\0", "audio/aac"),
                                 ("wrong.png", b"\0\1\2\3not an image", None), ("wrong.jpg", b"\0\0\0 ftypheic", None),
                                 ("wrong.wav", b"OggS\0", None), ("wrong.mp3", b"\0" * 20, None)):
            (self.project / name).write_bytes(data)
            result = self.pipe(call(1, "read", path=name))[1]["result"]
            self.assertEqual(result["isError"], mime is None, name)
            if mime:
                self.assertEqual(result["content"][0].get("mimeType"), mime, name)
            else:
                self.assertIn("not the image or sound that its name says. Set encoding to base64", result["content"][0]["text"])

    def test_an_image_that_is_too_large_is_refused_with_what_to_do(self):
        with open(self.project / "picture.png", "wb") as picture:
            picture.write(b"\x89PNG\r\n\x1a\n\0\0")
            picture.truncate((8 << 20) + 1)
        is_error, said = self.said("read", path="picture.png")
        self.assertTrue(is_error)
        self.assertIn("8388609 bytes, and as an image or sound at most 8388608 come at once. Make a smaller copy", said)
        # Its bytes still come in parts to who asks for them.
        self.assertIn("There is more", self.said("read", path="picture.png", encoding="base64")[1])

    # ---- annotations ----

    def exec_hints(self, *options):
        tools = self.pipe({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, options=options)[1]["result"]["tools"]
        (hints,) = (tool["annotations"] for tool in tools if tool["name"] == "exec")
        return [hints[name] for name in ("readOnlyHint", "destructiveHint", "openWorldHint")]

    def test_exec_says_whether_it_reaches_others_and_can_change_something_there(self):
        (self.home / "profiles").mkdir()
        (self.home / "profiles/net.toml").write_text("""
[profile.net]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
methods = ["fs.*", "container.exec"]
net.allow = ["example.com:443"]
""")
        self.assertEqual(self.exec_hints(), [False, True, False])
        self.assertEqual(self.exec_hints("--read-only"), [True, False, False])
        self.assertEqual(self.exec_hints("--profile", "net"), [False, True, True])
        self.assertEqual(self.exec_hints("--profile", "net", "--read-only"), [False, True, True])


if __name__ == "__main__":
    unittest.main()
