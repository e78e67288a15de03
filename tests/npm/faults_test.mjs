// What @modelcontextprotocol/server-filesystem gets wrong, in the version that package-lock.json names, and what ours
// does there, in the same run with the same client. docs/mcp.md says so: a version that has mended one of them must
// fail here, so that it is said no longer.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Place, text } from "./place.mjs";

let place, ours, theirs;
const call = (name, args) => ours.callTool({ name, arguments: args });

before(async () => {
  place = new Place();
  ours = new Client({ name: "faults", version: "1" });
  await ours.connect(new StdioClientTransport(place.server()));
  const program = path.join(path.dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-filesystem/package.json")), "dist/index.js");
  theirs = new Client({ name: "faults", version: "1" });
  await theirs.connect(new StdioClientTransport({ command: process.execPath, args: [program, place.workspace], stderr: "ignore" }));
});
after(async () => {
  await ours.close();
  await theirs.close();
  place.close();
});

// Does the same to two copies and tells what each left.
async function both(name, content, edit) {
  place.write(`theirs-${name}`, content);
  place.write(`ours-${name}`, content);
  const reply = await theirs.callTool({ name: "edit_file", arguments: { path: place.file(`theirs-${name}`), edits: [{ oldText: edit[0], newText: edit[1] }] } });
  assert.notEqual(reply.isError, true, "the other one did edit");
  const result = await call("edit", { path: `ours-${name}`, old_string: edit[0], new_string: edit[1] });
  return { result, theirs: place.read(`theirs-${name}`), ours: place.read(`ours-${name}`) };
}

test("CRLF line ends stay", async () => {
  const done = await both("crlf.txt", "one\r\ntwo\r\nthree\r\n", ["two", "2"]);
  assert.equal(done.theirs.toString(), "one\n2\nthree\n", "what the other one makes of it");
  assert.equal(done.ours.toString(), "one\r\n2\r\nthree\r\n");
});

test("of several matches none is edited by guess", async () => {
  const done = await both("several.txt", "x = 1\ny = 2\nx = 1\n", ["x = 1", "x = 3"]);
  assert.equal(done.theirs.toString(), "x = 3\ny = 2\nx = 1\n", "what the other one makes of it");
  assert.equal(done.result.isError, true);
  assert.equal(done.ours.toString(), "x = 1\ny = 2\nx = 1\n");
});

test("Latin-1 bytes outside the match stay", async () => {
  const before = Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a, 0x6f, 0x6e, 0x65, 0x0a]);
  const done = await both("latin1.txt", before, ["one", "two"]);
  assert.deepEqual(done.theirs, Buffer.from("caf\ufffd\ntwo\n"), "what the other one makes of it");
  assert.deepEqual(done.ours, Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a, 0x74, 0x77, 0x6f, 0x0a]));
});

test("mode and extended attributes stay", async () => {
  place.write("run.sh", "echo one\n");
  fs.chmodSync(place.file("run.sh"), 0o750);
  const xattr = (...words) => spawnSync("python3", ["-c", words.join("\n")], { encoding: "utf8" });
  const set = xattr("import os", `os.setxattr(${JSON.stringify(place.file("run.sh"))}, 'user.note', b'kept')`);
  assert.equal((await call("edit", { path: "run.sh", old_string: "one", new_string: "two" })).isError, false);
  assert.equal((await call("write", { path: "run.sh", content: "echo three\n" })).isError, false);
  assert.equal(fs.statSync(place.file("run.sh")).mode & 0o777, 0o750);
  // Not every file system has user attributes; where one does they must be there.
  if (set.status === 0) {
    const got = xattr("import os", `print(os.getxattr(${JSON.stringify(place.file("run.sh"))}, 'user.note').decode())`);
    assert.equal(got.stdout.trim(), "kept");
  }
});

test("a FIFO is refused and hangs nobody", async () => {
  spawnSync("mkfifo", [place.file("pipe")]);
  for (const [name, args] of [["read", { path: "pipe" }], ["edit", { path: "pipe", old_string: "a", new_string: "b" }], ["write", { path: "pipe", content: "x" }]]) {
    assert.equal((await call(name, args)).isError, true, name);
  }
  assert.ok(fs.lstatSync(place.file("pipe")).isFIFO());
  assert.equal((await call("grep", { pattern: "x" })).isError, false);
  fs.rmSync(place.file("pipe"));
});

test("a race with symlinks never leaves the workspace", async (t) => {
  const outside = path.join(place.root, "outside");
  fs.mkdirSync(outside);
  fs.writeFileSync(path.join(outside, "f"), "OUTSIDE");
  place.write("inside/f", "inside");
  fs.symlinkSync(outside, place.file("link"));
  // Exchanges a directory and a link to outside as fast as it can.
  const racer = spawn("python3", ["-c", `
import ctypes, os
os.chdir(${JSON.stringify(place.workspace)})
libc = ctypes.CDLL(None)
print("racing", flush=True)
while True:
    libc.renameat2(-100, b"inside", -100, b"link", 2)
`], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => racer.stdout.once("data", resolve));
  const counts = { inside: 0, refused: 0 };
  for (let i = 0; i < 1500; ++i) {
    const result = await call(i % 3 === 2 ? "write" : "read", i % 3 === 2 ? { path: "inside/f", content: "inside" } : { path: "inside/f" });
    assert.doesNotMatch(text(result), /OUTSIDE/);
    ++counts[result.isError ? "refused" : "inside"];
  }
  racer.kill("SIGKILL");
  await new Promise((resolve) => racer.once("exit", resolve));
  assert.equal(fs.readFileSync(path.join(outside, "f"), "utf8"), "OUTSIDE");
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.inside > 0 && counts.refused > 0, "the race was a race");
});
