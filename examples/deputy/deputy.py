#!/usr/bin/env python3
"""A deputy: reviews one request and ends.

It is started in a sandbox of its own for every review and speaks on fd 3: frames of a big-endian length and a
JSON body. It is asked deputy.review {subject, container, payload, sha256} and answers
{verdict, sha256, why?, payload?}. `payload` comes as text, the very bytes that will be acted on; the verdict must
name their sha256, so that it cannot be taken for a verdict about anything else.
"""
import hashlib
import json
import os
import struct

FORBIDDEN = ("password", "credential", "curl ")
LONGEST_PROMPT = 2000


def read_exactly(count):
    data = b""
    while len(data) < count:
        piece = os.read(3, count - len(data))
        if not piece:
            raise SystemExit("the warden hung up")
        data += piece
    return data


def receive():
    (length,) = struct.unpack(">I", read_exactly(4))
    return json.loads(read_exactly(length))


def send(message):
    body = json.dumps(message).encode()
    frame = struct.pack(">I", len(body)) + body
    while frame:
        frame = frame[os.write(3, frame):]


def review(subject, payload):
    """What this deputy thinks: (verdict, why, changed payload or None)."""
    field = "prompt" if "prompt" in payload else "instructions"
    prompt = payload.get(field, "")
    for word in FORBIDDEN:
        if word in prompt.lower():
            return "reject", f"the prompt speaks of '{word.strip()}'", None
    if len(prompt) > LONGEST_PROMPT:
        return "reject", f"the prompt is longer than {LONGEST_PROMPT} characters", None
    if prompt != prompt.strip():
        # A change goes through schema and policy again, and a human sees it as a diff.
        return "modify", "blanks around the prompt removed", {**payload, field: prompt.strip()}
    return "approve", "", None


def main():
    request = receive()
    params = request["params"]
    payload = params["payload"]
    verdict, why, changed = review(params["subject"], json.loads(payload))
    result = {"verdict": verdict, "why": why, "sha256": hashlib.sha256(payload.encode()).hexdigest()}
    if changed is not None:
        result["payload"] = changed
    send({"id": request["id"], "type": "response", "result": result})


main()
