"""The client for asyncio: whom to connect to, and how."""
from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
from typing import Any, Optional

from . import trust, wire
from .connection import Client, Completed, PendingCall, Subscription
from .errors import Error
from .paths import door
from .streams import InStream, OutStream

__all__ = ["Client", "Completed", "InStream", "OutStream", "PendingCall", "Subscription", "adopt", "connect",
           "connect_loopback"]


# How often, and how long after each other, one who does not take connections at the moment is asked.
CONNECT_ATTEMPTS, CONNECT_PAUSE_S = 100, 0.05


async def _connect_unix(path: str) -> socket.socket:
    """An address holds 107 bytes; through its directory's descriptor any path fits."""
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        address = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        # Not the loop's sock_connect: where the listener's queue is full it takes the socket for connected.
        for _ in range(CONNECT_ATTEMPTS):
            try:
                sock.connect(address)
                break
            except BlockingIOError:
                await asyncio.sleep(CONNECT_PAUSE_S)
        else:
            raise Error("TIMEOUT", f"whoever listens at {path} takes no connections", True)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


async def connect(path: Optional[str] = None) -> Client:
    """Connects to a Unix socket; by default the door of the container we are in, else the user's warden."""
    path = path or door()
    trust.require_own_directory(path)
    try:
        sock = await _connect_unix(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise Error("UNAVAILABLE", f"no warden is running; start one with: sallyport up (nobody listens at {path})",
                    True) from None
    except OSError as problem:
        raise Error("UNAVAILABLE", f"cannot connect to {path}: {problem.strerror or problem}") from None
    try:
        trust.require_own_peer(sock)
    except Error:
        sock.close()
        raise
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=4 << 20)
    return Client(reader, writer)._begin()


async def connect_loopback(state_file: str) -> Client:
    """Connects to the loopback TCP door that a daemon published in a 0600 file. Both sides prove that they hold its
    token: UNAUTHENTICATED if whoever listens there does not."""
    try:
        with open(state_file, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise Error("UNAUTHENTICATED", "the state file is not this user's alone")
            state = json.load(file)
        token = bytes.fromhex(state["token"])
        binding = wire.Binding(state["address"], state["boot_id"], state["pid"], state["start_time"])
        host, _, port = binding.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=4 << 20)
    except ConnectionRefusedError:
        raise Error("UNAVAILABLE", "nobody listens there", True) from None
    except OSError as problem:
        raise Error("UNAVAILABLE", f"no door of {state_file}: {problem.strerror or problem}", True) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Error("PROTOCOL_ERROR", f"{state_file} is not a loopback door of this version") from None
    nonce = secrets.token_bytes(32)
    hello = wire.hello(nonce)
    writer.write(wire.frame(hello))
    try:
        challenge = await asyncio.wait_for(reader.readexactly(4 + 67), 5)
    except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError):
        writer.close()
        raise Error("UNAUTHENTICATED", "no answer to the handshake") from None
    if not wire.is_genuine(token, hello, challenge[4:], binding):
        writer.close()
        raise Error("UNAUTHENTICATED", "whoever listens there does not hold the token")
    writer.write(wire.frame(wire.proof(token, hello, challenge[4:], nonce, binding)))
    return Client(reader, writer)._begin()


async def adopt(sock: Any, *, is_connecting: bool) -> Client:
    """Speaks over a socket that is there already, such as one end of a pair."""
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=4 << 20)
    return Client(reader, writer, is_connecting)._begin()
