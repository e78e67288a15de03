from trees import TreeTest

PASSED = '<testcase name="p" status="run"/>'
FAILED = '<testcase name="f" status="fail"><failure message=""/></testcase>'
SKIPPED = '<testcase name="s" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
NOT_STARTED = '<testcase name="n" status="notrun"><skipped message="Unable to find executable"/></testcase>'
DISABLED = '<testcase name="d" status="disabled"/>'


class CountTests(TreeTest):
    def count(self, *cases, status=0, must_work="0"):
        self.write("results.xml", "<testsuite>" + "".join(cases) + "</testsuite>")
        return self.run_tool("count_tests", "results.xml", status, SALLYPORT_MUST_WORK=must_work)

    def last_line(self, done):
        return done.stdout.splitlines()[-1]

    def test_counts_what_passed(self):
        done = self.count(PASSED, PASSED)
        self.assert_passes(done)
        self.assertEqual(done.stdout, "2 passed, 0 failed\n")

    def test_fails_on_a_failure_even_if_ctest_does_not(self):
        done = self.count(PASSED, FAILED)
        self.assert_fails_saying(done, "failed: f")
        self.assertEqual(self.last_line(done), "1 passed, 1 failed")

    def test_reports_skips_and_passes(self):
        done = self.count(PASSED, SKIPPED, DISABLED)
        self.assert_passes(done)
        self.assertEqual(self.last_line(done), "1 passed, 0 failed, 2 skipped")

    def test_fails_on_a_skip_when_everything_must_work(self):
        done = self.count(PASSED, SKIPPED, must_work="1")
        self.assert_fails_saying(done, "skipped: s")
        self.assertEqual(self.last_line(done), "1 passed, 0 failed, 1 skipped")

    def test_counts_a_test_that_could_not_start_as_failed(self):
        done = self.count(PASSED, NOT_STARTED)
        self.assert_fails_saying(done, "failed: n")
        self.assertEqual(self.last_line(done), "1 passed, 1 failed")

    def test_fails_when_no_test_ran(self):
        done = self.count()
        self.assert_fails_saying(done, "no test ran")
        self.assertEqual(self.last_line(done), "0 passed, 0 failed")

    def test_fails_when_only_skipped_tests_were_found(self):
        self.assert_fails_saying(self.count(SKIPPED), "no test ran")

    def test_fails_when_ctest_fails_without_saying_why(self):
        self.assert_fails_saying(self.count(PASSED, status=8), "ctest failed with status 8")

    def test_fails_without_results(self):
        done = self.run_tool("count_tests", "missing.xml", 0)
        self.assert_fails_saying(done, "no test results")
        self.assertEqual(self.last_line(done), "0 passed, 0 failed")
