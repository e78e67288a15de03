"""Raising signals from inside a container, by files or through the door.

    box = sallyport.Mailbox()
    box.signal("context_reset")                                    # carries nothing, answers nothing
    reply = box.request("schedule_task", {"prompt": "..."})        # carries data; reviewed; answered
"""
from __future__ import annotations

import os
import secrets
import time
import uuid
from typing import Any, Dict, Optional

from . import wire
from .errors import Error


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
        self._drop({"signal": name})

    def send(self, name: str, payload: Dict[str, Any], request_id: Optional[str] = None) -> str:
        """Drops a request and returns its id. The same id with the same payload is the same request."""
        request_id = request_id or str(uuid.uuid4())
        self._drop({"signal": name, "request_id": request_id, "payload": payload})
        return request_id

    def reply(self, request_id: str) -> Optional[MailboxReply]:
        """The reply so far, or None."""
        path = os.path.join(self.directory, "out", f"{uuid.UUID(request_id)}.json")
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
    def _drop(self, message: Dict[str, Any]) -> None:
        body = wire.dump(message)  # first: what cannot be written leaves no draft behind
        name = f"{time.time_ns():020d}-{secrets.token_hex(8)}.json"
        draft = os.path.join(self.directory, "in", "tmp", name)
        with open(draft, "xb") as file:
            file.write(body)
        os.rename(draft, os.path.join(self.directory, "in", "new", name))
