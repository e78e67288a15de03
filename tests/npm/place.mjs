// A warden and a workspace of a test's own, and everything of it gone afterwards.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const bin = process.env.SALLYPORT_BIN;
export const sallyport = path.join(bin, "sallyport");

export class Place {
  constructor() {
    this.root = fs.mkdtempSync(path.join(os.tmpdir(), "sallyport-npm-"));
    this.workspace = path.join(this.root, "project");
    this.home = path.join(this.root, "home");
    fs.mkdirSync(this.workspace);
    fs.mkdirSync(this.home);
    this.env = {
      PATH: process.env.PATH,
      HOME: this.home,
      SALLYPORT_RUNTIME_DIR: path.join(this.root, "run"),
      SALLYPORT_STATE_DIR: path.join(this.root, "state"),
      SALLYPORT_CONFIG: path.join(this.root, "sallyport.toml"),
    };
  }

  // How a client starts the bridge.
  server(...options) {
    return { command: sallyport, args: ["mcp", "--workspace", this.workspace, ...options], env: this.env };
  }
  file(name) {
    return path.join(this.workspace, name);
  }
  write(name, content) {
    fs.mkdirSync(path.dirname(this.file(name)), { recursive: true });
    fs.writeFileSync(this.file(name), content);
  }
  read(name) {
    return fs.readFileSync(this.file(name));
  }
  cli(...words) {
    const ran = spawnSync(sallyport, words, { env: this.env, encoding: "utf8" });
    return { status: ran.status, output: ran.stdout + ran.stderr };
  }
  containers() {
    return JSON.parse(this.cli("--json", "container", "ls").output).containers;
  }
  close() {
    this.cli("down");
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

// Waits for a claim to hold; the test runner's own limit ends what never does.
export async function eventually(claim) {
  while (!(await claim())) await new Promise((resolve) => setTimeout(resolve, 20));
}

export const text = (result) => result.content.map((block) => block.text ?? "").join("");
