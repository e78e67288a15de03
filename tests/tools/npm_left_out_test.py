"""What ctest is told about tests with programs from npm, where those are not installed."""
import os
import re
import subprocess

from trees import TOOLS, TreeTest


class NpmLeftOut(TreeTest):
    def ctest(self, must_work):
        template = (TOOLS.parent / "tests/npm/npm_tests.cmake.in").read_text()
        self.write("CTestTestfile.cmake", re.sub(r"@[A-Z_]+@", str(self.root), template))
        return subprocess.run(["ctest", "--test-dir", self.root, "--output-on-failure"], capture_output=True, text=True,
                              env={**os.environ, "SALLYPORT_MUST_WORK": must_work})

    def test_they_are_left_out_where_not_everything_must_work(self):
        self.assertNotIn("npm.", self.ctest("0").stdout)

    def test_they_fail_and_say_why_where_everything_must_work(self):
        done = self.ctest("1")
        self.assert_fails_saying(done, "npm.are_installed")
        self.assertIn("The programs from npm are not in build/npm", done.stdout)

    def test_they_are_run_once_they_are_installed(self):
        self.write("build/npm/installed", "")
        self.assertIn("npm.sdk", self.ctest("1").stdout)
