// What the suites inside the extension host share: the real `vscode` API, the real server, the real model.
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const vscode = require('vscode');

const extension = () => vscode.extensions.getExtension('ds4-lsp.ds4-lsp');
const at = (name, folder = 0) => vscode.Uri.joinPath(vscode.workspace.workspaceFolders[folder].uri, name);
const onDisk = (name) => fs.readFileSync(at(name).fsPath, 'latin1');

async function until(check, what, timeout = 30_000) {
  const end = Date.now() + timeout;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

async function open(name, text) {
  fs.writeFileSync(at(name).fsPath, text);
  const document = await vscode.workspace.openTextDocument(at(name));
  await vscode.window.showTextDocument(document);
  return document;
}

async function tagOf(uri) {
  return (await vscode.commands.executeCommand('ds4.readFile', { uri: uri.toString() })).fileTag;
}

function edit(uri, fileTag, line, newText) {
  const args = { uri: uri.toString(), fileTag, startLine: line, endLine: line, newText };
  return vscode.commands.executeCommand('ds4.applyEdit', args);
}

/** Servers that this extension host has started. */
function servers() {
  try {
    const found = execFileSync('pgrep', ['-P', String(process.pid), '-f', 'bin/ds4-lsp']).toString();
    return found.trim().split('\n').map(Number);
  } catch {
    return [];
  }
}

/** Runs named tests one after the other. Rejects when one failed. */
async function runAll(suite, tests) {
  let failed = 0;
  for (const [name, run] of Object.entries(tests)) {
    const began = Date.now();
    try {
      await run();
      console.log(`ok   ${suite}: ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed++;
      console.log(`FAIL ${suite}: ${name}\n${error.stack}`);
    }
  }
  console.log(`host: ${suite}: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
  if (failed) throw new Error(`${failed} failed`);
}

module.exports = { extension, at, onDisk, until, open, tagOf, edit, servers, runAll };
