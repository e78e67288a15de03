"""What a profile grants beside links and places that an earlier sandbox may have had its hands on."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SALLYPORT = os.path.join(os.environ["SALLYPORT_BIN"], "sallyport")


class Grants(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-grants-")).resolve()
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.project = self.home / "project"
        for name in ("project", ".ssh", ".config", ".npm", "dotfiles"):
            (self.home / name).mkdir()
        (self.home / ".ssh/id_rsa").write_text("KEY")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
                            "SALLYPORT_RUNTIME_DIR": str(self.home / "own/run"),
                            "SALLYPORT_STATE_DIR": str(self.home / "own/state")}

    def sallyport(self, *words, where=None, **environment):
        return subprocess.run([SALLYPORT, *words], cwd=where or self.project, env={**self.environment, **environment},
                              text=True, capture_output=True, timeout=100)

    def run_in(self, *options, command, where=None, **environment):
        return self.sallyport("run", "--no-warden", *options, "--", "sh", "-c", command, where=where, **environment)

    def assert_home_is_hidden(self, ran):
        self.assertNotIn("KEY", ran.stdout + ran.stderr)
        self.assertIn("behind a link that a sandbox may have made", ran.stderr)

    def test_a_link_that_another_profile_may_have_planted_is_not_followed(self):
        (self.home / ".npm/_cacache").symlink_to("..")
        ran = self.run_in("--profile", "build", command="cat ~/.ssh/id_rsa; echo PWNED > ~/.bashrc")
        self.assert_home_is_hidden(ran)
        self.assertFalse((self.home / ".bashrc").exists())

    def test_what_was_left_out_is_told_in_json_and_of_a_pod_too(self):
        link = self.home / ".npm/_cacache"
        link.symlink_to("..")
        ran = self.sallyport("--json", "run", "--no-warden", "--profile", "build", "--", "true")
        self.assertEqual(json.loads(ran.stderr)["left_out"], [{"path": str(link), "leads_to": str(self.home)}])
        self.addCleanup(self.sallyport, "down")
        ran = self.sallyport("pod", "new", "--profile", "build", "--name", "p", "--", "true")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.sallyport("pod", "wait", "p")
        for _ in range(100):
            found = self.sallyport("audit", "query", "--method", "container.finding").stdout
            if found:
                break
            time.sleep(0.1)
        self.assertIn(f"{link} is behind a link that a sandbox may have made", found)

    def test_nor_one_that_a_workspace_may_have_had_in_it(self):
        self.run_in(where=self.home / ".config", command="ln -s .. opencode")
        self.assertTrue((self.home / ".config/opencode").is_symlink())
        self.assert_home_is_hidden(self.run_in("--profile", "agent", command="cat ~/.ssh/id_rsa"))

    def test_a_link_of_the_home_itself_is_the_users_own(self):
        (self.home / "dotfiles/claude").mkdir()
        (self.home / "dotfiles/claude/state").write_text("mine")
        (self.home / ".claude").symlink_to("dotfiles/claude")
        ran = self.run_in("--profile", "agent", command="cat ~/.claude/state; echo new > ~/.claude/new")
        self.assertEqual(ran.stdout, "mine", ran.stderr)
        self.assertEqual((self.home / "dotfiles/claude/new").read_text(), "new\n")
        # But what lies behind it may have been a workspace.
        shutil.rmtree(self.home / "dotfiles/claude")
        (self.home / "dotfiles/claude").symlink_to("../.ssh")
        self.assert_home_is_hidden(self.run_in("--profile", "agent", command="cat ~/.claude/id_rsa ~/.ssh/id_rsa"))

    def test_whoever_names_a_link_at_the_command_line_means_where_it_leads(self):
        (self.home / "dotfiles/data").mkdir()
        (self.home / "dotfiles/data/x").write_text("seen")
        program = self.home / "dotfiles/data/tool"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
        link = self.home / ".config/data"
        link.symlink_to("../dotfiles/data")
        for name in (link, f"{link}/", "../.config/data"):
            ran = self.run_in("--read", str(name), command=f"cat {link}/x {self.home}/dotfiles/data/x")
            self.assertEqual((ran.stdout, ran.stderr), ("seenseen", ""), name)
        ran = self.run_in("--exec", str(link), command=f"{link}/tool; tool", PATH=f"{self.environment['PATH']}:{link}")
        self.assertEqual((ran.stdout, ran.stderr), ("ran\nran\n", ""))
        ran = self.run_in("--write", str(link), command=f"echo new > {link}/new")
        self.assertEqual((self.home / "dotfiles/data/new").read_text(), "new\n", ran.stderr)

    def test_what_else_fails_is_not_said_of_the_command(self):
        tools = self.home / "tools"
        tools.mkdir()
        tool = tools / "tool"
        tool.write_text("#!/no/interpreter\n")
        tool.chmod(0o755)
        ran = self.sallyport("run", "--no-warden", "--exec", str(tool), "--", str(tool))
        self.assertIn("the interpreter that it names is not", ran.stderr)
        ran = self.sallyport("run", "--no-warden", "--", str(tool))
        self.assertIn(f"allow it with --exec {tool};", ran.stderr)
        (self.project / "out").symlink_to(tools)
        ran = self.sallyport("run", "--no-warden", "--read", "out", "--", str(tool))
        self.assertIn("leads out of it", ran.stderr)
        self.assertNotIn("the host has it", ran.stderr)

    # What is advised opens no more than the program needs.
    def test_a_remedy_names_the_program_and_never_a_home(self):
        tool = self.home / "tool"
        shutil.copy("/usr/bin/id", tool)
        ran = self.sallyport("run", "--no-warden", "--", str(tool))
        self.assertIn(f"(allow it with --exec {tool};", ran.stderr)
        self.assertNotIn(f"--exec {self.home};", ran.stderr)
        self.environment["PATH"] = f"{self.home}:/usr/bin"
        ran = self.sallyport("run", "--no-warden", "--", "tool")
        self.assertIn(f"(allow it with --exec {tool}, and name it by its path;", ran.stderr)
        ran = self.sallyport("run", "--no-warden", "--", str(self.home))
        self.assertEqual(ran.returncode, 3)
        self.assertIn(f"may not be executed: {self.home}; it is a directory", ran.stderr)
        self.assertNotIn("--exec", ran.stderr)

    def test_what_path_does_not_lead_to_is_said_so(self):
        ran = self.sallyport("run", "--no-warden", "--env", "PATH=/nowhere", "--", "id")
        self.assertIn("command not found: id; it is /usr/bin/id, and PATH in the sandbox does not lead there", ran.stderr)

    def test_a_script_without_a_first_line_is_no_program(self):
        script = self.project / "script"
        script.write_text("echo hello\n")
        script.chmod(0o755)
        for words in (["run", "--no-warden"], ["container", "create"], ["pod", "new"]):
            ran = self.sallyport(*words, "--", "./script")
            self.assertIn("./script is no program for this machine, and has no #! line; try: sh ./script", ran.stderr)
            self.assertNotEqual(ran.returncode, 0)

    def test_idle_is_no_limit_of_what_runs_in_the_foreground(self):
        ran = self.sallyport("run", "--no-warden", "--limit", "idle=1s", "--", "true")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--limit idle is for containers and pods", ran.stderr)

    def test_all_of_a_profile_is_shown(self):
        profiles = self.home / ".config/sallyport/profiles"
        profiles.mkdir(parents=True)
        (profiles / "all.toml").write_text("""[profile.all]
fs = { read = ["/usr"], write = ["${workspace}"], refuse_hard_links = true }
exec = ["/usr/**"]
command = ["true"]
allow_weak = true
limits = { duration = "2h", idle = "30m" }
tenant = "container"
quotas = { storage_bytes = 1000 }
[profile.all.permissions.adapters]
llm = { models = ["small"], max_tokens = 77 }
""")
        said = self.sallyport("policy", "show", "--profile", "all").stdout
        for part in ("for 7200 s, idle for 1800 s", "no file with more than one name", "accepts Landlock and seccomp alone",
                     "command    true", "llm small, up to 16MiB and 77 tokens", "storage_bytes 1000", "each container by itself"):
            self.assertIn(part, said)
        shown = json.loads(self.sallyport("--json", "policy", "show", "--profile", "all").stdout)
        self.assertEqual((shown["tenant"], shown["quotas"], shown["allow_weak"]), ("container", {"storage_bytes": 1000}, True))
        self.assertEqual(shown["adapters"]["llm"]["max_tokens"], 77)

    def test_our_own_places_are_hidden_also_behind_a_link(self):
        self.run_in(command="true")
        secret = self.home / "own/state/audit.key"
        secret.write_text("SECRET")
        (self.home / "own/readable").write_text("seen")
        link = self.home / "link"
        link.symlink_to("own")
        for option in ("--read", "--write"):
            ran = self.run_in(option, str(link), command=f"cat {link}/readable {link}/state/audit.key {secret}; "
                              f"echo x > {secret}; ls {secret.parent} {link}/state")
            self.assertIn("seen", ran.stdout)
            self.assertNotIn("SECRET", ran.stdout)
            self.assertNotIn("audit.key\n", ran.stdout)
        self.assertEqual(secret.read_text(), "SECRET")

    def test_they_cannot_be_made_by_a_sandbox_before_us(self):
        ours = self.home / ".config/sallyport"
        ran = self.run_in(where=self.home / ".config", command="mkdir -p sallyport/profiles sallyport/net.lists; "
                          "echo evil.example.org:443 > sallyport/net.lists/npm; echo x > sallyport/platform.json; echo x > sallyport/sallyport.toml")
        self.assertNotEqual(ran.returncode, 0)
        self.assertEqual([each for each in ours.rglob("*") if each.is_file()], [])

    def test_a_directory_of_our_name_is_ours_only_where_it_is_by_default(self):
        checkout = self.home / "src/sallyport"
        checkout.mkdir(parents=True)
        (checkout / "my.toml").write_text("")
        ours = self.home / ".config/sallyport"
        ours.mkdir(mode=0o700)
        for where, works in ((checkout, True), (ours, False)):
            ran = self.run_in(where=where, command="echo ran; cat my.toml", SALLYPORT_CONFIG=str(checkout / "my.toml"))
            self.assertEqual("ran\n" in ran.stdout, works, ran.stderr)

    def test_a_link_to_them_is_not_left_to_a_sandbox(self):
        (self.home / "dotfiles/sallyport").mkdir(mode=0o700)
        ours = self.home / ".config/sallyport"
        for target in ("../dotfiles/sallyport", "nowhere"):
            ours.symlink_to(target)
            ran = self.run_in(where=self.home / ".config", command="rm sallyport; mkdir sallyport; echo ran")
            self.assertEqual(ran.stdout, "")
            self.assertIn(f"a link leads to Sallyport's own {ours}", ran.stderr)
            self.assertEqual(self.run_in(command="echo ran").stdout, "ran\n")
            ours.unlink()
        # One that is hidden itself is out of its reach.
        ours.mkdir(mode=0o700)
        (self.home / "dotfiles/sallyport.toml").write_text("")
        (ours / "sallyport.toml").symlink_to("../../dotfiles/sallyport.toml")
        self.assertEqual(self.run_in(where=self.home / ".config", command="echo ran").stdout, "ran\n")

    def test_who_only_looks_makes_nothing_and_who_cannot_make_them_does_not_launch(self):
        ours = self.home / ".config/sallyport"
        self.assertEqual(self.sallyport("policy", "show", where=self.home / ".config").returncode, 0)
        self.assertFalse(ours.exists())
        ours.write_text("no directory")
        ran = self.run_in(where=self.home / ".config", command="echo ran")
        self.assertEqual(ran.stdout, "")
        self.assertIn(str(ours), ran.stderr)

    def test_a_search_path_does_not_lead_into_the_workspace_by_another_spelling(self):
        binaries = self.project / "bin"
        binaries.mkdir()
        local = self.home / ".local/bin"
        local.mkdir(parents=True)
        (local / "w").symlink_to(binaries)
        ran = self.run_in("--profile", "agent", command='echo "$PATH"',
                          PATH=f"/usr/bin:/bin:/usr/..{binaries}:{local}/w:{local}")
        self.assertTrue(ran.stdout.rstrip().endswith(f":{local}"), ran.stdout)
        self.assertNotIn("project", ran.stdout)
        self.assertNotIn(f"{local}/w", ran.stdout)

    def test_a_search_path_that_is_longer_than_a_pod_takes_is_cut_between_its_places(self):
        local = self.home / ".local/bin"
        local.mkdir(parents=True)
        far = [f"/nix/store/{each:064}/bin" for each in range(200)]
        self.addCleanup(self.sallyport, "down")
        ran = self.sallyport("pod", "new", "--profile", "agent", "--name", "p", "--", "sh", "-c", 'echo "$PATH" > path',
                             PATH=":".join([self.environment["PATH"], str(local), *far]))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.sallyport("pod", "wait", "p")
        self.assertIn(f":{local}:", (self.project / "path").read_text())

    def test_credentials_of_tools_that_an_agent_may_read_are_not_among_it(self):
        for granted, name in ((".config/git", "credentials"), (".local/share/uv", "credentials/credentials.toml"),
                              (".npm-global", "etc/npmrc"), (".nvm", "versions/node/v22.0.0/etc/npmrc"),
                              (".asdf", "installs/nodejs/22.0.0/etc/npmrc")):
            path, beside = self.home / granted / name, self.home / granted / "readable"
            path.parent.mkdir(parents=True)
            path.write_text("KEY")
            beside.write_text("seen")
            ran = self.run_in("--profile", "agent", command=f"cat {beside} {path}")
            self.assertEqual(ran.stdout, "seen", ran.stderr)

    # A sandbox that can write the run-time directory's place is there before the warden.
    def test_a_warden_in_a_sandbox_is_none(self):
        self.environment["SALLYPORT_RUNTIME_DIR"] = str(self.home / "elsewhere")
        (self.home / "elsewhere").mkdir(mode=0o700)
        server = subprocess.Popen(["unshare", "--user", "--map-root-user", "--pid", "--fork", "python3", "-c", """
import os, socket
listener = socket.socket(socket.AF_UNIX)
os.umask(0o077)
listener.bind("warden.sock")
listener.listen()
print("up", flush=True)
connection, _ = listener.accept()
print(connection.recv(100), flush=True)
"""], cwd=self.home / "elsewhere", stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "up\n")
        ran = self.sallyport("ping")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("is no warden of this host", ran.stderr)
        self.assertEqual(server.stdout.readline(), "b''\n")


if __name__ == "__main__":
    unittest.main()
