#!/usr/bin/env python3
"""A third-party adapter: a cache that keeps everything in a dictionary.

It speaks the frames on descriptor 3: [u32 big-endian length][JSON]. The first request is adapter.init with the
protocol's version and, where the host's configuration names one for it, its credential. Every other request
carries "$tenant": whose data it is. It runs in a sandbox without home or workspace, and without network unless its
table names `hosts`.
"""
import json
import socket
import struct
import time

PROTOCOL = 1


class Fault(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Cache:
    def __init__(self):
        self.values = {}
        self.has_credential = False

    def init(self, params):
        if params["protocol"] != PROTOCOL:
            raise Fault("CONFLICT", "another version")
        self.has_credential = bool(params.get("credential"))
        return {"protocol": PROTOCOL, "roles": ["cache"]}

    def place(self, params):
        return params["$tenant"], params["namespace"], params.get("key")

    def find(self, place):
        value, ends = self.values.get(place, (None, None))
        if ends is not None and ends <= time.monotonic():
            del self.values[place]
            return None
        return value

    def put(self, place, params, value):
        if not isinstance(value, str):
            raise Fault("UNIMPLEMENTED", "this sample takes text only")
        ttl = params.get("ttl_ms")
        self.values[place] = value, time.monotonic() + ttl / 1000 if ttl else None

    def call(self, method, params):
        if method == "adapter.init":
            return self.init(params)
        place = self.place(params)
        if method == "cache.get":
            value = self.find(place)
            return {"found": False} if value is None else {"found": True, "value": value}
        if method == "cache.set":
            self.put(place, params, params["value"])
            return {"set": True}
        if method == "cache.set_if_absent":
            if self.find(place) is not None:
                return {"set": False}
            self.put(place, params, params["value"])
            return {"set": True}
        if method == "cache.incr":
            total = int(self.find(place) or 0) + params.get("by", 1)
            self.put(place, params, str(total))
            return {"value": total}
        if method == "cache.delete":
            return {"deleted": self.values.pop(place, None) is not None}
        if method == "cache.clear":
            gone = [key for key in self.values if key[:2] == place[:2]]
            for key in gone:
                del self.values[key]
            return {"deleted": len(gone)}
        raise Fault("METHOD_NOT_FOUND", "no such method")


def receive(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise SystemExit(0)
        data += piece
    return data


def main():
    connection = socket.socket(fileno=3)
    cache = Cache()
    while True:
        length, = struct.unpack(">I", receive(connection, 4))
        body = receive(connection, length)
        if body[:1] != b"{":
            continue  # a chunk of a stream that this sample did not ask for
        message = json.loads(body)
        if message["type"] != "request":
            continue
        answer = {"id": message["id"], "type": "response"}
        try:
            answer["result"] = cache.call(message["method"], message.get("params", {}))
        except Fault as fault:
            answer["error"] = {"code": fault.code, "message": str(fault), "retryable": False}
        except (KeyError, ValueError):
            answer["error"] = {"code": "INVALID_PARAMS", "message": "not what it should be", "retryable": False}
        data = json.dumps(answer).encode()
        connection.sendall(struct.pack(">I", len(data)) + data)


if __name__ == "__main__":
    main()
