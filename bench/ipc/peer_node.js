// The same frames and the same JSON over Node's net module. See peer.h for the roles.
'use strict';
const net = require('net');
const readline = require('readline');

const [role, path] = process.argv.slice(2);
const WINDOW = 64;

function frame(message) {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.allocUnsafe(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

// Calls on_message for each complete frame of a socket.
function read_frames(socket, on_message) {
  let parts = [];
  let size = 0;
  let wanted = 4;
  socket.on('data', (data) => {
    parts.push(data);
    size += data.length;
    if (size < wanted) return;
    let buffer = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    wanted = 4;
    while (buffer.length >= 4) {
      wanted = 4 + buffer.readUInt32BE(0);
      if (buffer.length < wanted) break;
      on_message(JSON.parse(buffer.toString('utf8', 4, wanted)));
      buffer = buffer.subarray(wanted);
      wanted = 4;
    }
    parts = buffer.length > 0 ? [buffer] : [];
    size = buffer.length;
  });
}

function serve() {
  const methods = {
    'test.ping': () => ({ pong: true }),
    'test.echo': (params) => ({ data: params.data }),
  };
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    // One write for all answers of a turn.
    read_frames(socket, (request) => {
      if (!socket.writableCorked) {
        socket.cork();
        process.nextTick(() => socket.uncork());
      }
      const result = methods[request.method](request.params);
      socket.write(frame({ id: request.id, type: 'response', result }));
    });
  });
  server.listen(path, () => console.log('listening'));
}

function client() {
  const socket = net.connect(path);
  let on_answer = () => {};
  let last_id = 0;
  read_frames(socket, (answer) => on_answer(answer));
  const send = (method, params) =>
    socket.write(frame({ id: String(++last_id), type: 'request', method, params, deadline_ms: 30000 }));

  // Keeps `window` calls in flight until `count` are answered, then reports.
  function run(count, window, method, params, done) {
    const times = [];
    let sent = 0;
    const cpu = process.cpuUsage();
    const start = process.hrtime.bigint();
    let before = start;
    const more = () => {
      if (sent >= count) return;
      ++sent;
      send(method, params);
    };
    on_answer = () => {
      const now = process.hrtime.bigint();
      times.push(Number(now - before) / 1000);
      before = now;
      if (window > 1 && !socket.writableCorked) {
        socket.cork();
        process.nextTick(() => socket.uncork());
      }
      if (times.length < count) return more();
      const used = process.cpuUsage(cpu);
      const rate = (count * 1e9) / Number(now - start);
      times.sort((a, b) => a - b);
      const at = (q) => times[Math.floor(q * (times.length - 1))].toFixed(3);
      done(`${at(0.5)} ${at(0.99)} ${rate.toFixed(1)} ${((used.user + used.system) / count).toFixed(3)}`);
    };
    for (let i = 0; i < window; ++i) more();
  }

  const megabyte = { data: 'x'.repeat(1000000) };
  const loads = {
    small: (count, done) => run(count, 1, 'test.ping', undefined, done),
    pipeline: (count, done) => run(count, WINDOW, 'test.ping', undefined, done),
    megabyte: (count, done) => run(count, 1, 'test.echo', megabyte, done),
  };
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const [what, count] = line.split(' ');
    loads[what](Number(count), (report) => console.log(report));
  });
}

if (role === 'server') serve();
else client();
