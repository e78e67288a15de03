"""The bridge as a client meets it: what is piped into it, many commands at once, and what it says about what fails."""
import base64
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

SALLYPORT = os.environ["SALLYPORT_BIN"] + "/sallyport"
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


def call(number, tool, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


def text(answer):
    return "".join(part.get("text", "") for part in answer["result"]["content"])


class Bridge(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-mcp-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.project = self.home / "project"
        self.project.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
                            "SALLYPORT_RUNTIME_DIR": str(self.home / "run"), "SALLYPORT_STATE_DIR": str(self.home / "state"),
                            "SALLYPORT_CONFIG": str(self.home / "sallyport.toml")}
        self.addCleanup(self.sallyport, "down")

    def sallyport(self, *words, **options):
        return subprocess.run([SALLYPORT, *words], cwd=self.project, env=self.environment, text=True, capture_output=True,
                              **options)

    # What a pipe of these messages is answered with, by id.
    def pipe(self, *messages, status=0, options=()):
        ran = self.sallyport("mcp", *options, input=lines(HELLO, *messages), timeout=100)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines()) if "id" in answer}

    # What one call says to its model.
    def said(self, tool, **arguments):
        answer = self.pipe(call(1, tool, **arguments))[1]
        return answer["result"]["isError"], text(answer)

    def start(self, *options):
        server = subprocess.Popen([SALLYPORT, "mcp", *options], cwd=self.project, env=self.environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stdin.close)
        server.stdin.write(lines(HELLO))
        server.stdin.flush()
        server.stdout.readline()
        return server

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
        self.assertEqual(self.count(server, 2, "22222"), 1)
        server.stdin.write(lines({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        self.expect_gone(server, 3)

    def test_what_a_finished_command_left_running_goes_on(self):
        server = self.start()
        self.ask(server, call(1, "exec", command="setsid sleep 11111 >/dev/null 2>&1 & true"))
        self.ask(server, call(2, "exec", command="sleep 22222", timeout_ms=100))
        self.assertEqual(self.count(server, 3, "11111"), 1)

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

    # ---- what it says ----

    def test_a_file_that_goes_away_with_the_sandbox_is_said_to(self):
        for name in "ab":
            (self.project / name).write_text(name)
        vanishes = "goes away with the sandbox"
        answers = self.pipe(call(1, "move", **{"from": "a", "to": "/tmp/a"}), call(2, "copy", **{"from": "b", "to": "/tmp/b"}),
                            call(3, "write", path="/dev/shm/c", content=""), call(4, "write", path="../../../tmp/d", content=""),
                            call(5, "write", path=f"{self.home}/e", content=""), call(6, "move", **{"from": "b", "to": "c"}),
                            call(7, "write", path=str(self.project / "d"), content=""))
        for number in range(1, 8):
            result = answers[number]["result"]
            self.assertFalse(result["isError"], (number, result))
            self.assertEqual(vanishes in result["structuredContent"].get("note", ""), number <= 5, (number, result))
            self.assertNotIn("scratch", result["structuredContent"])
            self.assertEqual(json.loads(text(answers[number])), result["structuredContent"])
        tools = self.pipe({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[1]["result"]["tools"]
        (description,) = (tool["description"] for tool in tools if tool["name"] == "move")
        self.assertIn("/tmp", description)

    def test_also_behind_a_link_of_the_workspace_that_leads_out_of_it(self):
        (self.project / "out").symlink_to("/tmp/build-out")
        (self.project / "alone").symlink_to("/tmp/alone")
        (self.project / "a").write_text("a")
        answers = self.pipe(call(1, "write", path="/tmp/build-out/x", content=""),
                            call(2, "move", **{"from": "a", "to": "out/a"}),
                            call(3, "write", path="alone", content="long" * 100_000),
                            call(4, "write", path="kept", content="long" * 100_000))
        for number in range(1, 5):
            result = answers[number]["result"]
            self.assertFalse(result["isError"], (number, result))
            self.assertEqual("goes away with the sandbox" in result["structuredContent"].get("note", ""), number <= 3,
                             (number, result))

    def test_commands_that_flood_and_run_out_of_time_leave_nothing_behind(self):
        floods = [call(i, "exec", command="yes", timeout_ms=60) for i in range(1, 41)]
        answers = self.pipe(*floods, *(call(i, "exec", command="echo ok") for i in range(41, 57)))
        for number in range(1, 41):
            self.assertTrue(answers[number]["result"]["structuredContent"]["timed_out"], answers[number])
        for number in range(41, 57):
            self.assertEqual(answers[number]["result"].get("structuredContent", {}).get("stdout"), "ok\n", answers[number])

    def test_a_command_without_network_is_told_why(self):
        note = "This sandbox has no network: its profile 'mcp' allows none."
        for command in ("echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6",
                        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'"):
            answer = self.pipe(call(1, "exec", command=command))[1]
            self.assertIn(note, answer["result"]["structuredContent"].get("note", ""), command)
            self.assertIn(note, text(answer))
        for command in ("false", "echo Could not resolve host"):
            self.assertNotIn("network", self.said("exec", command=command)[1])

    def test_what_the_sandbox_hides_is_said_to_be_hidden(self):
        (self.project / ".env").write_text("KEY=secret\n")
        is_error, said = self.said("read", path=".env")
        self.assertTrue(is_error)
        self.assertIn("This sandbox hides what is in this file", said)
        self.assertNotIn("secret\n", said)
        self.assertIn("protected in this sandbox. Do not try other ways", self.said("remove", path=".env")[1])
        (self.project / "empty").touch()
        self.assertEqual(self.said("read", path="empty"), (False, "[The file is empty.]"))

    def test_what_to_do_next(self):
        (self.project / "directory").mkdir()
        (self.project / "circle").symlink_to("circle")
        for tool, arguments, advice in (
                ("read", {"path": "directory"}, "use list"),
                ("write", {"path": "directory", "content": ""}, "name a file in it"),
                ("edit", {"path": "directory", "old_string": "a", "new_string": "b"}, "name a file in it"),
                ("copy", {"from": "directory", "to": "other"}, "set recursive"),
                ("read", {"path": "circle"}, "look at it with stat"),
                ("write", {"path": "n" * 256, "content": ""}, "A name may have 255 bytes")):
            is_error, said = self.said(tool, **arguments)
            self.assertTrue(is_error)
            self.assertIn(advice, said, tool)

    def careful(self):
        (self.home / "profiles").mkdir()
        (self.home / "profiles/careful.toml").write_text("""
[profile.careful]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
methods = ["fs.*", "container.exec"]
review = { "fs.write" = "human", "container.exec" = "human" }
""")
        return ["--profile", "careful"]

    def test_what_is_too_much_to_be_reviewed(self):
        said = text(self.pipe(call(1, "write", path="x", content="x" * (200 << 10)), options=self.careful())[1])
        self.assertEqual(said, "It is too much to be reviewed. A human reviews this, and must see all of it: at most 131072 "
                               "bytes at once. Write less: a first part, and then more of it with edit.")

    def test_whoever_reviews_a_command_sees_the_command(self):
        server = self.start(*self.careful())
        asked = call(1, "exec", command='echo "to be seen"\nuntil [ -e go ]; do sleep 0.05; done')
        asked["params"]["_meta"] = {"progressToken": 7}
        server.stdin.write(lines(asked))
        server.stdin.flush()
        progress = ""
        while "approvals approve" not in progress:
            progress = json.loads(server.stdout.readline())["params"].get("message", "")
        question = re.search(r"approvals approve (\S+)`", progress).group(1)
        self.assertIn('\ncommand\necho "to be seen"\nuntil [ -e go ]', self.sallyport("approvals", "show", question).stdout)
        self.assertIn('  echo \\"to be seen', self.sallyport("approvals").stdout)
        self.assertEqual(self.sallyport("approvals", "approve", question).returncode, 0)
        # It runs now, and waits for nobody.
        while "to be seen" not in progress:
            progress = json.loads(server.stdout.readline())["params"].get("message", "")
        self.assertNotIn("message", json.loads(server.stdout.readline())["params"])
        (self.project / "go").touch()

    def test_a_workspace_that_is_none_is_said_before_anything_is_served(self):
        (self.project / "file").touch()
        for workspace, why in (("file", "is no directory"), ("nowhere", "is not there"), ("", "is not there")):
            ran = self.sallyport("mcp", "--workspace", workspace, input=lines(HELLO))
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertIn(f"the workspace '{workspace}' {why}; name one with --workspace", ran.stderr)

    def test_where_no_sandbox_can_be_made_the_model_is_not_told_to_try_again(self):
        answer = self.pipe(call(1, "list"), options=["--workspace", "/"], status=1)[1]
        self.assertTrue(answer["result"]["isError"])
        self.assertIn("No sandbox can be made here: a workspace must not be a whole home or system (/)", text(answer))
        self.assertIn("No tool works until the user has mended this", text(answer))

    def test_what_is_no_regular_file(self):
        os.mkfifo(self.project / "fifo")
        for tool, arguments in (("read", {}), ("edit", {"old_string": "a", "new_string": "b"}), ("write", {"content": "x"})):
            is_error, said = self.said(tool, path="fifo", **arguments)
            self.assertTrue(is_error)
            self.assertEqual(said, "'fifo': not a regular file. It is a FIFO, a socket or a device (see stat): only exec can do "
                                   "something with it.")

    def test_the_workspace_itself_cannot_be_removed(self):
        self.assertIn("Name something in the directory", self.said("remove", path=".", recursive=True)[1])

    def test_base64_of_more_than_a_message_holds_is_written_all_the_same(self):
        data = os.urandom(3 << 20)
        is_error, said = self.said("write", path="blob", encoding="base64", content=base64.b64encode(data).decode())
        self.assertFalse(is_error, said)
        self.assertEqual((self.project / "blob").read_bytes(), data)
        is_error, said = self.said("write", path="blob", encoding="base64", content="!" * (1 << 20))
        self.assertEqual((is_error, said), (True, "content: is not base64. Correct the arguments of write and call it again."))
        self.assertEqual((self.project / "blob").read_bytes(), data)

    def test_nothing_read_is_explained(self):
        (self.project / "two").write_text("a\nb\n")
        (self.project / "empty").touch()
        self.assertEqual(self.said("read", path="two", offset=9), (False, "[The file ends before that: it has 2 lines.]"))
        self.assertEqual(self.said("read", path="empty"), (False, "[The file is empty.]"))
        self.assertEqual(self.said("read", path="two", offset=2), (False, "b\n"))

    def test_a_name_with_a_newline_stays_one_line(self):
        (self.project / "a\nb").write_text("hit\n")
        (self.project / "plain").write_text("hit\n")
        self.assertEqual(self.said("glob", pattern="*"), (False, '"a\\nb"\nplain\n'))
        self.assertEqual(self.said("grep", pattern="hit"), (False, '"a\\nb":1:hit\nplain:1:hit\n'))
        self.assertEqual(self.said("read", path="a\nb"), (False, "hit\n"))

    def test_a_command_in_no_directory(self):
        self.assertIn("Check its directory with list.", self.said("exec", command="true", directory="nowhere")[1])

    def test_an_argument_is_named_as_the_tool_names_it(self):
        self.assertTrue(self.said("grep", pattern="(")[1].startswith("pattern: RE2 refuses it"))


if __name__ == "__main__":
    unittest.main()
