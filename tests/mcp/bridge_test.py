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

    def start(self):
        server = subprocess.Popen([SALLYPORT, "mcp"], cwd=self.project, env=self.environment, text=True,
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

    # ---- what it says ----

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
