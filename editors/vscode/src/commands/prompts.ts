/** Commands that talk to the agent. */

import * as vscode from 'vscode';
import type { Context, CompactResult } from '../generated/protocol';
import { withProgress, type Handler, type Kit } from './kit';

export function promptCommands(kit: Kit): Record<string, Handler> {
  const { session, server } = kit;

  async function prompt(text: unknown): Promise<unknown> {
    const given = typeof text === 'string' ? text : await ask('What should be done?');
    if (!given?.trim()) return undefined;
    await kit.view.reveal();
    return session.prompt(given);
  }

  async function promptSelection(place: unknown): Promise<unknown> {
    const context = isPlace(place) ? place : selection();
    if (!context) return prompt(undefined);
    const text = await ask('What should be done with the selection?');
    if (!text?.trim()) return undefined;
    await kit.view.reveal();
    return session.prompt(text, [context]);
  }

  async function compact(instructions?: string): Promise<CompactResult | undefined> {
    const result = await withProgress(kit, 'COMPACTING', 'ds4.compact', instructions ? { instructions } : {});
    session.refresh();
    if (result && !result.compacted)
      void vscode.window.showInformationMessage(`DS4: ${result.reason ?? 'not compacted'}`);
    return result;
  }

  async function compactWith(): Promise<unknown> {
    const instructions = await ask('What should the summary keep in mind?');
    return instructions === undefined ? undefined : compact(instructions);
  }

  async function undoTurn(): Promise<unknown> {
    const result = await server.run('ds4.undoTurn', {});
    if (!result) return undefined;
    const names = (uris: string[]): string =>
      uris.map((uri) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))).join(', ');
    const skipped = result.skipped.map((file) => `${names([file.uri])}: ${file.reason}`).join(' ');
    if (result.reverted.length) void vscode.window.showInformationMessage(`DS4: restored ${names(result.reverted)}.`);
    if (skipped) void vscode.window.showWarningMessage(`DS4: not restored. ${skipped}`);
    return result;
  }

  return {
    prompt,
    promptSelection,
    compact: () => compact(),
    compactWith,
    undoTurn,
    stop: () => session.stop(),
    sendQueued: () => session.stop(true),
    answer: () => kit.approvals.answerInDialog(),
  };
}

function ask(prompt: string): Thenable<string | undefined> {
  return vscode.window.showInputBox({ title: 'DS4', prompt, ignoreFocusOut: true });
}

function isPlace(value: unknown): value is Context {
  return (
    typeof value === 'object' && value !== null && 'uri' in value && typeof value.uri === 'string' && 'range' in value
  );
}

/** The selection as the server names places; the whole file where nothing is selected. */
function selection(): Context | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return undefined;
  const uri = editor.document.uri.toString();
  const { start, end, isEmpty } = editor.selection;
  if (isEmpty) return { uri };
  const place = ({ line, character }: vscode.Position): { line: number; character: number } => ({ line, character });
  return { uri, range: { start: place(start), end: place(end) } };
}
