// The bridge as the official SDK 1.x meets it.
import assert from "node:assert/strict";
import fs from "node:fs";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Place, eventually, text } from "./place.mjs";

let place, client;
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
async function connect(...options) {
  const made = new Client({ name: "sdk-test", version: "1" });
  await made.connect(new StdioClientTransport(place.server(...options)));
  return made;
}

before(async () => {
  place = new Place();
  client = await connect();
});
after(async () => {
  await client.close();
  place.close();
});

test("says who it is and which revision it speaks", () => {
  assert.equal(client.getServerVersion().name, "sallyport");
  assert.ok(client.getServerCapabilities().tools);
  assert.match(client.getInstructions(), /sandbox/);
});

test("lists twelve tools with schemas and annotations", async () => {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(),
    ["copy", "edit", "exec", "glob", "grep", "list", "move", "multi_edit", "read", "remove", "stat", "write"]);
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, "object");
    assert.ok(tool.description.length > 20);
    for (const property of Object.values(tool.inputSchema.properties)) assert.ok(property.description);
    const isText = ["read", "grep", "glob"].includes(tool.name);
    assert.equal(tool.outputSchema === undefined, isText, tool.name);
  }
  const by = Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations]));
  assert.deepEqual([by.read.readOnlyHint, by.remove.destructiveHint, by.write.idempotentHint, by.exec.openWorldHint],
    [true, true, true, false]);
});

test("reads, writes, edits, searches, lists, copies, moves and removes", async () => {
  assert.equal((await call("write", { path: "a/b/one.txt", content: "alpha\nbeta\n" })).structuredContent.bytes_written, 11);
  const read = await call("read", { path: "a/b/one.txt" });
  assert.equal(text(read), "alpha\nbeta\n");
  assert.equal(read.structuredContent, undefined);
  assert.equal((await call("edit", { path: "a/b/one.txt", old_string: "beta", new_string: "gamma" })).structuredContent.replacements, 1);
  assert.equal((await call("multi_edit", { path: "a/b/one.txt", edits: [{ old_string: "alpha", new_string: "A" }, { old_string: "gamma", new_string: "G" }] })).structuredContent.replacements, 2);
  assert.equal(place.read("a/b/one.txt").toString(), "A\nG\n");
  assert.equal(text(await call("glob", { pattern: "**/*.txt" })), "a/b/one.txt\n");
  assert.equal(text(await call("grep", { pattern: "^G" })), "a/b/one.txt:2:G\n");
  assert.equal((await call("copy", { from: "a", to: "c", recursive: true })).structuredContent.files, 1);
  assert.equal((await call("move", { from: "c/b/one.txt", to: "two.txt" })).structuredContent.moved, true);
  assert.deepEqual((await call("list", {})).structuredContent.entries.map((entry) => entry.name), ["a", "c", "two.txt"]);
  assert.equal((await call("stat", { path: "two.txt" })).structuredContent.size, 4);
  assert.equal((await call("remove", { path: "c", recursive: true })).structuredContent.removed, 2);
  assert.ok(!fs.existsSync(place.file("c")));
});

test("a file of several megabytes is written whole", async () => {
  const content = "0123456789abcde\n".repeat(200_000);
  assert.equal((await call("write", { path: "large.txt", content })).structuredContent.bytes_written, content.length);
  assert.equal(place.read("large.txt").toString(), content);
  let page = await call("read", { path: "large.txt" });
  assert.match(text(page), /There is more/);
});

test("an image of several hundred kilobytes is one too", async () => {
  const png = Buffer.concat([Buffer.from("89504e470d0a1a0a00", "hex"), Buffer.alloc(600_000, 0xa7)]);
  place.write("large.png", png);
  const [image, ...more] = (await call("read", { path: "large.png" })).content;
  assert.deepEqual([image.type, image.mimeType, more.length], ["image", "image/png", 0]);
  assert.deepEqual(Buffer.from(image.data, "base64"), png);
});

test("images come as images, other bytes only when asked for", async () => {
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  place.write("dot.PNG", png);
  const [image] = (await call("read", { path: "dot.PNG" })).content;
  assert.deepEqual([image.type, image.mimeType], ["image", "image/png"]);
  assert.deepEqual(Buffer.from(image.data, "base64"), png);
  place.write("blob", Buffer.from([0, 1, 2, 255]));
  assert.match(text(await call("read", { path: "blob" })), /binary/);
  assert.equal(text(await call("read", { path: "blob", encoding: "base64" })), "AAEC/w==");
});

test("errors tell the model what to do next", async () => {
  place.write("twice.txt", "x\nx\n");
  place.write("near.c", "int main(void) {\n  return 1;\n}\n");
  const cases = [
    ["read", { path: "nowhere.txt" }, /glob or list/],
    ["exec", { command: "true", directory: "/nowhere" }, /directory|No such file/],
    ["edit", { path: "twice.txt", old_string: "x", new_string: "y" }, /2 times \(lines 1,2\)/],
    ["edit", { path: "near.c", old_string: "return  1;", new_string: "y" }, /Nearest lines[^]*copy old_string exactly/],
    ["write", { path: "twice.txt" }, /content: is missing[^]*call it again/],
    ["write", { path: "twice.txt", content: { $stream: 1 } }, /content: must be a string/],
    ["multi_edit", { path: "twice.txt", edits: [{ old_string: "x" }] }, /edits\[0\]: new_string: is missing/],
    ["grep", { pattern: "x", mode: "all" }, /content\|files\|count/],
    ["grep", { pattern: "(a)\\1" }, /pattern/],
    ["move", { from: "twice.txt", to: "two.txt" }, /overwrite/],
    ["remove", { path: "." }, /Name something in the directory/],
  ];
  for (const [name, args, pattern] of cases) {
    const result = await call(name, args);
    assert.equal(result.isError, true, name);
    assert.match(text(result), pattern);
  }
  await assert.rejects(call("no_such_tool", {}), /no such tool/);
});

test("a command streams its output, and its exit code is its own", async () => {
  const seen = [];
  // It goes on when the line before was seen.
  const command = "for i in 1 2 3; do echo line $i; until [ -e seen$i ]; do sleep 0.05; done; done; echo bad >&2; exit 5";
  const onprogress = (progress) => {
    seen.push(progress);
    const line = progress.message?.match(/line (\d)\n$/);
    if (line) place.write(`seen${line[1]}`, "");
  };
  const result = await call("exec", { command }, { onprogress });
  assert.deepEqual([result.structuredContent.exit_code, result.structuredContent.stdout, result.structuredContent.stderr],
    [5, "line 1\nline 2\nline 3\n", "bad\n"]);
  assert.ok(seen.length >= 2);
  assert.ok(seen.every((item, i) => i === 0 || item.progress > seen[i - 1].progress));
  assert.match(seen.map((item) => item.message).join(""), /line 1\n[^]*line 3\n/);
});

test("a command cannot see the user's home, nor the control door", async () => {
  fs.writeFileSync(`${place.home}/key`, "secret");
  const result = await call("exec", { command: `cat ${place.home}/key; ls ${place.env.SALLYPORT_RUNTIME_DIR}` });
  assert.notEqual(result.structuredContent.exit_code, 0);
  assert.doesNotMatch(result.structuredContent.stdout, /secret|warden/);
});

test("output has a limit that keeps both ends", async () => {
  const { structuredContent } = await call("exec", { command: "seq 1 100000", max_output_bytes: 1024 });
  assert.match(structuredContent.stdout, /^1\n2\n[^]*bytes left out[^]*99999\n100000\n$/);
  assert.ok(structuredContent.stdout.length < 1200);
});

test("a command that takes too long is killed, with all that it started, and shows what it had", async () => {
  const result = await call("exec", { command: "echo begun; sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &); sleep 1000", timeout_ms: 1000 });
  assert.equal(result.isError, true);
  assert.equal(result.structuredContent.timed_out, true);
  assert.match(text(result), /begun[^]*timeout_ms/);
  await eventually(async () => (await call("exec", { command: "! pidof sleep" })).structuredContent.exit_code === 0);
});

test("a silent command reports that it goes on, so that clients wait for it", async () => {
  let beats = 0;
  const onprogress = () => { if (++beats === 3) place.write("heard", ""); };
  const result = await call("exec", { command: "until [ -e heard ]; do sleep 0.05; done" }, { resetTimeoutOnProgress: true, onprogress });
  assert.equal(result.structuredContent.exit_code, 0);
});

test("cancelling a call kills its command", async () => {
  const abort = new AbortController();
  const running = call("exec", { command: "setsid sleep 1000 & echo started; sleep 1000" }, { signal: abort.signal, onprogress: () => abort.abort() });
  await assert.rejects(running);
  await eventually(async () => (await call("exec", { command: "! pidof sleep" })).structuredContent.exit_code === 0);
});

test("calls run beside each other", async () => {
  const slow = call("exec", { command: "until [ -e go ]; do sleep 0.05; done" });
  assert.equal((await call("write", { path: "go", content: "" })).isError, false);
  assert.equal((await slow).structuredContent.exit_code, 0);
});

test("every call is in the audit log as the container's", () => {
  const [container] = place.containers();
  const { output } = place.cli("audit", "query", "--principal", `container/${container.container}`, "--limit", "1000");
  for (const method of ["fs.read", "fs.write", "container.exec"]) assert.ok(output.includes(method), method);
});

test("read-only means it", async () => {
  const other = await connect("--read-only");
  const { tools } = await other.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ["exec", "glob", "grep", "list", "read", "stat"]);
  assert.ok(tools.every((tool) => tool.annotations.readOnlyHint));
  const result = await other.callTool({ name: "exec", arguments: { command: "touch made" } });
  assert.notEqual(result.structuredContent.exit_code, 0);
  assert.ok(!fs.existsSync(place.file("made")));
  await other.close();
});

test("a profile without container.exec offers no exec", async () => {
  const other = await connect("--profile", "default");
  assert.ok(!(await other.listTools()).tools.some((tool) => tool.name === "exec"));
  await other.close();
});

test("a container that ends is replaced with the next call", async () => {
  const running = () => place.containers().filter((other) => other.state === "running");
  // That of the client before may still be going.
  await eventually(async () => running().length === 1);
  const [container] = running();
  assert.equal(place.cli("container", "stop", container.container).status, 0);
  await eventually(async () => !(await call("read", { path: "twice.txt" })).isError);
  assert.ok(place.containers().some((other) => other.container !== container.container && other.state === "running"));
});

test("a call that needs approval says what a human would run, and goes on when they did", async () => {
  fs.mkdirSync(`${place.root}/profiles`);
  fs.writeFileSync(`${place.root}/profiles/careful.toml`, `
[profile.careful]
fs.read = ["/usr", "/etc"]
fs.write = ["\${workspace}"]
exec = ["/usr/**"]
methods = ["fs.*", "container.exec"]
review = { "fs.remove" = "human", "container.exec" = "human" }
`);
  assert.equal(place.cli("call", "warden.reload").status, 0);
  const other = await connect("--profile", "careful");
  place.write("precious", "x");
  let asked = 0;
  const answer = (verb) => ({ onprogress: ({ message }) => {
    if (message === undefined) return;  // it goes on
    const id = message.match(/sallyport approvals approve (\w+)/)[1];
    ++asked;
    const ran = place.cli("approvals", verb, id);
    assert.equal(ran.status, 0, ran.output);
  } });
  const refused = await other.callTool({ name: "remove", arguments: { path: "precious" } }, undefined, answer("deny"));
  assert.match(text(refused), /Do not try again/);
  assert.ok(fs.existsSync(place.file("precious")));
  const removed = await other.callTool({ name: "remove", arguments: { path: "precious" } }, undefined, answer("approve"));
  assert.equal(removed.isError, false);
  assert.ok(!fs.existsSync(place.file("precious")));
  assert.equal(asked, 2);
  await other.close();
});

test("with the client's end the container is gone", async () => {
  const ids = () => place.containers().map((container) => container.container);
  const before = ids();
  const other = await connect();
  await other.callTool({ name: "list", arguments: {} });
  const [made, ...more] = ids().filter((id) => !before.includes(id));
  assert.ok(made && more.length === 0);
  await other.close();
  await eventually(() => !ids().includes(made));
});
