"""Whether whoever listens on a Unix socket is to be trusted: a server of this very user, and nobody else."""
from __future__ import annotations

import os
import socket
import stat
import struct
from typing import Any

from .errors import Error


def require_own_directory(path: str) -> None:
    """Raises CONFLICT unless the socket's directory is ours and writable by us alone."""
    parent = os.path.dirname(path) or "."
    try:
        status = os.lstat(parent)
    except OSError:
        return  # connecting says so
    if stat.S_ISLNK(status.st_mode):
        raise Error("CONFLICT", f"{parent} is a symbolic link, which is not accepted")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Error("CONFLICT", f"{parent} is not this user's alone: nothing that listens there is trusted; set "
                    "SALLYPORT_RUNTIME_DIR to a directory of your own")


def require_own_peer(connection: Any) -> None:
    """Raises UNAUTHENTICATED unless whoever listens runs as this user. Uids are those of our own user namespace; a
    container's maps its user to itself, so that the warden is its own user there too."""
    if not hasattr(socket, "SO_PEERCRED"):
        return  # not Linux: the directory alone must do
    format = "iII"
    _, uid, _ = struct.unpack(format, connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                                            struct.calcsize(format)))
    if uid != os.geteuid():
        raise Error("UNAUTHENTICATED", f"whoever listens there runs as another user (uid {uid})")
