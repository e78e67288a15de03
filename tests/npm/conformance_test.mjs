// The conformance suite against the protocol layer of the bridge, with the suite's own sample tools on top of it
// (tests/mcp/fixture_server.cpp). Every scenario of the suite is named here: a new one fails the first test.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { serve } from "./http_bridge.mjs";

const applicable = [
  "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
  "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
  "json-schema-2020-12",
];
const noLogging = "the bridge declares no logging: its log is the audit log, which an agent must not steer";
const noCompletion = "the bridge declares no completions: it has neither prompts nor resource templates";
const noAsking = "the bridge asks the client for nothing: a human is asked on the host, where the agent cannot answer";
const noResources = "the bridge declares no resources: files are read with a tool, so that policy sees every read";
const noPrompts = "the bridge declares no prompts";
const onlyHttp = "about HTTP itself; the bridge speaks stdio, and here the test's own HTTP bridge would be tested";
const notApplicable = {
  "logging-set-level": noLogging,
  "tools-call-with-logging": noLogging,
  "completion-complete": noCompletion,
  "tools-call-sampling": noAsking,
  "tools-call-elicitation": noAsking,
  "elicitation-sep1034-defaults": noAsking,
  "elicitation-sep1330-enums": noAsking,
  "resources-list": noResources,
  "resources-read-text": noResources,
  "resources-read-binary": noResources,
  "resources-templates-read": noResources,
  "resources-subscribe": noResources,
  "resources-unsubscribe": noResources,
  "prompts-list": noPrompts,
  "prompts-get-simple": noPrompts,
  "prompts-get-with-args": noPrompts,
  "prompts-get-embedded-resource": noPrompts,
  "prompts-get-with-image": noPrompts,
  "server-sse-polling": onlyHttp,
  "server-sse-multiple-streams": onlyHttp,
  "dns-rebinding-protection": onlyHttp,
};

const suite = path.join(path.dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")), "dist/index.js");
function run(...words) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [suite, ...words]);
    let output = "";
    child.stdout.on("data", (piece) => (output += piece));
    child.stderr.on("data", (piece) => (output += piece));
    child.on("close", (status) => resolve({ status, output }));
  });
}

let bridge;
before(async () => (bridge = await serve(process.env.SALLYPORT_MCP_FIXTURE, [])));
after(() => bridge.close());

test("every scenario of the suite is either run or explained", async () => {
  const { output } = await run("list", "--server");
  const named = [...output.split("Client scenarios")[0].matchAll(/^\s+- (\S+) \[([^\]]*)\]/gm)]
    .filter(([, , versions]) => !["draft", "extension"].includes(versions)).map(([, name]) => name);
  assert.deepEqual(named.sort(), [...applicable, ...Object.keys(notApplicable)].sort());
});

for (const scenario of applicable) {
  test(scenario, async () => {
    const { status, output } = await run("server", "--url", bridge.url, "--scenario", scenario);
    assert.equal(status, 0, output);
    assert.match(output, /Passed: [1-9]\d*\/[1-9]\d*, 0 failed/, output);
  });
}
