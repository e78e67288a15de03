from trees import TreeTest


class CheckPaths(TreeTest):
    def setUp(self):
        super().setUp()
        self.git_init()
        self.write("README.md", "clone it into /home/user/project, build it, see example.org\n")

    def check(self):
        return self.run_tool("check_paths", self.root)

    def test_accepts_made_up_places(self):
        self.assert_passes(self.check())

    def test_refuses_the_path_of_this_checkout(self):
        self.write("notes.md", f"one\nit lies in {self.root.resolve()}/src\n")
        self.assert_fails_saying(self.check(), "notes.md:2: names a path of this machine")

    def test_refuses_the_home_of_a_person(self):
        self.write("a.cpp", 'auto path = "/home/' + 'jane/x";\n')
        self.assert_fails_saying(self.check(), "a.cpp:1: names someone's home")

    def test_refuses_the_host_of_a_registry(self):
        self.write("install.sh", "fetch https://registry." + "npmjs" + ".org/x\n")
        self.assert_fails_saying(self.check(), "install.sh:1: names a package registry")

    def test_ignores_what_git_ignores(self):
        self.write(".gitignore", "/build/\n")
        self.write("build/log", f"{self.root.resolve()}\n")
        self.assert_passes(self.check())
