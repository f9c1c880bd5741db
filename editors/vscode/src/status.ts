/** The status bar: what happens, how fast, how full the context is. */

import * as vscode from 'vscode';
import { isBusy, type SessionState } from './session/state';
import type { Session } from './session/session';

const ICONS: Record<string, string> = {
  loading: '$(loading~spin)',
  prefill: '$(loading~spin)',
  generating: '$(loading~spin)',
  tool: '$(tools)',
  compacting: '$(fold)',
  error: '$(error)',
  noModel: '$(warning)',
};

const WORDS: Record<string, string> = { noModel: 'no model', compacting: 'COMPACTING', prefill: 'reading' };

/** Text of the status bar. */
export function statusText(state: SessionState): string {
  const { meter } = state;
  if (state.approvals.length > 0) return '$(question) DS4: waits for you';
  if (meter.server !== 'running')
    return `$(debug-disconnect) DS4: ${meter.server === 'missing' ? 'no server' : meter.server}`;
  const word = WORDS[meter.state ?? ''] ?? meter.state ?? 'starting';
  const parts = [`${ICONS[meter.state ?? ''] ?? '$(comment-discussion)'} DS4: ${word}`];
  if (isBusy(state) && meter.tokensPerSecond > 0) parts.push(`${meter.tokensPerSecond.toFixed(1)} t/s`);
  if (meter.size > 0) parts.push(`${Math.round(meter.percent)} %`);
  return parts.join(' · ');
}

function tooltip(state: SessionState): vscode.MarkdownString {
  const { meter } = state;
  const text = new vscode.MarkdownString();
  text.appendText(`${state.title || 'DS4'}\n`);
  if (meter.model) text.appendText(`Model: ${meter.model}\n`);
  if (meter.size) text.appendText(`Context: ${meter.used} of ${meter.size} tokens\n`);
  if (meter.error) text.appendText(`${meter.error}\n`);
  text.appendText('Click for actions.');
  return text;
}

export function createStatusBar(session: Session): vscode.Disposable {
  const item = vscode.window.createStatusBarItem('ds4-lsp.status', vscode.StatusBarAlignment.Right, 90);
  item.name = 'DS4';
  let busy: boolean | undefined;
  const draw = (): void => {
    const { state } = session;
    const asking = state.approvals.length > 0;
    item.text = statusText(state);
    item.tooltip = tooltip(state);
    item.command = asking ? 'ds4-lsp.answer' : 'ds4-lsp.showStatus';
    const warn = asking || state.meter.state === 'error' || state.meter.server === 'missing';
    item.backgroundColor = warn ? new vscode.ThemeColor('statusBarItem.warningBackground') : undefined;
    if (busy !== isBusy(state)) {
      busy = isBusy(state);
      void vscode.commands.executeCommand('setContext', 'ds4-lsp.busy', busy);
    }
  };
  // Text that streams changes nothing here.
  const quiet = new Set(['text', 'thinking', 'tool.delta', 'compaction.delta']);
  const listening = session.onEvent((event) => {
    if (!quiet.has(event.kind)) draw();
  });
  draw();
  item.show();
  return vscode.Disposable.from(item, listening);
}
