"""What the commands do with what is not as it should be: their output, their terminal, the warden, the directory."""
import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import time

from homes import SALLYPORT, Home


class Output(Home):
    def start(self, *words, **options):
        return subprocess.Popen([SALLYPORT, *words], cwd=self.project, env=self.environment, **options)

    def shown(self, *words, stream="stdout"):
        """All that a terminal gets as a command's output; one look may miss what was written last."""
        ours, theirs = pty.openpty()
        ran = self.start(*words, **{stream: theirs})
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while block := os.read(ours, 65536):
                shown += block
        os.close(ours)
        self.assertEqual(ran.wait(), 0)
        return shown

    def warden(self):
        return int(self.sallyport("status").stdout.split("pid ")[1].split(",")[0])

    def test_nothing_is_lost_on_a_pipe_that_somebody_made_non_blocking(self):
        name = self.sallyport("container", "create").stdout.strip()
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETFL, fcntl.fcntl(theirs, fcntl.F_GETFL) | os.O_NONBLOCK)
        ran = self.start("container", "exec", name, "--", "sh", "-c", "yes | head -c 1000000", stdout=theirs)
        os.close(theirs)
        time.sleep(0.5)  # it is full meanwhile
        with open(ours, "rb") as pipe:
            self.assertEqual(len(pipe.read()), 1_000_000)
        self.assertEqual(ran.wait(), 0)

    def test_a_terminal_gets_nothing_from_a_container_that_would_make_it_type(self):
        name = self.sallyport("container", "create").stdout.strip()
        said = r"a\033[6nb\033]52;c;?\007c\033[31md\033[m"
        self.assertEqual(self.shown("container", "exec", name, "--", "printf", said), b"abc\x1b[31md\x1b[m")

    def test_a_terminal_is_given_back_as_it_was(self):
        name = self.sallyport("container", "create").stdout.strip()
        # The other screen is left only if it is shown: some terminals would move the cursor.
        for said, ended, left in ((r"plain\033[31mred\033[m\n", False, False), (r"\033]0;a title without end", True, False),
                                  (r"\033[?1049h\033[?1000h\033]8;;http://a\033\\link", True, True),
                                  (r"\033[?1049h\033[?1049l", True, False)):
            for stream in ("stdout", "stderr"):
                with self.subTest(said, stream=stream):
                    words = ["printf", said] if stream == "stdout" else ["sh", "-c", f"printf '{said}' >&2"]
                    shown = self.shown("container", "exec", name, "--", *words, stream=stream)
                    for sequence in (b"\x18\x1b\\", b"\x1b]8;;\x1b\\", b"\x1b[?1000l"):
                        self.assertEqual(sequence in shown, ended, (sequence, shown))
                    self.assertEqual(b"\x1b[?47l" in shown, left, shown)

    def test_a_terminal_gets_no_control_within_json(self):
        # In UTF-8 U+009B is CSI and U+009D OSC to some terminals: a report of the title, and one of the clipboard.
        said = "\u009b21t\u009d52;c;?\u009c\u202egpj\u007f"
        name = self.sallyport("container", "create", "--", "printf", said).stdout.strip()
        for words in (("container", "inspect", name), ("--json", "container", "ls"),
                      ("call", "container.inspect", json.dumps({"container": name, "log": True}))):
            with self.subTest(words):
                self.sallyport("container", "stop", name)
                shown = self.shown(*words)
                self.assertTrue(shown.decode().strip().isprintable(), shown)
                self.assertIn(said, json.dumps(json.loads(shown), ensure_ascii=False))

    def test_output_that_cannot_be_written_is_no_success(self):
        self.sallyport("up")
        for words in ("--help", "--version", "audit tail", "policy show"):
            with self.subTest(words), open("/dev/full", "w") as full:
                ran = self.start(*words.split(), stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertIn("the output cannot be written: No space left on device", ran.communicate()[1])
                self.assertEqual(ran.returncode, 1)

    def test_names_on_a_terminal_are_shown_as_what_they_are(self):
        place = self.project / "red \x1b[31m"
        place.mkdir()
        for words in (("policy", "show", "--profile", "default", "--workspace", str(place)), (str(place),), ("--\x1b[31m",)):
            with self.subTest(words):
                ran = self.sallyport(*words)
                self.assertNotIn("\x1b", ran.stdout + ran.stderr)
                self.assertIn("\\u001b[31m", ran.stdout + ran.stderr)

    def test_a_pod_starts_where_its_maker_is_however_the_workspace_is_spelled(self):
        (self.project / "sub").mkdir()
        for spelled in ("..", "../", str(self.project)):
            with self.subTest(spelled):
                made = subprocess.run([SALLYPORT, "pod", "new", "--name", "p", "--workspace", spelled, "--", "sh", "-c",
                                       "pwd >place"], cwd=self.project / "sub", env=self.environment, capture_output=True)
                self.assertEqual(made.returncode, 0)
                self.sallyport("pod", "wait", "p")
                self.assertEqual((self.project / "sub/place").read_text(), f"{self.project}/sub\n")
                (self.project / "sub/place").unlink()

    def test_a_warden_that_was_killed_is_no_stranger(self):
        for _ in range(5):
            self.sallyport("up")
            os.kill(self.warden(), signal.SIGKILL)
            ran = self.sallyport("status")
            self.assertEqual(ran.returncode, 4, ran.stderr)

    def test_a_warden_that_hangs_is_not_waited_for_for_long(self):
        self.sallyport("up")
        warden = self.warden()
        os.kill(warden, signal.SIGSTOP)
        self.addCleanup(os.kill, warden, signal.SIGCONT)
        began = time.monotonic()
        ran = self.start("run", "--", "echo", "ran", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        shown = self.sallyport("status")
        self.assertEqual((shown.returncode, f"kill -9 {warden}" in shown.stderr), (1, True), shown.stderr)
        out, err = ran.communicate()
        self.assertEqual((out, ran.returncode), ("ran\n", 0), err)
        self.assertIn("the warden gives no door: no answer in time", err)
        self.assertLess(time.monotonic() - began, 20)

    def test_ssh_names_an_ipv6_address_without_brackets(self):
        ran = self.sallyport("run", "--allow-net", "example.org", "--", "/run/sallyport-connect", "2001:db8::1", "22")
        self.assertIn("allow it with --allow-net [2001:db8::1]:22", ran.stderr)
