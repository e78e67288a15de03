// The inspector's command line.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { Place, sallyport } from "./place.mjs";

const launcher = path.join(path.dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json")), "clients/launcher/build/index.js");
let place;
before(() => {
  place = new Place();
  place.write("hello.txt", "hello\n");
});
after(() => place.close());

function inspect(...words) {
  const env = Object.entries(place.env).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const ran = spawnSync(process.execPath, [launcher, "--cli", ...env, ...words, "--", sallyport, "mcp", "--workspace", place.workspace],
    { encoding: "utf8", env: { ...process.env, HOME: place.home } });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  return JSON.parse(ran.stdout);
}

test("lists the tools, with schemas that every client can use", () => {
  assert.equal(inspect("--method", "tools/list", "--strict").tools.length, 12);
});

test("calls a tool", () => {
  const result = inspect("--method", "tools/call", "--tool-name", "read", "--tool-arg", "path=hello.txt");
  assert.equal(result.content[0].text, "hello\n");
});
