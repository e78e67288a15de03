"""sallyport doctor: what is wrong with this user's own place, and what to do about it."""
import ctypes
import json
import resource
import subprocess
import unittest

from homes import SALLYPORT, Home


class Doctor(Home):
    def doctor(self, prepare=None, before=()):
        """`prepare` runs in its process, `before` are the words of a program that starts it."""
        ran = subprocess.run([*before, SALLYPORT, "doctor", "--json"], env=self.environment, cwd="/", text=True,
                             capture_output=True, preexec_fn=prepare)
        self.assertTrue(ran.stdout, ran.stderr)
        return ran.returncode, {check["name"]: check for check in json.loads(ran.stdout)["checks"]}

    def assert_bad(self, name, found, advice, **options):
        status, checks = self.doctor(**options)
        self.assertEqual((status, checks[name]["health"]), (1, "bad"), checks[name])
        self.assertIn(found, checks[name]["found"])
        self.assertIn(advice, checks[name]["advice"])

    def test_a_place_in_order_is_good(self):
        _, checks = self.doctor()
        for name in ("runtime directory", "state directory", "configuration"):
            self.assertEqual((checks[name]["health"], checks[name]["advice"]), ("good", ""), checks[name])

    def test_every_row_says_what_it_means_and_how_to_mend_it(self):
        _, checks = self.doctor()
        self.assertEqual(list(checks), ["kernel", "peer identity", "user namespaces", "landlock", "seccomp", "cgroups",
                                        "open files", "processes", "file notices", "runtime directory", "state directory",
                                        "configuration", "warden"])
        for check in checks.values():
            self.assertGreater(len(check["meaning"]), 20, check)
            self.assertEqual(check["advice"] == "", check["health"] == "good", check)
        shown = subprocess.run([SALLYPORT, "doctor"], env=self.environment, cwd="/", text=True, capture_output=True).stdout
        for check in checks.values():
            self.assertIn("      " + check["meaning"] + "\n", shown)
        self.assertIn("      to mend it: start it with: sallyport up\n", shown)
        self.assertLessEqual(max(map(len, (check["meaning"] for check in checks.values()))), 100)

    def test_a_kernel_that_is_too_old(self):
        # A kernel that says it is one of 2.6, as it does for programs that know no other.
        def pretend():
            assert ctypes.CDLL(None).personality(0x0020000) >= 0

        self.assert_bad("kernel", "Linux 2.6.", "install a kernel of Linux 6.5 or newer", prepare=pretend)

    def test_user_namespaces_that_are_forbidden(self):
        # In one of its own, where its limits may be set, and what it reads of the machine's settings is made up.
        forbid = "echo 0 > /proc/sys/user/max_user_namespaces; "
        pretend = ("mount -t tmpfs none /proc/sys/kernel && echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns; "
                   "echo 0 > /proc/sys/kernel/unprivileged_userns_clone; ")
        for script, advice in ((forbid, ["user.max_user_namespaces=15000"]),
                               (forbid + pretend, ["kernel.apparmor_restrict_unprivileged_userns=0",
                                                   "kernel.unprivileged_userns_clone=1", "user.max_user_namespaces=15000"])):
            for part in advice:
                self.assert_bad("user namespaces", "forbidden", part,
                                before=["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script + 'exec "$@"', "sh"])
        _, checks = self.doctor(before=["unshare", "--user", "--map-root-user", "sh", "-c",
                                        'echo 100 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"])
        self.assertEqual((checks["user namespaces"]["health"], checks["user namespaces"]["found"]), ("weak", "available, at most 100"))

    def test_few_processes(self):
        self.assert_bad("processes", "20", "nproc", before=["unshare", "--user", "--map-root-user", "prlimit", "--nproc=20:20"])

    def test_no_notices_left(self):
        _, checks = self.doctor(before=["unshare", "--user", "--map-root-user", "sh", "-c",
                                        'echo 0 > /proc/sys/user/max_inotify_instances; exec "$@"', "sh"])
        self.assertEqual(checks["file notices"]["health"], "weak")
        self.assertIn("max_user_instances", checks["file notices"]["advice"])

    def test_a_directory_that_others_can_use(self):
        for name, path, mode, variable in (("state directory", "state", 0o770, "SALLYPORT_STATE_DIR"),
                                           ("runtime directory", "run", 0o707, "SALLYPORT_RUNTIME_DIR")):
            (self.home / path).mkdir(exist_ok=True)
            (self.home / path).chmod(mode)
            self.assert_bad(name, f"{self.home / path} is open to other users; run: chmod 700", variable)

    def test_a_configuration_with_a_fault(self):
        config = self.home / "sallyport.toml"
        for text, found in (("x = [", f"{config}:1:"), ("[wardn]\n", "unknown table [wardn]"),
                            ("[platform]\nx = 1\n", "platform")):
            config.write_text(text)
            self.assert_bad("configuration", found, "SALLYPORT_CONFIG")
        config.unlink()
        config.mkdir()
        self.assert_bad("configuration", f"cannot read {config}", "SALLYPORT_CONFIG")

    def test_a_profile_with_a_fault(self):
        (self.home / "profiles").mkdir()
        (self.home / "profiles" / "mine.toml").write_text("[profile.mine]\nnosuch = 1\n")
        self.assert_bad("configuration", "mine.toml:2:", "no warden starts with it")

    def test_a_configuration_that_is_no_absolute_path(self):
        self.environment["SALLYPORT_CONFIG"] = "sallyport.toml"
        said = "SALLYPORT_CONFIG must be an absolute path, not 'sallyport.toml'"
        self.assert_bad("places", said, "the variable that it names")
        ran = subprocess.run([SALLYPORT, "status"], env=self.environment, text=True, capture_output=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(said, ran.stderr)
        for words in (["--help"], ["--version"], ["pod", "--help"], ["help", "run"], ["completion", "bash"]):
            ran = subprocess.run([SALLYPORT, *words], env=self.environment, text=True, capture_output=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertTrue(ran.stdout)

    def test_few_open_files(self):
        def allow(files):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.assert_bad("open files", "100", "limits.conf", prepare=allow(100))
        _, checks = self.doctor(allow(1024))
        self.assertEqual(checks["open files"]["health"], "weak")


if __name__ == "__main__":
    unittest.main()
