/** When there is no server: what the user can do about it. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Kit } from './kit';

interface Way extends vscode.QuickPickItem {
  run: (kit: Kit) => Promise<string | undefined>;
}

const WAYS: Way[] = [
  {
    label: '$(package) Install from a folder with ds4-lsp',
    detail: 'Runs `make install` there, which compiles llama.cpp once (5 to 10 minutes), and uses what it installs.',
    run: install,
  },
  {
    label: '$(file-binary) Choose the executable…',
    detail: 'Where ds4-lsp is installed already, for example .venv/bin/ds4-lsp.',
    run: chooseExecutable,
  },
];

/** Ask how, do it, and start the server. `reason`: why the question is asked, told before it. */
export async function chooseServer(kit: Kit, reason?: string): Promise<void> {
  if (reason !== undefined) {
    const answer = await vscode.window.showErrorMessage(reason, 'Install…', 'Open Setting', 'Get Started');
    if (answer === 'Open Setting')
      await vscode.commands.executeCommand('workbench.action.openSettings', 'ds4.server.path');
    if (answer === 'Get Started') await vscode.commands.executeCommand('ds4-lsp.openWalkthrough');
    if (answer !== 'Install…') return;
  }
  const way = await vscode.window.showQuickPick(WAYS, { title: 'DS4: the server' });
  const executable = await way?.run(kit);
  if (!executable) return;
  const setting = vscode.workspace.getConfiguration('ds4');
  await setting.update('server.path', executable, vscode.ConfigurationTarget.Global);
  await kit.server.restart();
}

async function chooseExecutable(): Promise<string | undefined> {
  const files = await vscode.window.showOpenDialog({ title: 'The ds4-lsp executable', canSelectFiles: true });
  return files?.[0]?.fsPath;
}

async function install(): Promise<string | undefined> {
  const options = { title: 'The folder with the ds4-lsp sources', canSelectFiles: false, canSelectFolders: true };
  const folder = (await vscode.window.showOpenDialog(options))?.[0]?.fsPath;
  if (!folder) return undefined;
  const execution = new vscode.ProcessExecution('make', ['install'], { cwd: folder });
  const task = new vscode.Task({ type: 'ds4-lsp' }, vscode.TaskScope.Workspace, 'install', 'DS4', execution, []);
  const running = await vscode.tasks.executeTask(task);
  const code = await new Promise<number | undefined>((resolve) => {
    const listening = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution !== running) return;
      listening.dispose();
      resolve(event.exitCode);
    });
  });
  if (code === 0) return path.join(folder, '.venv', 'bin', 'ds4-lsp');
  void vscode.window.showErrorMessage('DS4: the installation failed. Its terminal says why.');
  return undefined;
}
