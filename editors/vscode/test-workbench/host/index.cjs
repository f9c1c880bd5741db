// One folder, inside the real extension host.
const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const vscode = require('vscode');
const { extension, at, onDisk, until, open, tagOf, edit, servers, runAll } = require('./kit.cjs');

let api;

const tests = {
  async 'activation is cheap and starts no server'() {
    api = await extension().activate();
    assert.equal(api.server.state, 'stopped');
    assert.deepEqual(servers(), []);
  },

  async 'every contributed command is registered'() {
    const { commands } = extension().packageJSON.contributes;
    const known = new Set(await vscode.commands.getCommands(true));
    assert.deepEqual(
      commands.map((one) => one.command).filter((id) => !known.has(id)),
      [],
    );
  },

  async 'a prompt streams an answer from the real model'() {
    const result = await vscode.commands.executeCommand('ds4-lsp.prompt', 'greet me');
    assert.equal(result?.stopReason, 'end', JSON.stringify(api.session.state));
    const { items, running } = api.session.state;
    assert.deepEqual(
      items.map((item) => item.kind),
      ['user', 'text'],
    );
    assert.match(items[1].text, /^Hello \*\*there\*\*/);
    assert.equal(running, false);
    await until(() => api.session.state.meter.state === 'idle', 'the idle state');
    assert.equal(api.session.state.meter.size, 8192);
  },

  async 'a setting reaches the server, and none of the extension’s own does'() {
    const config = vscode.workspace.getConfiguration('ds4');
    const tag = async () => tagOf(at('guard.py'));
    await open('guard.py', 'one\n');
    const seen = await tag();
    await vscode.window.activeTextEditor.edit((builder) => builder.insert(new vscode.Position(1, 0), 'two\n'));
    await config.update('edits.guard', 'strict', vscode.ConfigurationTarget.Workspace);
    await assert.rejects(Promise.resolve(edit(at('guard.py'), seen, 1, 'ONE')), /changed|tag/);
    await config.update('edits.guard', undefined, vscode.ConfigurationTarget.Workspace);
    await until(
      async () => (await Promise.resolve(edit(at('guard.py'), seen, 1, 'ONE')).catch(() => undefined))?.applied,
      'a rebase',
    );
  },

  async 'an edit is one undo step, saved, and of the live buffer'() {
    const document = await open('a.py', 'one\ntwo\nthree\n');
    await vscode.window.activeTextEditor.edit((builder) => builder.insert(new vscode.Position(0, 0), 'zero\n'));
    assert(document.isDirty);
    const tag = await tagOf(at('a.py'));
    const result = await edit(at('a.py'), tag, 3, 'TWO');
    assert.deepEqual([result.applied, result.saved], [true, true]);
    assert.equal(document.getText(), 'zero\none\nTWO\nthree\n');
    assert.equal(onDisk('a.py'), 'zero\none\nTWO\nthree\n');
    await vscode.commands.executeCommand('undo');
    assert.equal(document.getText(), 'zero\none\ntwo\nthree\n');
  },

  async 'the editor refuses an edit of text that is not there any more'() {
    const document = await open('b.py', 'one\n');
    const tag = await tagOf(at('b.py'));
    const client = await api.server.ensure();
    const uri = document.uri.toString();
    const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 3 } };
    const change = { textDocument: { uri, version: document.version }, edits: [{ range, newText: 'ONE' }] };
    const request = (guard) =>
      api.guarded.apply(
        client,
        { edit: { documentChanges: [change] }, guards: [{ uri, ...guard }], save: true },
        new vscode.CancellationTokenSource().token,
      );
    const wrongTag = await request({ version: document.version, fileTag: '00000000' });
    assert.equal(wrongTag.applied, false);
    assert.match(wrongTag.failureReason, /tag/);
    const wrongVersion = await request({ version: document.version - 1, fileTag: tag });
    assert.match(wrongVersion.failureReason, /changed meanwhile/);
    assert.equal(document.getText(), 'one\n');
    assert.equal((await request({ version: document.version, fileTag: tag })).applied, true);
    assert.equal(document.getText(), 'ONE\n');
  },

  async 'an edit of lines that the user changed meanwhile is refused, and one of other lines lands'() {
    const document = await open('same.py', 'one\ntwo\nthree\nfour\n');
    const seen = await tagOf(at('same.py'));
    const line = new vscode.Range(1, 0, 1, 3);
    await vscode.window.activeTextEditor.edit((builder) => builder.replace(line, 'mine'));
    await assert.rejects(Promise.resolve(edit(at('same.py'), seen, 2, 'TWO')), /have changed since/);
    assert.equal(document.getText(), 'one\nmine\nthree\nfour\n');
    assert.equal((await edit(at('same.py'), seen, 4, 'FOUR')).applied, true);
    assert.equal(document.getText(), 'one\nmine\nthree\nFOUR\n');
  },

  async 'what is typed while an edit applies is never lost'() {
    const document = await open('c.py', 'head\n' + 'x\n'.repeat(20) + 'tail\n');
    const editor = vscode.window.activeTextEditor;
    editor.selection = new vscode.Selection(0, 4, 0, 4);
    let typed = '';
    let applied = 0;
    const typing = (async () => {
      for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
        await vscode.commands.executeCommand('type', { text: letter });
        typed += letter;
        // As fast as a fast writer.
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
    })();
    for (let round = 0; round < 6; round++) {
      const tag = await tagOf(at('c.py'));
      const outcome = await Promise.resolve(edit(at('c.py'), tag, 22, `tail ${round}`)).catch((error) => error);
      applied += outcome?.applied === true ? 1 : 0;
    }
    await typing;
    assert.equal(document.lineAt(0).text, `head${typed}`);
    assert.equal(document.lineCount, 23);
    assert(applied > 0, 'no edit was applied');
  },

  async 'a closed file keeps its mixed line endings and its BOM'() {
    fs.writeFileSync(at('mixed.txt').fsPath, '\ufeffone\r\ntwo\nthree\r\n');
    const before = onDisk('mixed.txt');
    const result = await edit(at('mixed.txt'), await tagOf(at('mixed.txt')), 2, 'TWO');
    assert.equal(result.applied, true);
    assert.equal(onDisk('mixed.txt'), before.replace('two', 'TWO'));
  },

  async 'a closed file is edited and saved through the editor'() {
    fs.writeFileSync(at('closed.py').fsPath, 'one\ntwo\n');
    const result = await edit(at('closed.py'), await tagOf(at('closed.py')), 1, 'ONE 😀');
    assert.deepEqual([result.applied, result.saved], [true, true]);
    assert.equal(fs.readFileSync(at('closed.py').fsPath, 'utf8'), 'ONE 😀\ntwo\n');
  },

  async 'with edits.confirm the user sees the change first, and decides'() {
    const config = vscode.workspace.getConfiguration('ds4');
    await config.update('edits.confirm', 'always', vscode.ConfigurationTarget.Workspace);
    const document = await open('d.py', 'one\n');
    const tabs = () => vscode.window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.label));
    const decide = async (answer) => {
      const outcome = Promise.resolve(edit(at('d.py'), await tagOf(at('d.py')), 1, 'ONE')).catch((error) => error);
      const [question] = await until(
        () => api.session.state.approvals.length && api.session.state.approvals,
        'the question',
      );
      assert(tabs().includes('d.py (DS4 proposes)'), tabs().join());
      assert.equal(document.getText(), 'one\n');
      api.approvals.answer(question.id, answer);
      return outcome;
    };
    assert.match((await decide('Reject')).message, /rejected/);
    assert.equal(document.getText(), 'one\n');
    assert.equal((await decide('Apply')).applied, true);
    assert.equal(document.getText(), 'ONE\n');
    assert(!tabs().includes('d.py (DS4 proposes)'));
    await config.update('edits.confirm', undefined, vscode.ConfigurationTarget.Workspace);
  },

  async 'the transcript opens as a document of the server'() {
    await vscode.commands.executeCommand('ds4-lsp.showHistory');
    const { sessionId } = api.session.state;
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(`ds4:/session/${sessionId}.md`));
    assert.match(document.getText(), /greet me[^]*Hello/);
  },

  async 'a killed server comes back with its session, and there is only one'() {
    const [pid] = servers();
    const { sessionId } = api.session.state;
    process.kill(pid, 'SIGKILL');
    await until(() => api.server.state !== 'running', 'the end');
    await until(() => api.server.state === 'running', 'the restart');
    await until(() => api.session.state.items.length >= 2, 'the history');
    assert.equal(api.session.state.sessionId, sessionId);
    assert.equal(servers().length, 1);
    assert.notEqual(servers()[0], pid);
  },

  async 'a stopped server leaves no process behind'() {
    const [pid] = servers();
    const all = () =>
      execFileSync('ps', ['-eo', 'pid,ppid,args'])
        .toString()
        .split('\n')
        .filter((line) => line.includes(String(pid)));
    assert(all().length > 0);
    await api.server.stop();
    await until(() => servers().length === 0, 'the end of the process', 5_000);
    assert.equal(api.server.state, 'stopped');
  },
};

exports.run = () => runAll('one folder', tests);
