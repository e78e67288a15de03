import re
import subprocess

from trees import TOOLS, TreeTest

# Stands in for the command line: answers as the real one does, except to the call named by $BREAK.
FAKE = """#!/bin/sh
echo "$*" >>calls
case "$*" in "$BREAK"*) echo broken; exit 9 ;; esac
case "$*" in
  "call no.such.method") echo '{"code":"METHOD_NOT_FOUND"}' >&2; exit 1 ;;
  "call session.narrow "*) echo '{"code":"INVALID_PARAMS"}' >&2; exit 1 ;;
  "call test.ping") echo '{"pong":true}' ;;
  "run "*"cat "*) echo 'openat id_rsa: ENOENT'; exit 1 ;;
  "run "*"curl "*) echo 'allow it with --allow-net api.example.org:443'; exit 56 ;;
  "run "*) echo 'Read-only file system'; exit 2 ;;
  "call container.create "*) echo '{"container":"tour-1"}' ;;
  "--json approvals ls") echo '{"approvals":[{"id":"q1"}]}' ;;
  "approvals ls") echo schedule_task ;;
  "approvals show q1") echo 'tidy up' ;;
  "schedule ls") echo 'waiting 0 4 * * *' ;;
  "pod new "*) echo tour-pod ;;
  "pod ls") echo running ;;
  "pod log "*) echo 'I am still here' ;;
  "pod wait "*) exit 137 ;;
  "call fs.edit "*) echo '+there' ;;
  "call fs.grep "*) echo '"line":2' ;;
  "audit verify") echo intact ;;
esac
[ -n "$SALLYPORT_RUNTIME_DIR" ] && [ -n "$SALLYPORT_STATE_DIR" ] && [ -n "$SALLYPORT_CONFIG" ]
"""


class Tour(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("bin/sallyport", FAKE).chmod(0o755)
        (self.root / "tmp").mkdir()

    def play(self, broken="nothing"):
        return self.run_tool("tour", self.root / "bin", BREAK=broken, TMPDIR=str(self.root / "tmp"))

    def test_plays_to_its_end_and_leaves_nothing(self):
        played = self.play()
        self.assert_passes(played)
        shown = re.findall(r"^(\d+)/(\d+)  \S", played.stdout, re.M)
        self.assertEqual(shown, [(str(step), str(len(shown))) for step in range(1, len(shown) + 1)])
        self.assertGreater(len(shown), 8)
        self.assertEqual(list((self.root / "tmp").iterdir()), [])

    def test_fails_at_the_step_that_fails(self):
        for broken in ("up", "ping", "status", "call test.ping", "call no.such.method", "call session.narrow", "run ",
                       "call fs.edit", "call fs.grep", "call container.create", "container exec", "approvals", "pod ls",
                       "audit verify", "down"):
            with self.subTest(broken):
                self.assert_fails_saying(self.play(broken), "exit status 9")

    def test_fails_when_a_refusal_is_missing(self):
        self.write("bin/sallyport", FAKE.replace("exit 1 ;;", "exit 0 ;;"))
        self.assert_fails_saying(self.play(), "exit status 0 instead of 1")

    def test_fails_when_the_answer_is_another_one(self):
        self.write("bin/sallyport", FAKE.replace("pong", "ping"))
        self.assert_fails_saying(self.play(), "'pong' is not in the output")

    def test_stops_the_warden_when_a_step_fails(self):
        self.play("status")
        self.assertEqual((self.root / "calls").read_text().splitlines()[-1], "down")
        self.assertEqual(list((self.root / "tmp").iterdir()), [])

    def test_fails_without_programs(self):
        self.assert_fails_saying(self.run_tool("tour", self.root / "nowhere"), "is not there")

    def test_shows_words_so_that_a_shell_takes_them_as_they_are(self):
        self.write("a", "")
        words = ["[a]", "~", "a*", "it's", "--name=x", "", "{a,b}", "x^y"]
        script = f'eval "$(sed -n "/^quoted()/,/^}}/p" {TOOLS}/tour)"; eval "set -- $(quoted "$@")"; printf "%s\\n" "$@"'
        shown = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.root, text=True, capture_output=True)
        self.assertEqual(shown.stdout.splitlines(), words, shown.stderr)
