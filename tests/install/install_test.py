"""What `cmake --install` leaves: programs that find each other, a library that others build against, pages,
completion."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["SALLYPORT_BUILD"]
CXX = os.environ["SALLYPORT_TEST_CXX"]
FLAGS = os.environ.get("SALLYPORT_TEST_FLAGS", "").split()


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-install-"))
        cls.prefix = cls.root / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)
        (cls.root / "project").mkdir()
        cls.environment = {**os.environ, "HOME": str(cls.root), "SALLYPORT_RUNTIME_DIR": str(cls.root / "run"),
                           "SALLYPORT_STATE_DIR": str(cls.root / "state"), "SALLYPORT_CONFIG": str(cls.root / "c.toml")}

    @classmethod
    def tearDownClass(cls):
        subprocess.run([cls.prefix / "bin/sallyport", "down"], env=cls.environment, capture_output=True)
        shutil.rmtree(cls.root, ignore_errors=True)

    def run_in(self, *words, **more):
        ran = subprocess.run(words, env={**self.environment, **more}, cwd=self.root / "project", text=True,
                             capture_output=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_the_programs_find_each_other(self):
        sallyport = self.prefix / "bin/sallyport"
        self.assertEqual(self.run_in(sallyport, "run", "--", "echo", "hi"), "hi\n")
        self.run_in(sallyport, "up")
        container = self.run_in(sallyport, "container", "create").strip()
        self.assertEqual(self.run_in(sallyport, "container", "exec", container, "--", "echo", "in"), "in\n")

    def test_the_example_builds_with_find_package_and_with_pkg_config(self):
        example = self.prefix / "share/doc/sallyport/examples/cpp-client"
        self.run_in(self.prefix / "bin/sallyport", "up")
        socket = self.root / "run/warden.sock"
        self.run_in("cmake", "-S", example, "-B", self.root / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                    f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}")
        self.run_in("cmake", "--build", self.root / "build")
        (pc,) = self.prefix.glob("**/sallyport.pc")
        flags = self.run_in("pkg-config", "--cflags", "--libs", "sallyport", PKG_CONFIG_PATH=str(pc.parent)).split()
        self.run_in(CXX, "-std=c++20", *FLAGS, example / "main.cpp", *flags, "-o", self.root / "by_pkg_config")
        for program in (self.root / "build/cpp_client", self.root / "by_pkg_config"):
            self.assertEqual(self.run_in(program, socket), "hello from inside\nexit code 0\n")

    def test_the_snippet_of_the_documents_works_and_says_why_it_cannot(self):
        (pc,) = self.prefix.glob("**/sallyport.pc")
        flags = self.run_in("pkg-config", "--cflags", "--libs", "sallyport", PKG_CONFIG_PATH=str(pc.parent)).split()
        snippets = {re.search(r"```cpp\n(.*?)```", (SOURCE / name).read_text(), re.S)[1]
                    for name in ("README.md", "docs/clients.md")}
        (snippet,) = snippets  # the same in both
        source, program = self.root / "snippet.cpp", self.root / "snippet"
        source.write_text('#include <cstdio>\n#include "client/client.h"\n' + snippet +
                          "int main(int, char** words) {\n  auto pong = ping(words[1]);\n"
                          '  std::printf("%s\\n", !pong ? pong.error().describe().c_str() : *pong ? "pong" : "no pong");\n}\n')
        self.run_in(CXX, "-std=c++20", *FLAGS, source, *flags, "-o", program)
        self.assertIn("no such socket", self.run_in(program, self.root / "nowhere.sock"))
        self.run_in(self.prefix / "bin/sallyport", "up")
        self.assertEqual(self.run_in(program, self.root / "run/warden.sock"), "pong\n")

    def test_no_installed_header_needs_boost_or_what_is_not_installed(self):
        for header in self.prefix.glob("include/sallyport/**/*.h"):
            text = header.read_text()
            self.assertNotIn("boost", text.lower(), header)
            ran = subprocess.run([CXX, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", self.prefix / "include/sallyport",
                                  "-include", header, "/dev/null"], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_manual_pages_and_completion_are_there(self):
        for name in ("share/man/man1/sallyport.1", "share/man/man1/sallyport-mcp.1", "share/man/man1/sallyport-signal.1",
                     "share/man/man5/sallyport.toml.5",
                     "share/man/man8/sallyportd.8", "share/bash-completion/completions/sallyport",
                     "share/zsh/site-functions/_sallyport", "share/fish/vendor_completions.d/sallyport.fish"):
            self.assertTrue((self.prefix / name).stat().st_size > 300, name)
        page = (self.prefix / "share/man/man1/sallyport-signal.1").read_text().replace("\\-", "-")
        (program,) = self.prefix.glob("**/sallyport-signal")
        options = re.findall(r"--[a-z]+", self.run_in(program, "--help"))
        self.assertIn("--wait", options)
        for option in options:
            self.assertIn(option, page)


if __name__ == "__main__":
    unittest.main()
