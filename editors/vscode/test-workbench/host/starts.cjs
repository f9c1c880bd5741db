// Programs that are no server, inside the real extension host: each is told and ended, and the right one starts.
const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const vscode = require('vscode');
const { extension, at, until, servers, runAll } = require('./kit.cjs');

const SILENT = 'trap "" TERM INT HUP\nwhile read -r line; do :; done\nsleep 1000\n';
const MUTE = 'exec >&-\nwhile read -r line; do :; done\nsleep 1000\n';
const ENDS = 'exit 3\n';

let api;
let real;
const config = () => vscode.workspace.getConfiguration('ds4');
const use = (path) => config().update('server.path', path, vscode.ConfigurationTarget.Global);
const prompt = (text) => Promise.resolve(vscode.commands.executeCommand('ds4-lsp.prompt', text));
const last = () => api.session.state.items.at(-1);

/** An executable that is no server, and is started next. */
async function program(name, script) {
  const file = at(name).fsPath;
  fs.writeFileSync(file, `#!/bin/sh\n${script}`, { mode: 0o755 });
  await use(file);
  return file;
}

/** What runs of a program. */
function processes(file) {
  const lines = execFileSync('ps', ['-eo', 'pid=,args=']).toString().split('\n');
  return lines.filter((line) => line.includes(`/bin/sh ${file}`));
}

const gone = (file) => until(() => processes(file).length === 0, `the end of ${file}`);

const tests = {
  async 'a program that never answers is told and ended, and the prompt comes back'() {
    api = await extension().activate();
    real = config().get('server.path');
    const given = [];
    api.session.onEvent((event) => event.kind === 'local.unsent' && given.push(event.text));
    const file = await program('silent', SILENT);
    api.server.patience = 500;
    assert.equal(await prompt('Are you there?'), undefined);
    assert.equal(api.server.state, 'stopped');
    assert.match(api.server.problem, /silent did not answer within .*ds4\.server\.path/);
    assert.equal(last().kind, 'error');
    assert.match(last().text, /^Not sent: .*did not answer/);
    assert.deepEqual(given, ['Are you there?']);
    await gone(file);
  },

  async 'a restart ends the program that is starting'() {
    const file = at('silent').fsPath;
    api.server.patience = 600_000;
    void api.server.ensure();
    const [first] = await until(() => processes(file).length === 1 && processes(file), 'the program');
    void vscode.commands.executeCommand('ds4-lsp.restartServer');
    await until(() => processes(file).length === 1 && processes(file)[0] !== first, 'another one');
    assert.equal(api.server.state, 'starting');
  },

  async 'a prompt that waits for it can be stopped, and comes back'() {
    const waiting = prompt('Never mind.');
    await until(() => api.session.state.waiting === 1, 'the prompt');
    await vscode.commands.executeCommand('ds4-lsp.stop');
    assert.equal(await waiting, undefined);
    assert.match(last().text, /^Stopped before/);
    assert.equal(api.session.state.waiting, 0);
  },

  async 'a stop ends the program that is starting'() {
    const file = at('silent').fsPath;
    assert.equal(processes(file).length, 1);
    await api.server.stop();
    assert.equal(api.server.state, 'stopped');
    await gone(file);
  },

  async 'a program that closes its output is told and ended'() {
    const file = await program('mute', MUTE);
    assert.equal(await prompt('Say something.'), undefined);
    assert.notEqual(api.server.state, 'running');
    assert.match(last().text, /mute ended while it started: it closed its output/);
    await api.server.stop();
    await gone(file);
  },

  async 'a program that ends at once is told at once'() {
    await program('ends', ENDS);
    assert.equal(await prompt('Wait.'), undefined);
    assert.match(last().text, /ends ended while it started: exit code 3/);
  },

  async 'the setting put right ends what is starting, and the server starts by itself'() {
    const file = await program('silent', SILENT);
    await until(() => processes(file).length === 1, 'the program');
    assert.equal(api.server.state, 'starting');
    await use(real);
    await until(() => api.server.state === 'running', 'the server');
    await gone(file);
    assert.equal(servers().length, 1);
    assert.equal((await prompt('greet me'))?.stopReason, 'end', JSON.stringify(last()));
    await api.server.stop();
    assert.deepEqual(servers(), []);
  },
};

exports.run = () => runAll('programs that are no server', tests);
