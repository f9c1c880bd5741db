/** Commands about sessions. */

import * as vscode from 'vscode';
import type { SessionInfo } from '../generated/protocol';
import { showDocument } from '../view/provider';
import { withProgress, type Handler, type Kit } from './kit';

interface Choice extends vscode.QuickPickItem {
  info: SessionInfo;
}

export function sessionCommands(kit: Kit): Record<string, Handler> {
  const { server, session } = kit;

  async function choose(placeHolder: string): Promise<SessionInfo | undefined> {
    const found = await server.run('ds4.listSessions', {});
    if (!found) return undefined;
    if (found.sessions.length === 0) {
      void vscode.window.showInformationMessage('DS4: this workspace has no sessions yet.');
      return undefined;
    }
    const options = { placeHolder, matchOnDescription: true, matchOnDetail: true };
    return (await vscode.window.showQuickPick(found.sessions.map(choice), options))?.info;
  }

  async function newSession(): Promise<unknown> {
    const result = await server.run('ds4.newSession', {});
    await session.resync();
    return result;
  }

  async function switchSession(sessionId: unknown): Promise<unknown> {
    const chosen = typeof sessionId === 'string' ? sessionId : (await choose('Which session?'))?.sessionId;
    if (!chosen) return undefined;
    const result = await server.run('ds4.switchSession', { sessionId: chosen, turns: 0 });
    await session.resync();
    await kit.view.reveal();
    return result?.sessionId;
  }

  async function forkSession(): Promise<unknown> {
    const result = await server.run('ds4.forkSession', {});
    await session.resync();
    return result;
  }

  async function deleteSession(): Promise<unknown> {
    const chosen = await choose('Which session is to be deleted?');
    if (!chosen) return undefined;
    const options = { modal: true, detail: 'Its log and its snapshots are removed. This cannot be undone.' };
    const question = `Delete the session “${chosen.title || chosen.sessionId.slice(0, 8)}”?`;
    if ((await vscode.window.showWarningMessage(question, options, 'Delete')) !== 'Delete') return undefined;
    const result = await server.run('ds4.deleteSession', { sessionId: chosen.sessionId });
    await session.resync();
    return result;
  }

  async function exportSession(): Promise<unknown> {
    const formats = [
      { label: 'Markdown', description: 'to read', format: 'markdown' as const },
      { label: 'JSON lines', description: 'the whole log', format: 'jsonl' as const },
    ];
    const chosen = await vscode.window.showQuickPick(formats, { placeHolder: 'In which format?' });
    if (!chosen) return undefined;
    const result = await withProgress(kit, 'DS4: exporting', 'ds4.exportSession', { format: chosen.format });
    if (result) await vscode.window.showTextDocument(vscode.Uri.parse(result.uri));
    return result;
  }

  async function showHistory(): Promise<void> {
    await server.ensure();
    const { sessionId } = session.state;
    if (!sessionId) {
      void vscode.window.showInformationMessage('DS4: nothing was said yet.');
      return;
    }
    await showDocument(server, vscode.Uri.from({ scheme: 'ds4', path: `/session/${sessionId}.md` }));
  }

  return { newSession, switchSession, forkSession, deleteSession, exportSession, showHistory };
}

function choice(info: SessionInfo): Choice {
  const turns = `${info.turns} ${info.turns === 1 ? 'turn' : 'turns'}`;
  const compactions = info.compactions ? `, compacted ${info.compactions}×` : '';
  return {
    label: `${info.current ? '$(check) ' : ''}${info.title || 'Untitled'}`,
    description: info.sessionId.slice(0, 8),
    detail: `${new Date(info.updatedAt * 1000).toLocaleString()} · ${turns}, ${info.tokens} tokens${compactions}`,
    info,
  };
}
