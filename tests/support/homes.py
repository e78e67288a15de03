"""A home of its own for each test, with a project in it and all that Sallyport keeps."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SALLYPORT = os.environ["SALLYPORT_BIN"] + "/sallyport"


class Home(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-home-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.project = self.home / "project"
        self.project.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
                            "SALLYPORT_RUNTIME_DIR": str(self.home / "run"), "SALLYPORT_STATE_DIR": str(self.home / "state"),
                            "SALLYPORT_CONFIG": str(self.home / "sallyport.toml")}
        self.addCleanup(self.sallyport, "down")

    def sallyport(self, *words, **options):
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        return subprocess.run([SALLYPORT, *words], cwd=self.project, env=self.environment, text=True, capture_output=True,
                              **options)
