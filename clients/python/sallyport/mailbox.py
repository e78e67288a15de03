"""Raising signals from inside a container, by files or through the door.

    box = sallyport.Mailbox()
    box.signal("context_reset")                                    # carries nothing, answers nothing
    reply = box.request("schedule_task", {"prompt": "..."})        # carries data; reviewed; answered
"""
from __future__ import annotations

import os
import re
import secrets
import time
import uuid
from contextlib import suppress
from typing import Any, Dict, Optional

from . import wire
from .errors import Error

MAX_MESSAGE_BYTES = 64 << 10
_NAME = re.compile("[a-z][a-z0-9_]{0,63}")


def _require_id(request_id: str) -> str:
    """An id names files: it is a UUID in its one spelling, or ValueError."""
    try:
        is_good = str(uuid.UUID(request_id)) == request_id
    except (ValueError, AttributeError, TypeError):
        is_good = False
    if not is_good:
        raise ValueError(f"a request id is a UUID in lower case, not {request_id!r:.100}")
    return request_id


class MailboxReply:
    """What stands in `out/<request_id>.json`. Not final: it still waits, for instance for a human."""

    def __init__(self, message: wire.Message):
        self.error = message.error
        self.result: Any = message.result
        self.is_final = not (isinstance(self.result, dict) and self.result.get("final") is False)


class Mailbox:
    def __init__(self, directory: Optional[str] = None):
        self.directory = directory or os.environ.get("SALLYPORT_MAILBOX") or "/run/sallyport/mailbox"

    def signal(self, name: str) -> None:
        self._drop({"signal": name}, f"{time.time_ns():020d}-{secrets.token_hex(8)}")

    def send(self, name: str, payload: Dict[str, Any], request_id: Optional[str] = None) -> str:
        """Drops a request and returns its id. The same id with the same payload is the same request. PAYLOAD_TOO_LARGE
        for one of more than 64 KiB, ValueError or TypeError for what is none; nothing is sent then."""
        request_id = _require_id(request_id) if request_id is not None else str(uuid.uuid4())
        if not isinstance(payload, dict):
            raise TypeError("a payload is a dict")
        # A file of this name is answered even if the host can make no sense of what is in it.
        self._drop({"signal": name, "request_id": request_id, "payload": payload}, request_id)
        return request_id

    def reply(self, request_id: str) -> Optional[MailboxReply]:
        """The reply so far, or None."""
        path = os.path.join(self.directory, "out", f"{_require_id(request_id)}.json")
        try:
            with open(path, "rb") as file:
                return MailboxReply(wire.decode_message(file.read().strip()))
        except FileNotFoundError:
            return None

    def wait(self, request_id: str, timeout: float = 3600.0, poll: float = 0.05) -> MailboxReply:
        until = time.monotonic() + timeout
        while True:
            reply = self.reply(request_id)
            if reply is not None and reply.is_final:
                return reply
            if time.monotonic() >= until:
                raise Error("TIMEOUT", "no final reply in time")
            time.sleep(poll)

    def request(self, name: str, payload: Dict[str, Any], timeout: float = 3600.0) -> Any:
        """Sends, waits for the final reply, and returns its result or raises its error."""
        reply = self.wait(self.send(name, payload), timeout)
        if reply.error is not None:
            raise reply.error
        return reply.result

    # Written beside, then renamed: the host never sees a part of it.
    def _drop(self, message: Dict[str, Any], file_name: str) -> None:
        if not isinstance(message["signal"], str) or not _NAME.fullmatch(message["signal"]):
            raise ValueError(f"a signal is a name of a-z, 0-9 and _, not {message['signal']!r:.100}")
        body = wire.dump(message)
        if len(body) > MAX_MESSAGE_BYTES:
            raise Error("PAYLOAD_TOO_LARGE", f"a message of {len(body)} bytes; at most {MAX_MESSAGE_BYTES} are taken")
        draft = os.path.join(self.directory, "in", "tmp", f"{file_name}-{secrets.token_hex(8)}")
        try:
            with open(draft, "xb") as file:
                file.write(body)
            os.rename(draft, os.path.join(self.directory, "in", "new", file_name))
        except FileNotFoundError:
            raise Error("UNAVAILABLE", f"no mailbox at {self.directory}: only containers have one") from None
        except OSError as problem:
            with suppress(OSError):
                os.unlink(draft)
            raise Error("IO_ERROR", f"the message could not be written: {problem.strerror or problem}") from None
