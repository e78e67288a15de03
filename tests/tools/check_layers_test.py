from trees import TreeTest


class CheckLayers(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("tools/layers.txt", "# comment\nbase:\nos: base\nwire: base\n")
        self.write("src/base/base.h", "#pragma once\n#include <string>\n")
        self.write("src/os/os.h", '#include "base/base.h"\n#include "os/other.h"\n')

    def check(self):
        return self.run_tool("check_layers", self.root)

    def test_accepts_what_the_lines_allow(self):
        self.assert_passes(self.check())

    def test_refuses_an_include_of_a_module_that_is_not_named(self):
        self.write("src/wire/deep/frame.cpp", '// one\n#  include "os/os.h"\n')
        self.assert_fails_saying(self.check(), "src/wire/deep/frame.cpp:2: 'wire' may not include 'os'")

    def test_refuses_an_upward_include(self):
        self.write("src/base/base.h", '#include "os/os.h"\n')
        self.assert_fails_saying(self.check(), "src/base/base.h:1: 'base' may not include 'os' (it may include: nothing)")

    def test_refuses_an_include_without_its_module(self):
        self.write("src/os/os.cpp", '#include "os.h"\n')
        self.assert_fails_saying(self.check(), 'src/os/os.cpp:1: "os.h"')

    def test_refuses_a_module_without_a_line(self):
        self.write("src/extra/extra.h", "")
        self.assert_fails_saying(self.check(), "module 'extra' has no line")

    def test_refuses_a_line_that_names_one_below_it(self):
        self.write("tools/layers.txt", "base:\nos: base wire\nwire: base\n")
        self.assert_fails_saying(self.check(), "layers.txt:2: 'os' names 'wire', which is no line above it")

    def test_refuses_a_module_that_names_itself(self):
        self.write("tools/layers.txt", "base:\nos: base os\n")
        self.assert_fails_saying(self.check(), "'os' names 'os'")

    def test_refuses_a_second_line_for_a_module(self):
        self.write("tools/layers.txt", "base:\nos: base\nos:\n")
        self.assert_fails_saying(self.check(), "layers.txt:3: module 'os' has a line already")

    def test_refuses_a_tree_without_sources(self):
        (self.root / "src/base/base.h").unlink()
        (self.root / "src/os/os.h").unlink()
        self.assert_fails_saying(self.check(), "no source files")
