"""Help that fits a screen, suggestions, and completion in the three shells."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BIN = os.environ["SALLYPORT_BIN"]
SALLYPORT = BIN + "/sallyport"


def run(*words, **options):
    return subprocess.run(words, text=True, capture_output=True, **options)


def script(shell):
    return run(SALLYPORT, "completion", shell, check=True).stdout


# Every command, as the program itself lists them in its help.
def commands(path=()):
    page = run(SALLYPORT, *path, "--help", check=True).stdout
    yield path, page
    if page.splitlines()[1].endswith(" COMMAND"):
        for name in re.findall(r"^  ([a-z]+)  ", page, re.M):
            yield from commands((*path, name))


class Help(unittest.TestCase):
    def test_of_every_command_fits_a_screen(self):
        pages = dict(commands())
        self.assertIn(("container", "create"), pages)
        self.assertIn(("mcp",), pages)
        for path, page in pages.items():
            with self.subTest(" ".join(path)):
                self.assertLessEqual(len(page.splitlines()), 24)
                self.assertLessEqual(max(map(len, page.splitlines())), 80)

    # A script's variable that was not set: what it was to say does not pass for not said.
    def test_an_empty_word_is_no_value(self):
        for words, name in [(["approvals", "approve", "--sha256", "", "x"], "--sha256"), (["audit", "verify", "--against="], "--against"),
                            (["pod", "stop", "--grace", "", "x"], "--grace"), (["run", "--workspace", "", "--", "true"], "--workspace"),
                            (["policy", "explain", "--container", "", "fs.read"], "--container"), (["policy", "explain", ""], "METHOD"),
                            (["mailbox", "status", ""], "CONTAINER"), (["container", "exec", "", "--", "true"], "CONTAINER")]:
            ran = run(SALLYPORT, *words)
            self.assertEqual(ran.returncode, 2, words)
            self.assertIn(f"{name} is given an empty text\n", ran.stderr)
        for words in ["run", "container create", "pod new", "container exec x"]:
            ran = run(SALLYPORT, *words.split(), "--", "")
            self.assertEqual((ran.returncode, ran.stderr), (2, "sallyport: the command is empty\n"))
        ran = run(SALLYPORT, "run", "--no-warden", "--", "printf", "<%s>", "")
        self.assertEqual((ran.returncode, ran.stdout), (0, "<>"), ran.stderr)

    def test_an_unknown_command_suggests_the_nearest_at_every_depth(self):
        for words, wanted in [(["staus"], "sallyport status"), (["container", "craete"], "sallyport container create"),
                              (["audit", "verfy"], "sallyport audit verify")]:
            ran = run(SALLYPORT, *words)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(f"Did you mean: {wanted}\n", ran.stderr)
        for word in ("quite-another-thing", "ps", "xy", "zzz"):
            self.assertNotIn("Did you mean", run(SALLYPORT, word).stderr)

    def test_a_short_word_suggests_only_what_is_like_it(self):
        for word, wanted in [("mpc", "sallyport mcp"), ("pu", "sallyport up"), ("upp", "sallyport up"), ("dwon", "sallyport down"),
                             ("appro", "sallyport approvals"), ("exec", "sallyport container exec"),
                             ("kill", "sallyport pod kill"),
                             ("ls", "sallyport container ls or sallyport pod ls or sallyport schedule ls or sallyport group ls "
                                    "or sallyport approvals ls")]:
            self.assertEqual(re.findall("^Did you mean: (.*)$", run(SALLYPORT, word).stderr, re.M), [wanted], word)

    def test_can_be_asked_for_as_a_command(self):
        for path, page in commands():
            self.assertEqual(run(SALLYPORT, "help", *path, check=True).stdout, page)
        ran = run(SALLYPORT, "help", "container", "craete")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("Did you mean: sallyport container create\n", ran.stderr)

    def test_the_version_as_text_and_as_json(self):
        text = run(SALLYPORT, "--version", check=True).stdout
        self.assertRegex(text, r"^sallyport \d+\.\d+\.\d+\n$")
        self.assertEqual(run(SALLYPORT, "version", check=True).stdout, text)
        for words in (["--json", "--version"], ["--version", "--json"], ["version", "--json"], ["--json", "version"]):
            got = json.loads(run(SALLYPORT, *words, check=True).stdout)
            self.assertEqual(got, {"version": text.split()[1]}, words)

    def test_colours_are_for_terminals_that_have_them(self):
        for settings, has_colour in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                     ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            ours, theirs = os.openpty()
            subprocess.run([SALLYPORT, "policy", "show"], stdout=theirs, check=True,
                           env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **settings})
            os.close(theirs)
            shown = b""
            while True:
                try:
                    piece = os.read(ours, 4096)
                except OSError:  # the other end is closed, and all is read
                    break
                shown += piece
            os.close(ours)
            self.assertIn(b"default", shown)
            self.assertEqual(b"\x1b[" in shown, has_colour, settings)
        self.assertNotIn("\x1b", run(SALLYPORT, "policy", "show", check=True).stdout)

    def test_an_unknown_option_is_named_and_suggests_the_nearest(self):
        for words, option, wanted in [(["--nosuch"], "--nosuch", None), (["--jsn"], "--jsn", "sallyport --json"),
                                      (["run", "--allow-ne", "x", "--", "true"], "--allow-ne", "sallyport run --allow-net"),
                                      (["run", "--work=.", "--", "true"], "--work", "sallyport run --workspace"),
                                      (["container", "create", "--name", "run", "--restrt"], "--restrt",
                                       "sallyport container create --restart"),
                                      (["audit", "tail", "-n5", "-x"], "-x", None)]:
            with self.subTest(words):
                ran = run(SALLYPORT, *words)
                self.assertEqual(ran.returncode, 2)
                self.assertTrue(ran.stderr.startswith(f"sallyport: unknown option: {option}\n"), ran.stderr)
                self.assertEqual(re.findall("^Did you mean: (.*)$", ran.stderr, re.M), [wanted] if wanted else [])

    def test_an_option_where_a_command_belongs_is_not_taken_for_one(self):
        ran = run(SALLYPORT, "container", "exec", "x", "--json", "--", "true")
        self.assertEqual((ran.returncode, ran.stderr),
                         (2, "sallyport: options stand before the container's id, not behind it: --json\n"))

    def test_a_command_that_is_missing_is_asked_for_with_the_choice(self):
        self.assertIn("which command? One of: run container", run(SALLYPORT).stderr)
        ran = run(SALLYPORT, "schedule")
        self.assertEqual((ran.returncode, ran.stderr),
                         (2, "sallyport: which command? One of: ls rm\nSee: sallyport schedule --help\n"))

    def test_who_names_what_is_not_there_hears_where_to_look(self):
        with tempfile.TemporaryDirectory(prefix="sallyport-help-") as home:
            environment = {"PATH": os.environ["PATH"], "HOME": home, "SALLYPORT_RUNTIME_DIR": home + "/run",
                           "SALLYPORT_STATE_DIR": home + "/state", "SALLYPORT_CONFIG": home + "/sallyport.toml"}
            self.addCleanup(run, SALLYPORT, "down", env=environment)
            for words, wanted in [("container stop x", "sallyport container ls"), ("container exec x -- true", "sallyport container ls"),
                                  ("pod stop x", "sallyport pod ls"), ("schedule rm x", "sallyport schedule ls"),
                                  ("group inspect x", "sallyport group ls"), ("approvals show x", "sallyport approvals ls"),
                                  ("mailbox resolve a b done", "sallyport mailbox status"),
                                  ("container create --group x", "sallyport group ls"),
                                  ("container create --profile x", "sallyport policy show")]:
                ran = run(SALLYPORT, *words.split(), env=environment, cwd=home)
                self.assertEqual(ran.returncode, 2 if " --" in words.replace(" -- ", " ") else 1, words)
                self.assertTrue(ran.stderr.endswith(f"; see: {wanted}\n"), words + ": " + ran.stderr)
            run(SALLYPORT, "down", env=environment)

    def test_faults_are_told_with_their_reason(self):
        for words, status, wanted in [("policy check /nowhere", 1, "cannot read /nowhere: No such file or directory"),
                                      ("policy check /", 1, "cannot read /: "),
                                      ("run --read /nowhere -- true", 2, "cannot allow /nowhere: No such file or directory"),
                                      ("run --write nowhere/x -- true", 2, "cannot allow nowhere/x: No such file or directory"),
                                      ("run --env =x -- true", 2, "--env takes NAME=VALUE, or NAME to pass it on; '=x' has no name"),
                                      ("pod new --env =x -- true", 2, "'=x' has no name"),
                                      ("pod kill --signal FOO x", 2, "no such signal: FOO"),
                                      ("policy explain fs.read {", 2, "the payload must be a JSON object"),
                                      ("audit verify --against /etc/passwd", 1, "/etc/passwd is not what `sallyport audit checkpoint` wrote"),
                                      ("audit query --limit -1", 2, "--limit: Value -1 not in range 1 to 1000000000\n"),
                                      ("pod stop x --grace 1s", 2, "--grace: takes seconds, from 0 to 600, not '1s'\n"),
                                      ("pod stop x --grace nan", 2, "--grace: takes seconds, from 0 to 600, not 'nan'\n"),
                                      ("audit tail -n -1", 2, "--lines: Value -1 not in range 0 to 1000000000\n")]:
            ran = run(SALLYPORT, *words.split())
            self.assertEqual(ran.returncode, status, words + ran.stderr)
            self.assertIn(wanted, ran.stderr)
            self.assertNotIn("basic_filebuf", ran.stderr)

    def test_says_of_every_word_what_it_is(self):
        for path, page in commands():
            with self.subTest(" ".join(path)):
                self.assertNotRegex(page, r"\b(TEXT|U?INT|FLOAT)\b")
                for line in page.splitlines()[3:]:
                    self.assertRegex(line, r"^ +\S+.*  \S|^ {4}|^Options: ")

    def test_a_fault_of_usage_is_json_where_that_is_asked_for(self):
        for words in (["--json", "audit", "verfy"], ["audit", "--json", "verfy"], ["audit", "verify", "--no-such", "--json"]):
            ran = run(SALLYPORT, *words)
            self.assertEqual(ran.returncode, 2)
            self.assertEqual(json.loads(ran.stderr)["code"], "INVALID_REQUEST")
        self.assertIn("\nSee: ", run(SALLYPORT, "audit", "verfy", "--", "--json").stderr)


@unittest.skipIf(not all(map(shutil.which, ("bash", "zsh", "fish"))), "a shell is missing")
class Completion(unittest.TestCase):
    CASES = [
        (["con"], {"container"}),
        (["container", ""], {"create", "ls", "inspect", "exec", "stop", "rm"}),
        (["run", "--work"], {"--workspace"}),
        (["--json", "audit", "ver"], {"verify"}),
        (["mcp", "--read"], {"--read-only"}),
    ]

    def test_in_bash(self):
        for words, wanted in self.CASES:
            line = script("bash") + (f"COMP_WORDS=(sallyport {' '.join(map(repr, words))}); COMP_CWORD={len(words)}; "
                                     "_sallyport; printf '%s\\n' \"${COMPREPLY[@]}\"")
            got = set(run("bash", "-c", line, check=True).stdout.split())
            self.assertLessEqual(wanted, got, words)
            self.assertTrue(all(word.startswith(words[-1]) for word in got), got)

    def test_in_bash_files_and_commands_where_they_belong(self):
        with tempfile.TemporaryDirectory() as directory:
            open(f"{directory}/a-file", "w").close()
            for words, wanted in [(["run", "--workspace", "a-"], "a-file"), (["run", "--", "bas"], "bash")]:
                line = script("bash") + (f"COMP_WORDS=(sallyport {' '.join(words)}); COMP_CWORD={len(words)}; "
                                         "_sallyport; printf '%s\\n' \"${COMPREPLY[@]}\"")
                self.assertIn(wanted, run("bash", "-c", line, check=True, cwd=directory).stdout.split())

    def test_in_zsh(self):
        for words, wanted in self.CASES:
            line = ("compdef() { }; _describe() { print -l -- \"${(@)entries%%:*}\" }\n" + script("zsh") +
                    f"words=(sallyport {' '.join(map(repr, words))}); CURRENT={len(words) + 1}; _sallyport")
            ran = run("zsh", "-f", "-c", line)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertLessEqual(wanted, set(ran.stdout.split()), words)

    def test_in_a_real_zsh(self):
        """As installed: found by its name in fpath, with zsh's own completion functions, keys pressed."""
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "_sallyport").write_text(script("zsh"))
            for keys, wanted in [("sallyport con\t", ["sallyport container "]), ("sallyport run --work\t", ["sallyport run --workspace "]),
                                 ("sallyport container \t", ["inspect", "Show all that is known of one", "create"])]:
                with self.subTest(keys):
                    self.assertEqual(self.press(directory, keys, wanted), [])

    def press(self, directory, keys, wanted):
        """Which of the wanted words an interactive zsh does not show."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": BIN + ":" + os.environ["PATH"], "HOME": directory, "TERM": "xterm",
                                                    "PROMPT": "", "COLUMNS": "200", "LINES": "50"})
        try:
            def read_until(is_there):
                raw, shown = "", ""
                until = time.monotonic() + 60
                while not is_there(shown) and time.monotonic() < until:
                    if select.select([terminal], [], [], 1)[0]:
                        raw += os.read(terminal, 65536).decode(errors="replace")
                        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|\x08", "", raw)
                return shown

            os.write(terminal, f"PROMPT=; stty -echo; fpath=({directory} $fpath); autoload -Uz compinit; compinit -u -D; "
                               "print rea''dy\n".encode())
            read_until(lambda shown: "ready" in shown)
            os.write(terminal, keys.encode())
            shown = read_until(lambda shown: all(word in shown for word in wanted))
            return [word for word in wanted if word not in shown]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    def test_in_fish(self):
        with tempfile.TemporaryDirectory() as home:
            for words, wanted in self.CASES:
                line = script("fish") + f"complete -C 'sallyport {' '.join(words)}'"
                ran = run("fish", "--no-config", "-c", line, env={**os.environ, "HOME": home})
                got = {entry.split("\t")[0] for entry in ran.stdout.splitlines()}
                self.assertLessEqual(wanted, got, (words, ran.stderr))

    def test_of_names_that_are_there(self):
        with tempfile.TemporaryDirectory(prefix="sallyport-names-") as home:
            environment = {"PATH": BIN + ":" + os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8",
                           "SALLYPORT_RUNTIME_DIR": home + "/run", "SALLYPORT_STATE_DIR": home + "/state",
                           "SALLYPORT_CONFIG": home + "/sallyport.toml"}
            os.mkdir(home + "/profiles")
            pathlib.Path(home, "profiles/mine.toml").write_text("[profile.mine]\n")
            os.mkdir(home + "/project")

            def ask(*words, status=0):
                ran = run(SALLYPORT, *words, env=environment, cwd=home + "/project")
                self.assertEqual((ran.returncode, ran.stderr), (status, ""), words)
                return ran.stdout.split()

            self.addCleanup(run, SALLYPORT, "down", env=environment)
            self.assertEqual(ask("names", "containers"), [])
            self.assertFalse(os.path.exists(home + "/run/warden.sock"), "nobody asked for a warden")
            (container,) = ask("container", "create")
            ask("pod", "new", "--name", "tidy", "--", "sleep", "600")
            for words, wanted in [(["run", "--profile", "mi"], "mine"), (["container", "stop", container[:4]], container),
                                  (["policy", "explain", "--container", container[:4]], container),
                                  (["pod", "attach", "ti"], "tidy")]:
                lines = {
                    "bash": f"COMP_WORDS=(sallyport {' '.join(words)}); COMP_CWORD={len(words)}; _sallyport; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\"",
                    "zsh": f"words=(sallyport {' '.join(words)}); CURRENT={len(words) + 1}; _sallyport",
                    "fish": f"complete -C 'sallyport {' '.join(words)}'"}
                for shell, line in lines.items():
                    start = "compdef() { }; _describe() { print -l -- \"${(@)entries%%:*}\" }\n" if shell == "zsh" else ""
                    ran = run(shell, *(["--no-config"] if shell == "fish" else []), "-c", start + script(shell) + line, env=environment)
                    self.assertIn(wanted, [entry.split("\t")[0] for entry in ran.stdout.splitlines()], (shell, words, ran.stderr))
            ask("pod", "kill", "tidy")
            run(SALLYPORT, "pod", "wait", "tidy", env=environment)
            run(SALLYPORT, "down", env=environment)


if __name__ == "__main__":
    unittest.main()
