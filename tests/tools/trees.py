"""Small trees of files, and running a tool of this repository on them."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class TreeTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="sallyport-tools-")
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_tool(self, name, *arguments, **environment):
        tool = TOOLS / name
        # Python may be reached through a slow wrapper; the interpreter that runs this is at hand.
        start = [sys.executable] if "python3" in tool.read_text().split("\n", 1)[0] else []
        return subprocess.run([*start, tool, *map(str, arguments)], capture_output=True, text=True, timeout=50,
                              env={**os.environ, **environment}, cwd=self.root)

    def git_init(self):
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def assert_passes(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_fails_saying(self, done, text):
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(text, done.stdout + done.stderr)
