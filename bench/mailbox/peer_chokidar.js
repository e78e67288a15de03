// Watch, parse, handle, write the response, unlink: without fsync, journal or checks.
const fs = require('fs');
const path = require('path');
const chokidar = require('chokidar');

const base = process.argv[2];
const handle = (file) => {
  try {
    const message = JSON.parse(fs.readFileSync(file));
    const box = path.dirname(path.dirname(path.dirname(file)));
    const response = {id: message.request_id, type: 'response', result: {did: message.payload}};
    fs.writeFileSync(path.join(box, 'out', message.request_id + '.json'), JSON.stringify(response));
    fs.unlinkSync(file);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
};
const directories = fs.readdirSync(base).map((box) => path.join(base, box, 'in', 'new'));
chokidar.watch(directories, {depth: 0}).on('add', handle).on('ready', () => {});
setTimeout(() => process.stdout.write('ready\n'), 500);
process.stdin.on('end', () => process.exit(0)).resume();
