from trees import TreeTest


class CheckLinks(TreeTest):
    def setUp(self):
        super().setUp()
        self.git_init()
        self.write("docs/target.md", "# Title\n## The `door` & its key\n```\n# no heading\n```\n")

    def check(self):
        return self.run_tool("check_links", self.root)

    def test_follows_files_headings_and_ignores_code_and_the_network(self):
        self.write("README.md", "[a](docs/target.md) [b](docs/target.md#the-door--its-key) [c](https://example.org/x)\n"
                                "`[d](nowhere.md)`\n```\n[e](nowhere.md)\n```\n[f](#here)\n# Here\n")
        self.assert_passes(self.check())

    def test_refuses_a_link_to_a_missing_file(self):
        self.write("docs/page.md", "one\n\n[a](missing.md)\n")
        self.assert_fails_saying(self.check(), "docs/page.md:3: missing.md: there is no such file")

    def test_refuses_a_link_to_a_missing_heading(self):
        self.write("docs/page.md", "[a](target.md#no-heading)\n")
        self.assert_fails_saying(self.check(), "docs/page.md:1: target.md#no-heading: there is no such heading")

    def test_refuses_a_missing_reference_target(self):
        self.write("docs/page.md", "[a][b]\n\n[b]: missing.md\n")
        self.assert_fails_saying(self.check(), "docs/page.md:3: missing.md")
