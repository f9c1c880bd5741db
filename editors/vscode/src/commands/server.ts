/** Commands about the server and its model. */

import * as vscode from 'vscode';
import { statusText } from '../status';
import { chooseServer } from './install';
import { withProgress, type Handler, type Kit } from './kit';

interface Action extends vscode.QuickPickItem {
  command?: string;
}

export function serverCommands(kit: Kit): Record<string, Handler> {
  const { server, session, output } = kit;

  async function loadModel(given: unknown): Promise<unknown> {
    const path = typeof given === 'string' ? given : await chooseModel();
    if (path === undefined) return undefined;
    const result = await withProgress(kit, 'DS4: loading the model', 'ds4.loadModel', path ? { path } : {});
    session.refresh();
    const setting = vscode.workspace.getConfiguration('ds4');
    if (result?.model && path && typeof given !== 'string' && setting.get('model.path') !== path) {
      const choice = await vscode.window.showInformationMessage('Load this model from now on?', 'Yes', 'No');
      if (choice === 'Yes') await setting.update('model.path', path, vscode.ConfigurationTarget.Global);
    }
    return result;
  }

  async function showStatus(): Promise<void> {
    const { state } = session;
    const { meter } = state;
    const facts: Action[] = [
      { label: statusText(state), description: state.title },
      ...(meter.model ? [{ label: '$(chip) Model', description: meter.model }] : []),
      ...(meter.error ? [{ label: '$(error) Error', description: meter.error }] : []),
      {
        label: '$(dashboard) Context',
        description: `${meter.used} of ${meter.size} tokens (${Math.round(meter.percent)} %)`,
      },
      { label: '$(list-ordered) Queue', description: `${state.queue.length} prompts, ${state.jobs.length} commands` },
    ];
    const actions: [string, string][] = [
      ['$(comment) Prompt…', 'prompt'],
      ['$(debug-stop) Stop', 'stop'],
      ['$(fold) Compact the session', 'compact'],
      ['$(add) New session', 'newSession'],
      ['$(list-unordered) Switch session…', 'switchSession'],
      ['$(discard) Undo last turn', 'undoTurn'],
      ['$(chip) Load model…', 'loadModel'],
      ['$(refresh) Restart server', 'restartServer'],
      ['$(output) Open logs', 'openLogs'],
      ['$(pulse) Run doctor', 'runDoctor'],
    ];
    const rows: Action[] = [
      ...facts,
      { label: 'Actions', kind: vscode.QuickPickItemKind.Separator },
      ...actions.map(([label, command]) => ({ label, command })),
    ];
    const chosen = await vscode.window.showQuickPick(rows, { title: 'DS4', matchOnDescription: true });
    if (chosen?.command) await vscode.commands.executeCommand(`ds4-lsp.${chosen.command}`);
  }

  async function runDoctor(): Promise<unknown> {
    const found = await server.find();
    if ('missing' in found) return chooseServer(kit, found.missing);
    const model = vscode.workspace.getConfiguration('ds4').get<string | null>('model.path');
    const options = model ? { env: { DS4_MODEL: model } } : {};
    const execution = new vscode.ProcessExecution(found.path, ['doctor'], options);
    const task = new vscode.Task({ type: 'ds4-lsp' }, vscode.TaskScope.Workspace, 'doctor', 'DS4', execution, []);
    return vscode.tasks.executeTask(task);
  }

  return {
    loadModel,
    showStatus,
    runDoctor,
    restartServer: async () => (await server.restart()) !== undefined,
    install: () => chooseServer(kit),
    openLogs: () => output.show(),
    openWalkthrough: () => vscode.commands.executeCommand('workbench.action.openWalkthrough', 'ds4-lsp.ds4-lsp#start'),
  };
}

/** A path; empty for the configured model again. */
async function chooseModel(): Promise<string | undefined> {
  const configured = vscode.workspace.getConfiguration('ds4').get<string | null>('model.path');
  if (configured) {
    const again = { label: '$(refresh) Load the configured model again', description: configured };
    const other = { label: '$(folder-opened) Choose a GGUF file…' };
    const chosen = await vscode.window.showQuickPick([again, other], { title: 'DS4: Load model' });
    if (chosen !== other) return chosen && '';
  }
  const files = await vscode.window.showOpenDialog({ title: 'A GGUF file', filters: { 'GGUF models': ['gguf'] } });
  return files?.[0]?.fsPath;
}
