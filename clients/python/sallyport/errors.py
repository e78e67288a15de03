"""The one error that crosses the wire, and every code it may carry."""
from __future__ import annotations

from typing import Any, Dict, Optional

CODES = frozenset(
    "PROTOCOL_ERROR INVALID_REQUEST METHOD_NOT_FOUND INVALID_PARAMS PAYLOAD_TOO_LARGE UNAUTHENTICATED POLICY_DENIED "
    "APPROVAL_DENIED APPROVAL_EXPIRED RATE_LIMITED QUOTA_EXCEEDED NOT_FOUND CONFLICT IO_ERROR TIMEOUT CANCELLED "
    "UNAVAILABLE UNIMPLEMENTED INTERNAL_ERROR".split())


class Error(Exception):
    """What a peer answered, or what happened to the connection (UNAVAILABLE, TIMEOUT, PROTOCOL_ERROR)."""

    def __init__(self, code: str, message: str, retryable: bool = False, details: Optional[Dict[str, Any]] = None):
        super().__init__(f"{code}: {message}")
        self.code = code if code in CODES else "INTERNAL_ERROR"
        self.message = message
        self.retryable = retryable
        self.details: Dict[str, Any] = details or {}

    def to_json(self) -> Dict[str, Any]:
        value: Dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.details:
            value["details"] = self.details
        return value

    @staticmethod
    def from_json(value: Any) -> "Error":
        if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("code", "message")) \
                or value["code"] not in CODES:
            return Error("INTERNAL_ERROR", "the peer sent an error that is none")
        return Error(value["code"], value["message"], value.get("retryable") is True, value.get("details"))
