// The 2.x client: as it is by default, and when it first looks for the newer, stateless revision.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Place, text } from "./place.mjs";

let place;
before(() => {
  place = new Place();
  place.write("hello.txt", "hello\n");
});
after(() => place.close());

for (const mode of ["legacy", "auto"]) {
  test(`${mode} mode connects and calls`, async () => {
    const client = new Client({ name: "client2", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(new StdioClientTransport(place.server()));
    assert.equal((await client.listTools()).tools.length, 12);
    assert.equal(text(await client.callTool({ name: "read", arguments: { path: "hello.txt" } })), "hello\n");
    const ran = await client.callTool({ name: "exec", arguments: { command: "cat hello.txt" } });
    assert.equal(ran.structuredContent.stdout, "hello\n");
    await client.close();
  });
}
