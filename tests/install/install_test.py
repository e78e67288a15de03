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

    def build(self, example):
        """With find_package(Sallyport)."""
        source, build = self.prefix / "share/doc/sallyport/examples" / example, self.root / example
        self.run_in("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                    f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}")
        self.run_in("cmake", "--build", build)
        return build

    def package_flags(self):
        (pc,) = self.prefix.glob("**/sallyport.pc")
        return self.run_in("pkg-config", "--cflags", "--libs", "sallyport", PKG_CONFIG_PATH=str(pc.parent)).split()

    def test_the_example_builds_with_find_package_and_with_pkg_config(self):
        self.run_in(self.prefix / "bin/sallyport", "up")
        source = self.prefix / "share/doc/sallyport/examples/cpp-client/main.cpp"
        self.run_in(CXX, "-std=c++20", *FLAGS, source, *self.package_flags(), "-o", self.root / "by_pkg_config")
        for program in (self.build("cpp-client") / "cpp_client", self.root / "by_pkg_config"):
            self.assertEqual(self.run_in(program, self.root / "run/warden.sock"), "hello from inside\nexit code 0\n")

    def test_a_plugin_builds_against_what_is_installed(self):
        program = self.build("plugin-with-memory") / "plugin-with-memory"
        self.run_in(self.prefix / "bin/sallyport", "up")
        ran = subprocess.run([program, "hello"], env={**self.environment, "SALLYPORT_DOOR": str(self.root / "none")},
                             text=True, capture_output=True)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn(str(self.root / "none"), ran.stdout + ran.stderr)

    def test_installed_headers_stand_alone_and_keep_to_their_own_names(self):
        headers = list(self.prefix.glob("include/sallyport/**/*.h"))
        self.assertGreater(len(headers), 20)
        for header in headers:
            self.assertNotIn("boost", header.read_text().lower(), header)
        # Whoever includes them may have a TRY and a base/ of their own.
        mine = self.root / "mine"
        (mine / "base").mkdir(parents=True)
        (mine / "base/result.h").write_text("#error not yours\n")
        (mine / "mine.cpp").write_text("#define TRY(x) x\n#define CO_TRY(x) x\n" +
                                       "".join(f"#include <{header.relative_to(self.prefix / 'include')}>\n"
                                               for header in headers) + "int main() { return TRY(0); }\n")
        for words in [[mine / "mine.cpp"]] + [["-include", header, "/dev/null"] for header in headers]:
            self.run_in(CXX, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I", mine, "-I",
                        self.prefix / "include", *words)

    def test_the_snippet_of_the_documents_works_and_says_why_it_cannot(self):
        snippets = {re.search(r"```cpp\n(.*?)```", (SOURCE / name).read_text(), re.S)[1]
                    for name in ("README.md", "docs/clients.md")}
        (snippet,) = snippets  # the same in both
        source, program = self.root / "snippet.cpp", self.root / "snippet"
        source.write_text('#include <cstdio>\n#include <sallyport/client/client.h>\n' + snippet +
                          "int main(int, char** words) {\n  auto pong = ping(words[1]);\n"
                          '  std::printf("%s\\n", !pong ? pong.error().describe().c_str() : *pong ? "pong" : "no pong");\n}\n')
        self.run_in(CXX, "-std=c++20", *FLAGS, source, *self.package_flags(), "-o", program)
        self.assertIn("no such socket", self.run_in(program, self.root / "nowhere.sock"))
        self.run_in(self.prefix / "bin/sallyport", "up")
        self.assertEqual(self.run_in(program, self.root / "run/warden.sock"), "pong\n")

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
