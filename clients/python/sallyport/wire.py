"""The byte formats of docs/protocol.md: frames, messages, chunks, the loopback handshake. No I/O."""
from __future__ import annotations

import hashlib
import hmac
import json
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from .errors import Error

MAX_FRAME_BYTES = 1 << 20
MAX_CHUNK_BYTES = MAX_FRAME_BYTES - 5
MAX_DEPTH = 32
MAX_NAME_BYTES = 128
MAX_TOKEN_BYTES = 4096
MAX_DEADLINE_MS = 24 * 60 * 60 * 1000
INITIAL_CREDIT = 1 << 20
MAX_OPEN_STREAMS = 16
HANDSHAKE_VERSION = 1


class Malformed(Error):
    """A body that is no message. `answers_to` is the id to answer to, if one could be read."""

    def __init__(self, code: str, message: str, answers_to: Optional[str] = None):
        super().__init__(code, message)
        self.answers_to = answers_to


@dataclass
class Message:
    type: str  # "request", "response" or "event"
    id: Optional[str] = None
    method: str = ""
    params: Optional[Dict[str, Any]] = None
    result: Any = None
    error: Optional[Error] = None
    deadline_ms: Optional[int] = None
    token: str = ""
    streams: List[int] = field(default_factory=list)  # every {"$stream": n} in params or result


@dataclass
class Chunk:
    stream: int
    data: bytes


@dataclass
class Binding:
    """What a loopback daemon is: the handshake proves that both sides mean the same one."""

    address: str
    boot_id: str
    pid: int
    start_time: int


# ---- frames ----


def frame(body: bytes) -> bytes:
    if not 1 <= len(body) <= MAX_FRAME_BYTES:
        raise Error("PAYLOAD_TOO_LARGE", f"a frame of {len(body)} bytes")
    return struct.pack(">I", len(body)) + body


class FrameReader:
    """Bytes in, bodies out. A length of 0 or above the cap loses the framing for good."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from(">I", self._buffer)
            if not 1 <= length <= MAX_FRAME_BYTES:
                raise Error("PAYLOAD_TOO_LARGE" if length else "PROTOCOL_ERROR", f"a frame of {length} bytes")
            if len(self._buffer) < 4 + length:
                return
            body = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            yield body

    def finish(self) -> None:
        """At the end of input: an error inside a frame."""
        if self._buffer:
            raise Error("PROTOCOL_ERROR", "the connection ended inside a frame")


# ---- JSON ----


def dump(value: Any) -> bytes:
    """ValueError or TypeError for what the peer would not read: it ends a connection that sends such, and with it
    every other call that waits there."""
    try:
        _check(value, 0, [])
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("this cannot be sent: a string with half of a surrogate pair") from None
    except ValueError as problem:
        raise ValueError(f"this cannot be sent: {problem}") from None


_TOO_WIDE = "an integer that 64 bits cannot hold"


def _pairs(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a duplicate key")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _integer(text: str) -> int:
    if len(text) > 20:  # asked first: very long ones take very long
        raise ValueError(_TOO_WIDE)
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number that nothing can hold")
    return number


def _check(value: Any, depth: int, streams: List[int]) -> None:
    if isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate cannot be
    elif isinstance(value, int):
        if not -(1 << 63) <= value < (1 << 64):
            raise ValueError(_TOO_WIDE)
    elif isinstance(value, (dict, list, tuple)):
        if depth >= MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        if not isinstance(value, dict):
            for item in value:
                _check(item, depth + 1, streams)
            return
        number = value.get("$stream")
        if len(value) == 1 and isinstance(number, int) and not isinstance(number, bool):
            if 0 < number < 1 << 32:
                streams.append(number)
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"this cannot be sent: the key {key!r} is no string")
            key.encode("utf-8")
            _check(item, depth + 1, streams)


def streams_in(value: Any) -> List[int]:
    """The numbers of the streams that a value names; of one that dump() takes."""
    streams: List[int] = []
    _check(value, 0, streams)
    return streams


def load(text: bytes) -> Tuple[Any, List[int]]:
    """Strict JSON, and the streams that it names."""
    streams: List[int] = []
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_constant,
                           parse_int=_integer, parse_float=_float)
        _check(value, 0, streams)
    except (ValueError, RecursionError) as problem:
        raise Malformed("PROTOCOL_ERROR", f"malformed JSON: {problem}") from None
    return value, streams


# ---- messages ----

_FIELDS = {
    "request": {"id", "type", "method", "params", "deadline_ms", "token"},
    "response": {"id", "type", "result", "error"},
    "event": {"id", "type", "method", "params"},
}


def _is_name(value: Any, most: int = MAX_NAME_BYTES) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= most and all("!" <= c <= "~" for c in value)


def decode(body: bytes) -> Union[Message, Chunk]:
    if body[:1] == b"{":
        return decode_message(body)
    if body[:1] == b"\x01":
        if len(body) < 5 or body[1:5] == b"\0\0\0\0":
            raise Malformed("PROTOCOL_ERROR", "a chunk without a stream")
        return Chunk(struct.unpack_from(">I", body, 1)[0], body[5:])
    raise Malformed("PROTOCOL_ERROR", "an unknown kind of frame")


def decode_message(body: bytes) -> Message:
    value, streams = load(body)
    answers_to = value.get("id") if _is_name(value.get("id")) else None

    def refuse(why: str) -> Malformed:
        return Malformed("INVALID_REQUEST", why, answers_to)

    kind = value.get("type")
    if "id" in value and answers_to is None and not (kind == "response" and value["id"] is None):
        raise refuse("id must be a string of 1 to 128 printable characters")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise refuse("type must be request, response or event")
    if not set(value) <= _FIELDS[kind]:
        raise refuse("an unknown field")
    message = Message(kind, answers_to, streams=streams)
    if kind == "response":
        if ("result" in value) == ("error" in value) or (answers_to is None and "error" not in value):
            raise refuse("a response carries a result or an error")
        message.result = value.get("result")
        message.error = Error.from_json(value["error"]) if "error" in value else None
        return message
    if kind == "request" and answers_to is None:
        raise refuse("id is missing")
    if not _is_name(value.get("method")):
        raise refuse("method must be a string of 1 to 128 printable characters")
    if "params" in value and not isinstance(value["params"], dict):
        raise refuse("params must be an object")
    message.method = value["method"]
    message.params = value.get("params")
    if "deadline_ms" in value:
        deadline = value["deadline_ms"]
        if not isinstance(deadline, int) or isinstance(deadline, bool) or not 1 <= deadline <= MAX_DEADLINE_MS:
            raise refuse("deadline_ms is out of range")
        message.deadline_ms = deadline
    if "token" in value:
        if not _is_name(value["token"], MAX_TOKEN_BYTES):
            raise refuse("token must be a string of printable characters")
        message.token = value["token"]
    return message


def _check_method(method: str, params: Optional[Dict[str, Any]]) -> None:
    if not _is_name(method):
        raise ValueError(f"a method is a name of 1 to {MAX_NAME_BYTES} printable characters, not {method!r:.200}")
    if params is not None and not isinstance(params, dict):
        raise TypeError("params must be a dict")


def encode_request(id: str, method: str, params: Optional[Dict[str, Any]] = None, deadline_ms: Optional[int] = None,
                   token: str = "") -> bytes:
    _check_method(method, params)
    if token and not _is_name(token, MAX_TOKEN_BYTES):
        raise ValueError(f"a token is a string of at most {MAX_TOKEN_BYTES} printable characters")
    value: Dict[str, Any] = {"id": id, "type": "request", "method": method}
    if params is not None:
        value["params"] = params
    if deadline_ms is not None:
        value["deadline_ms"] = deadline_ms
    if token:
        value["token"] = token
    return frame(dump(value))


def encode_result(id: str, result: Any) -> bytes:
    return frame(dump({"id": id, "type": "response", "result": result}))


def encode_error(id: Optional[str], error: Error) -> bytes:
    return frame(dump({"id": id, "type": "response", "error": error.to_json()}))


def encode_event(method: str, params: Optional[Dict[str, Any]] = None, id: Optional[str] = None) -> bytes:
    _check_method(method, params)
    value: Dict[str, Any] = {"id": id} if id else {}
    value.update(type="event", method=method)
    if params is not None:
        value["params"] = params
    return frame(dump(value))


def encode_chunk(stream: int, data: bytes) -> bytes:
    return frame(b"\x01" + struct.pack(">I", stream) + data)


# ---- the loopback handshake ----


def hello(nonce: bytes) -> bytes:
    return bytes([2, 1, HANDSHAKE_VERSION]) + nonce


def mac(token: bytes, label: bytes, earlier: bytes, nonce: bytes, binding: Binding) -> bytes:
    def sized(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    tail = sized(binding.address) + sized(binding.boot_id) + struct.pack(">QQ", binding.pid, binding.start_time)
    return hmac.new(token, label + earlier + nonce + tail, hashlib.sha256).digest()


def challenge(token: bytes, client_hello: bytes, nonce: bytes, binding: Binding) -> bytes:
    return bytes([2, 2, HANDSHAKE_VERSION]) + nonce + mac(token, b"sallyport server", client_hello, nonce, binding)


def proof(token: bytes, client_hello: bytes, server_challenge: bytes, nonce: bytes, binding: Binding) -> bytes:
    return bytes([2, 3]) + mac(token, b"sallyport client", client_hello + server_challenge, nonce, binding)


def is_genuine(token: bytes, client_hello: bytes, server_challenge: bytes, binding: Binding) -> bool:
    """Whether the other side holds the token too."""
    if len(server_challenge) != 67 or server_challenge[:3] != bytes([2, 2, HANDSHAKE_VERSION]):
        return False
    wanted = mac(token, b"sallyport server", client_hello, server_challenge[3:35], binding)
    return hmac.compare_digest(server_challenge[35:], wanted)
