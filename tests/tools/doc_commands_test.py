"""tools/doc_commands on documents made for the purpose."""
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/doc_commands"


class DocCommands(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as directory:
            bin_dir = pathlib.Path(directory, "bin")
            bin_dir.mkdir()
            program = bin_dir / "sallyport"
            program.write_text("#!/bin/sh\necho sallyport $*\n")
            program.chmod(0o755)
            document = pathlib.Path(directory, "page.md")
            document.write_text(text)
            return subprocess.run([TOOL, bin_dir, document], capture_output=True, text=True)

    def test_marked_blocks_are_run_in_order_in_one_shell(self):
        text = "<!-- run -->\n```sh\nx=5\ncd /tmp\n```\n<!-- run -->\n```console\n$ echo $x $PWD\n5 /tmp\n$ sallyport up\nsallyport up\n```\n"
        self.assertEqual(self.check(text).returncode, 0)

    def test_other_output_than_the_document_shows_is_a_problem(self):
        ran = self.check("<!-- run -->\n```console\n$ echo one\ntwo\n```\n")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("page.md:3: echo one", ran.stderr)

    def test_dots_stand_for_anything(self):
        text = "<!-- run -->\n```console\n$ seq 1 9\n1\n...\n9\n$ echo pid 17 ended\npid ... ended\n```\n"
        self.assertEqual(self.check(text).returncode, 0)
        self.assertEqual(self.check(text.replace("9\n$", "8\n$")).returncode, 1)

    def test_a_shown_command_exits_as_the_document_says(self):
        for command, status in (("false", 1), ("false  # exit 1", 0), ("true  # exit 1", 1), ("(exit 3)  # exit 3", 0),
                                ("(exit 3)  # exit 4", 1), ("true | false", 1)):
            with self.subTest(command):
                self.assertEqual(self.check(f"<!-- run -->\n```console\n$ {command}\n```\n").returncode, status)

    def test_a_command_that_fails_is_a_problem(self):
        self.assertEqual(self.check("<!-- run -->\n```sh\ntrue\nfalse\n```\n").returncode, 1)

    def test_files_are_written_for_the_commands(self):
        text = "<!-- run -->\n```python a/b.py\nprint(7)\n```\n<!-- run -->\n```console\n$ python3 a/b.py\n7\n```\n"
        self.assertEqual(self.check(text).returncode, 0)

    def test_the_home_shows_as_a_users(self):
        self.assertEqual(self.check("<!-- run -->\n```console\n$ echo $HOME\n/home/me\n```\n").returncode, 0)

    def test_usage_names_only_what_a_command_knows(self):
        text = "<!-- usage -->\n```\nsallyport audit tail [--{}]    what it does\n```\n"
        self.assertEqual(self.check(text.format("help")).returncode, 0)
        self.assertEqual(self.check(text.format("colour")).returncode, 1)

    def list(self, text):
        with tempfile.TemporaryDirectory() as directory:
            document = pathlib.Path(directory, "page.md")
            document.write_text(text)
            return subprocess.run([TOOL, "--list", document], capture_output=True, text=True)

    def test_commands_that_are_neither_run_nor_say_why_are_a_problem(self):
        for block in ("```sh\nmake\n```\n", "```console\n$ make\n```\n", "```\nsallyport up\n```\n"):
            listed = self.list(f"text\n\n{block}")
            self.assertEqual(listed.returncode, 1, block)
            self.assertIn("page.md:4: ", listed.stderr)
            for mark in ("run", "usage", "not run: needs a key"):
                self.assertEqual(self.list(f"<!-- {mark} -->\n{block}").returncode, 0, mark)
            self.assertEqual(self.list(f"<!-- not run: -->\n{block}").returncode, 1)

    def test_blocks_without_commands_need_no_mark(self):
        self.assertEqual(self.list("```toml\nx = 1\n```\n\n```\na -> b\n```\n").returncode, 0)

    def test_a_document_without_any_is_a_problem(self):
        self.assertEqual(self.check("```sh\ntrue\n```\n").returncode, 1)


if __name__ == "__main__":
    unittest.main()
