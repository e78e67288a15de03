"""Where the warden and, inside a container, its door are."""
from __future__ import annotations

import os


def _usual_runtime() -> str | None:
    """What XDG_RUNTIME_DIR would name: programs that are started without variables come to the same warden."""
    usual = f"/run/user/{os.geteuid()}"
    try:
        return usual if os.stat(usual).st_uid == os.geteuid() else None
    except OSError:
        return None


def control_socket() -> str:
    """The control door of this user's warden."""
    runtime = os.environ.get("SALLYPORT_RUNTIME_DIR")
    if not runtime:
        shared = os.environ.get("XDG_RUNTIME_DIR") or _usual_runtime()
        runtime = f"{shared}/sallyport" if shared else f"/tmp/sallyport-{os.geteuid()}"
    return f"{runtime}/warden.sock"


def door() -> str:
    """The door to use from here: the container's own inside one, else the control door."""
    return os.environ.get("SALLYPORT_DOOR") or control_socket()
