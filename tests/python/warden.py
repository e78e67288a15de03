"""A real daemon for the tests of the Python client."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import sallyport

BIN = pathlib.Path(os.environ["SALLYPORT_BIN"])
PACKAGE = pathlib.Path(sallyport.__file__).resolve().parent


class Warden(unittest.TestCase):
    """Tests that share a daemon."""

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-python-"))
        (cls.root / "project").mkdir()
        os.environ.update(SALLYPORT_RUNTIME_DIR=str(cls.root / "run"), SALLYPORT_STATE_DIR=str(cls.root / "state"),
                          SALLYPORT_CONFIG=str(cls.root / "sallyport.toml"))
        ready, told = os.pipe()
        cls.daemon = subprocess.Popen([BIN / "sallyportd", "--tcp", "--log-level", "error", "--ready-fd", str(told)],
                                      pass_fds=[told])
        os.close(told)
        assert os.read(ready, 1) == b"1", "the daemon did not start"
        os.close(ready)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.terminate()
        cls.daemon.wait()
        shutil.rmtree(cls.root, ignore_errors=True)

    def container(self, client):
        config = {"workspace": str(self.root / "project"), "ends_with_session": True}
        return client.call("container.create", {"template": "mcp", "config": config})["container"]
