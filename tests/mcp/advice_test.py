"""What the bridge says to a model: about what fails, and what to do next."""
import base64
import json
import os
import re
import unittest

from bridged import HELLO, Bridged, call, lines, text


class Advice(Bridged):
    def test_a_file_that_goes_away_with_the_sandbox_is_said_to(self):
        for name in "ab":
            (self.project / name).write_text(name)
        vanishes = "goes away with the sandbox"
        answers = self.pipe(call(1, "move", **{"from": "a", "to": "/tmp/a"}), call(2, "copy", **{"from": "b", "to": "/tmp/b"}),
                            call(3, "write", path="/dev/shm/c", content=""), call(4, "write", path="../../../tmp/d", content=""),
                            call(5, "write", path=f"{self.home}/e", content=""), call(6, "move", **{"from": "b", "to": "c"}),
                            call(7, "write", path=str(self.project / "d"), content=""),
                            call(8, "edit", path="c", old_string="b", new_string="B"))
        for number in range(1, 9):
            result = answers[number]["result"]
            self.assertFalse(result["isError"], (number, result))
            self.assertEqual(vanishes in result["structuredContent"].get("note", ""), number <= 5, (number, result))
            self.assertNotIn("scratch", result["structuredContent"])
            self.assertEqual(json.loads(text(answers[number])), result["structuredContent"])
        edits = self.pipe(call(1, "write", path="/tmp/a", content="one two"),
                          call(2, "edit", path="/tmp/a", old_string="one", new_string="1"),
                          call(3, "multi_edit", path="/tmp/a", edits=[{"old_string": "two", "new_string": "2"}]))
        for number in (2, 3):
            self.assertIn(vanishes, edits[number]["result"]["structuredContent"].get("note", ""), edits[number])
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
review = { "fs.write" = "human", "fs.multi_edit" = "human", "container.exec" = "human" }
""")
        return ["--profile", "careful"]

    def test_what_is_too_much_to_be_reviewed(self):
        begin = "It is too much to be reviewed. A human reviews this, and must see all of it: 60000 bytes of text at once are no problem. "
        (self.project / "x").write_text("a")
        write = {"path": "x"}
        options = self.careful()
        # As a stream; in the message, where it is more than it was; and what does not come as a stream at all.
        for tool, arguments, end in (
                ("write", write | {"content": "x" * (200 << 10)}, "Write less: a first part, and then more of it with edit."),
                ("write", write | {"content": "x" * (128 << 10)}, "Write less: a first part, and then more of it with edit."),
                ("write", write | {"content": "\n" * (66 << 10)}, "Write less: a first part, and then more of it with edit."),
                ("exec", {"command": "true" + "\n" * 65_500},
                 "Write what is long into a file first, in several parts, and run that."),
                ("multi_edit", write | {"edits": [{"old_string": "a", "new_string": "b" * (70 << 10)},
                                                  {"old_string": "b", "new_string": "a" * (70 << 10)}]},
                 "Do it in several calls.")):
            self.assertEqual(text(self.pipe(call(1, tool, **arguments), options=options)[1]), begin + end)

    def test_what_is_said_to_be_little_enough_is_reviewed(self):
        server = self.start(*self.careful())
        asked = call(1, "write", path="x", content='\n"\\' * 20_000)
        asked["params"]["_meta"] = {"progressToken": 7}
        server.stdin.write(lines(asked))
        server.stdin.flush()
        self.assertIn("approvals approve", json.loads(server.stdout.readline())["params"]["message"])

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
        self.assertIn('\ncommand\n  | echo "to be seen"\n  | until [ -e go ]', self.sallyport("approvals", "show", question).stdout)
        self.assertIn('  echo \\"to be seen', self.sallyport("approvals").stdout)
        self.assertEqual(self.sallyport("approvals", "approve", question).returncode, 0)
        # It runs now, and waits for nobody.
        while "to be seen" not in progress:
            progress = json.loads(server.stdout.readline())["params"].get("message", "")
        self.assertNotIn("message", json.loads(server.stdout.readline())["params"])
        (self.project / "go").touch()

    def test_a_workspace_that_is_none_is_said_before_anything_is_served(self):
        (self.project / "file").touch()
        for workspace, why in (("file", "is no directory"), ("nowhere", "is not there")):
            ran = self.sallyport("mcp", "--workspace", workspace, input=lines(HELLO))
            self.assertEqual((ran.returncode, ran.stdout), (2, ""))
            self.assertIn(f"the workspace '{workspace}' {why}; name one with --workspace", ran.stderr)

    def test_where_no_sandbox_can_be_made_the_model_is_not_told_to_try_again(self):
        answer = self.pipe(call(1, "list"), options=["--workspace", "/"], status=2)[1]
        self.assertTrue(answer["result"]["isError"])
        self.assertIn("No sandbox can be made here: a workspace must not be a whole home or system (/)", text(answer))
        self.assertIn("No tool works until the user has mended this", text(answer))

    def test_what_is_no_regular_file(self):
        os.mkfifo(self.project / "fifo")
        for tool, arguments in (("read", {}), ("edit", {"old_string": "a", "new_string": "b"}), ("write", {"content": "x"})):
            is_error, said = self.said(tool, path="fifo", **arguments)
            self.assertTrue(is_error)
            self.assertEqual(said, "'fifo': not a regular file. It is a FIFO, a socket or a device (see stat), which the file "
                                   "tools leave alone.")
        said = self.said("read", path="/proc/self/environ")[1]
        self.assertIn("what the kernel shows of the process that serves files", said)
        self.assertNotIn("FIFO", said)

    def test_no_advice_names_a_tool_that_is_not_offered(self):
        (self.home / "profiles").mkdir()
        (self.home / "profiles/files.toml").write_text('''
[profile.files]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
methods = ["fs.*"]
''')
        os.mkfifo(self.project / "fifo")
        (self.project / "latin").write_bytes(b"caf\xe9\n")
        (self.project / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8 << 20))
        everything = self.pipe({"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                               *(call(i, "read", path=path) for i, path in enumerate(("fifo", "latin", "large.png"), 2)),
                               options=["--profile", "files"])
        self.assertEqual(len(everything[1]["result"]["tools"]), 11)
        self.assertIn("Set encoding to base64 if you need its bytes.", text(everything[3]))
        self.assertIn("Set encoding to base64 for its bytes in parts.", text(everything[4]))
        for answer in everything.values():
            self.assertNotRegex(json.dumps(answer), r"\bexec\b")

    def test_what_stands_in_the_way_of_a_copy_or_a_move(self):
        for name in ("directory", "other"):
            (self.project / name).mkdir()
        (self.project / "file").write_text("mine")
        (self.project / "link").symlink_to("file")
        over = {"overwrite": True}
        for tool, arguments, who, what in (
                ("move", {"from": "file", "to": "directory", **over}, "directory", "overwrite does not replace it"),
                ("copy", {"from": "file", "to": "directory", **over}, "directory", "overwrite does not replace it"),
                ("move", {"from": "directory", "to": "file", **over}, "file", "directories are neither replaced nor"),
                ("copy", {"from": "directory", "to": "other", "recursive": True}, "other", "directories are neither replaced"),
                ("copy", {"from": "directory", "to": "file", "recursive": True, **over}, "file", "Choose another name"),
                ("copy", {"from": "file", "to": "link", **over}, "link", "a symbolic link or another special file"),
                ("copy", {"from": "file", "to": "link"}, "link", "set overwrite if it may be replaced"),
                ("move", {"from": "file", "to": "new/place"}, "new/place", "Set create_dirs"),
                ("copy", {"from": "file", "to": "new/place"}, "new/place", "Set create_dirs"),
                ("copy", {"from": "nowhere/x", "to": "new/place"}, "nowhere/x", "Find the right path with glob or list")):
            is_error, said = self.said(tool, **arguments)
            self.assertTrue(is_error)
            self.assertTrue(said.startswith(f"'{who}': "), said)
            self.assertIn(what, said)
        self.assertEqual((self.project / "file").read_text(), "mine")

    def test_what_a_version_that_is_wanted_meets(self):
        (self.project / "file").write_text("mine")
        is_error, said = self.said("write", path="file", content="x", if_match="absent")
        self.assertEqual((is_error, said), (True, "'file': there is a file, and if_match wants none. Read it, then decide: "
                                                  "without if_match it would be replaced."))
        self.assertIn("Somebody changed the file", self.said("write", path="file", content="x", if_match="0" * 64)[1])
        self.assertIn("Somebody removed it", self.said("write", path="gone", content="x", if_match="0" * 64)[1])

    def test_nothing_found_says_what_was_left_out_and_how_to_find_it(self):
        (self.project / ".env").write_text("KEY=secret\n")
        (self.project / ".hidden").write_text("x\n")
        self.assertIn("Skipped: 2 hidden. Set hidden to search those too.", self.said("grep", pattern="nowhere")[1])
        said = self.said("grep", pattern="nowhere", hidden=True, ignored=True)[1]
        self.assertEqual(said, "No line matches in 1 files. Skipped: 1 that this sandbox hides.\n")

    def test_a_whole_number_is_an_integer_however_it_is_written(self):
        (self.project / "two").write_text("a\nb\n")
        self.assertEqual(self.said("read", path="two", offset=2.0), (False, "b\n"))
        self.assertIn("offset: must be an integer", self.said("read", path="two", offset=1.5)[1])
        self.assertIn("offset: must be from 1 to", self.said("read", path="two", offset=0.0)[1])
        self.assertIn("[exit code 0]", self.said("exec", command="true", timeout_ms=9e3)[1])

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
