"""A deputy that misbehaves: rogue_deputy.py MODE, on fd 3."""
import hashlib
import json
import os
import signal
import struct
import sys
import time

mode = sys.argv[1]


def read_exactly(count):
    data = b""
    while len(data) < count:
        piece = os.read(3, count - len(data))
        if not piece:
            sys.exit(1)
        data += piece
    return data


def write(data):
    while data:
        data = data[os.write(3, data):]


def send(message):
    body = json.dumps(message).encode()
    write(struct.pack(">I", len(body)) + body)


if mode == "crash_early":
    os.kill(os.getpid(), signal.SIGKILL)
request = json.loads(read_exactly(struct.unpack(">I", read_exactly(4))[0]))
payload = request["params"]["payload"]
sha256 = hashlib.sha256(payload.encode()).hexdigest()
approve = {"verdict": "approve", "sha256": sha256}


def answer(result):
    send({"id": request["id"], "type": "response", "result": result})


if mode == "approve":
    answer(approve)
elif mode == "reject":
    answer({"verdict": "reject", "sha256": sha256, "why": "not today"})
elif mode == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
elif mode == "hang":
    time.sleep(1000)
elif mode == "late":
    time.sleep(4)
    answer(approve)
elif mode == "slow":
    time.sleep(1.5)
    answer(approve)
elif mode == "garbage":
    write(os.urandom(4096))
elif mode == "not_a_verdict":
    answer({"verdict": "approve!", "sha256": sha256})
elif mode == "extra_keys":
    answer({**approve, "human": True})
elif mode == "huge":
    write(struct.pack(">I", 10_000_000) + b'{"id":"' + b"x" * 10_000_000)
elif mode == "flood":
    while True:
        send({"type": "event", "method": "noise", "params": {"n": "x" * 1000}})
elif mode == "wrong_hash":
    answer({"verdict": "approve", "sha256": "0" * 64})
elif mode == "asks":
    send({"id": "1", "type": "request", "method": "warden.shutdown"})
    answer(approve)
elif mode == "modify_for_ever":
    changed = json.loads(payload)
    changed["path"] = changed["path"] + "x"
    answer({"verdict": "modify", "sha256": sha256, "payload": changed})
elif mode == "modify_once":
    changed = json.loads(payload)
    if changed["path"].endswith("-safe"):
        answer(approve)
    else:
        changed["path"] += "-safe"
        answer({"verdict": "modify", "sha256": sha256, "payload": changed, "why": "a safer name"})
elif mode == "modify_into_denied":
    answer({"verdict": "modify", "sha256": sha256, "payload": {"path": "denied"}})
elif mode == "modify_into_nonsense":
    answer({"verdict": "modify", "sha256": sha256, "payload": {"path": 7, "colour": "red"}})
elif mode == "escape":
    # What it can reach from its cell, as its reason.
    import socket
    found = []
    for home in ("/root", "/home"):
        # This very file is there, where the clone is.
        found += [name for place, _, names in os.walk(home) for name in names
                  if os.path.join(place, name) != os.path.abspath(__file__)]
    try:
        open("/usr/deputy-was-here", "w")
        found.append("wrote")
    except OSError:
        pass
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1)
        found.append("connected")
    except OSError:
        pass
    found += [name for name in ("SALLYPORT_DOOR", "SALLYPORT_MAILBOX") if name in os.environ]
    answer({"verdict": "reject", "sha256": sha256, "why": "reached:" + ",".join(found)})
time.sleep(0.2)
