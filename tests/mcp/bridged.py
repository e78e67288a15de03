"""A home with a project of its own, and the bridge in it."""
import json
import subprocess

from homes import SALLYPORT, Home

HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


def call(number, tool, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


def text(answer):
    return "".join(part.get("text", "") for part in answer["result"]["content"])


class Bridged(Home):
    # What a pipe of these messages is answered with, by id.
    def pipe(self, *messages, status=0, options=()):
        ran = self.sallyport("mcp", *options, input=lines(HELLO, *messages), timeout=100)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines()) if "id" in answer}

    # What one call says to its model.
    def said(self, tool, **arguments):
        answer = self.pipe(call(1, tool, **arguments))[1]
        return answer["result"]["isError"], text(answer)

    def start(self, *options):
        server = subprocess.Popen([SALLYPORT, "mcp", *options], cwd=self.project, env=self.environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stdin.close)
        server.stdin.write(lines(HELLO))
        server.stdin.flush()
        server.stdout.readline()
        return server
