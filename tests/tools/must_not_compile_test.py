import os

from trees import TreeTest


class MustNotCompile(TreeTest):
    def check(self, text, compiler=None):
        path = self.write("file.cpp", text)
        return self.run_tool("must_not_compile", path, compiler or os.environ.get("SALLYPORT_TEST_CXX", "c++"), "-std=c++20")

    def test_passes_when_the_by_pass_is_refused(self):
        self.assert_passes(self.check("struct P {\nprivate: P();\n};\n#ifdef BYPASS\nP p;\n#endif\n"))

    def test_fails_when_the_by_pass_compiles(self):
        self.assert_fails_saying(self.check("struct P {};\n#ifdef BYPASS\nP p;\n#endif\n"), "the by-pass compiles")

    def test_fails_when_the_file_is_broken_anyway(self):
        self.assert_fails_saying(self.check("struct P {;\n#ifdef BYPASS\nP p;\n#endif\n"), "does not even compile")

    def test_fails_when_there_is_no_by_pass(self):
        self.assert_fails_saying(self.check("struct P {};\n"), "has no '#ifdef BYPASS'")

    def test_fails_when_there_is_no_compiler(self):
        self.assert_fails_saying(self.check("#ifdef BYPASS\n?\n#endif\n", "/nonexistent/c++"), "does not even compile")
