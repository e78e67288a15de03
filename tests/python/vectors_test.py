"""The golden frames of vectors/, read and written by the Python client."""
import json
import pathlib
import unittest

from sallyport import wire
from sallyport.errors import Error

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "vectors"


def body_of(value):
    return bytes.fromhex(value["body_hex"]) if "body_hex" in value else value["body"].encode()


def write(value):
    kind = value["kind"]
    if kind == "request":
        return wire.encode_request(value["id"], value["method"], value.get("params"), value.get("deadline_ms"), value.get("token", ""))
    if kind == "result":
        return wire.encode_result(value["id"], value["result"])
    if kind == "error":
        return wire.encode_error(value.get("id"), Error.from_json(value["error"]))
    if kind == "event":
        return wire.encode_event(value["method"], value.get("params"), value.get("id"))
    if kind == "chunk":
        return wire.encode_chunk(value["stream"], bytes.fromhex(value["data"]))
    token, client = bytes.fromhex(value["token"]), bytes.fromhex(value["client_nonce"])
    binding, hello = wire.Binding(**value["binding"]), wire.hello(client)
    challenge = wire.challenge(token, hello, bytes.fromhex(value["server_nonce"]), binding)
    steps = {"hello": hello, "challenge": challenge, "proof": wire.proof(token, hello, challenge, client, binding)}
    if value["step"] == "challenge":
        assert wire.is_genuine(token, hello, challenge, binding)
        assert not wire.is_genuine(token[::-1], hello, challenge, binding)
    return wire.frame(steps[value["step"]])


class Vectors(unittest.TestCase):
    def each(self, *kinds):
        found = [(json.loads(path.read_text()), path.with_suffix(".bin").read_bytes())
                 for path in sorted(VECTORS.glob("*.json"))]
        found = [(value, golden) for value, golden in found if value["kind"] in kinds]
        self.assertTrue(found)
        return found

    def test_are_written_byte_for_byte(self):
        for value, golden in self.each("request", "result", "error", "event", "chunk", "handshake"):
            self.assertEqual(write(value), golden)

    def test_are_read_as_what_they_mean(self):
        for value, golden in self.each("request", "result", "error", "event", "chunk"):
            (body,) = wire.FrameReader().feed(golden)
            got = wire.decode(body)
            if value["kind"] == "chunk":
                self.assertEqual((got.stream, got.data.hex()), (value["stream"], value["data"]))
                continue
            self.assertEqual(got.type, {"result": "response", "error": "response"}.get(value["kind"], value["kind"]))
            self.assertEqual((got.id, got.method, got.params), (value.get("id"), value.get("method", ""), value.get("params")))
            self.assertEqual((got.deadline_ms, got.token), (value.get("deadline_ms"), value.get("token", "")))
            if value["kind"] == "result":
                self.assertEqual(got.result, value["result"])
            if value["kind"] == "error":
                self.assertEqual(got.error.to_json(), value["error"])

    def test_malformed_bodies_are_refused_with_their_code_and_id(self):
        for value, golden in self.each("malformed"):
            (body,) = wire.FrameReader().feed(golden)
            self.assertEqual(body, body_of(value))
            with self.assertRaises(wire.Malformed) as raised:
                wire.decode(body)
            self.assertEqual((raised.exception.code, raised.exception.answers_to), (value["error"], value["answers_to"]))

    def test_broken_frames_lose_the_framing(self):
        for value, golden in self.each("broken"):
            reader = wire.FrameReader()
            with self.assertRaises(Error) as raised:
                list(reader.feed(golden))
                reader.finish()
            self.assertEqual(raised.exception.code, value["error"])

    def test_bytes_may_come_one_by_one(self):
        for _, golden in self.each("request"):
            reader = wire.FrameReader()
            bodies = [body for i in range(len(golden)) for body in reader.feed(golden[i : i + 1])]
            self.assertEqual(bodies, [golden[4:]])


if __name__ == "__main__":
    unittest.main()
