// Streamable HTTP in front of a stdio server, for the conformance suite, which speaks nothing else. One server
// process per session; requests are answered with a stream of events that holds what came before the answer.
import { spawn } from "node:child_process";
import http from "node:http";
import readline from "node:readline";

export function serve(command, args) {
  const sessions = new Map();
  let last = 0;

  function open() {
    const id = `session-${++last}`;
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    const session = { id, child, waiting: new Map(), tokens: new Map() };
    readline.createInterface({ input: child.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      const key = message.method === "notifications/progress" ? session.tokens.get(message.params.progressToken) : message.id;
      const response = session.waiting.get(key);
      if (!response) return;
      response.write(`event: message\ndata: ${line}\n\n`);
      if (message.method) return;
      response.end();
      session.waiting.delete(key);
    });
    sessions.set(id, session);
    return session;
  }

  const server = http.createServer(async (request, response) => {
    const session = sessions.get(request.headers["mcp-session-id"]);
    if (request.method === "DELETE" && session) {
      session.child.stdin.end();
      sessions.delete(session.id);
      return response.writeHead(200).end();
    }
    if (request.method !== "POST") return response.writeHead(405).end();
    let body = "";
    for await (const piece of request) body += piece;
    const message = JSON.parse(body);
    const used = session ?? (message.method === "initialize" ? open() : undefined);
    if (!used) return response.writeHead(404).end();
    if (message.id === undefined || !message.method) {
      used.child.stdin.write(JSON.stringify(message) + "\n");
      return response.writeHead(202).end();
    }
    response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": used.id });
    used.waiting.set(message.id, response);
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) used.tokens.set(token, message.id);
    used.child.stdin.write(JSON.stringify(message) + "\n");
  });

  return new Promise((resolve) =>
    server.listen(0, "127.0.0.1", () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}/mcp`,
        close() {
          for (const session of sessions.values()) session.child.stdin.end();
          server.closeAllConnections();
          server.close();
        },
      })));
}
