"""sallyport doctor: what is wrong with this user's own place, and what to do about it."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

SALLYPORT = os.environ["SALLYPORT_BIN"] + "/sallyport"


class Doctor(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-doctor-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
                            "SALLYPORT_RUNTIME_DIR": str(self.home / "run"), "SALLYPORT_STATE_DIR": str(self.home / "state"),
                            "SALLYPORT_CONFIG": str(self.home / "sallyport.toml")}

    def doctor(self, files=None):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        ran = subprocess.run([SALLYPORT, "doctor", "--json"], env=self.environment, cwd="/", text=True, capture_output=True,
                             preexec_fn=limit)
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
        ran = subprocess.run([SALLYPORT, "doctor"], env=self.environment, text=True, capture_output=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("SALLYPORT_CONFIG must be an absolute path, not 'sallyport.toml'", ran.stderr)

    def test_few_open_files(self):
        self.assert_bad("open files", "100", "limits.conf", files=100)
        _, checks = self.doctor(files=1024)
        self.assertEqual(checks["open files"]["health"], "weak")


if __name__ == "__main__":
    unittest.main()
