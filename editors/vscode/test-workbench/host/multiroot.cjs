// Two folders, and a server that no setting names.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');
const { extension, at, until, tagOf, edit, servers, runAll } = require('./kit.cjs');

let api;

const tests = {
  async 'the server of the active Python environment is found before that on the PATH'() {
    api = await extension().activate();
    const found = await api.server.find();
    assert.equal(found.source, 'python', JSON.stringify(found));
    assert.equal(path.basename(found.path), 'ds4-lsp');
  },

  async 'without a Python environment the one on the PATH is found'() {
    const { VIRTUAL_ENV } = process.env;
    delete process.env.VIRTUAL_ENV;
    assert.equal((await api.server.find()).source, 'path');
    process.env.VIRTUAL_ENV = VIRTUAL_ENV;
  },

  async 'one server serves every folder of the window'() {
    const [first, second] = vscode.workspace.workspaceFolders;
    assert.notEqual(first.uri.fsPath, second.uri.fsPath);
    await api.server.ensure();
    for (const folder of [0, 1]) {
      const file = at('a.txt', folder);
      fs.writeFileSync(file.fsPath, `of ${folder}\ntwo\n`);
      const result = await edit(file, await tagOf(file), 2, 'TWO');
      assert.deepEqual([result.applied, result.saved], [true, true]);
      assert.equal(fs.readFileSync(file.fsPath, 'utf8'), `of ${folder}\nTWO\n`);
    }
    assert.equal(servers().length, 1);
  },

  async 'a file outside the folders is out of reach until its folder is added'() {
    const folder = vscode.Uri.file(path.join(path.dirname(at('').fsPath), 'third'));
    fs.mkdirSync(folder.fsPath);
    const file = vscode.Uri.joinPath(folder, 'a.txt');
    fs.writeFileSync(file.fsPath, 'one\n');
    await assert.rejects(Promise.resolve(tagOf(file)), /outside|workspace/);
    const { length } = vscode.workspace.workspaceFolders;
    assert(vscode.workspace.updateWorkspaceFolders(length, 0, { uri: folder }));
    await until(() => tagOf(file).catch(() => undefined), 'the new folder to be within reach');
    assert.equal((await edit(file, await tagOf(file), 1, 'ONE')).applied, true);
    assert.equal(servers().length, 1);
  },
};

exports.run = () => runAll('two folders', tests);
