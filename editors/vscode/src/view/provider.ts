/** The session view: gives the webview the state, then every event, and does what it asks for. */

import * as vscode from 'vscode';
import { TextDocumentContentRequest } from 'vscode-languageclient';
import type { Approvals } from '../approvals';
import type { EditStore } from '../edits/store';
import { messageOf, type Session } from '../session/session';
import type { Server } from '../server/server';
import { safeHref } from '../webview/inlines';
import { page } from './html';
import { readMessage, type FromView, type ToView } from './messages';

export const VIEW = 'ds4-lsp.session';

export interface Parts {
  server: Server;
  session: Session;
  edits: EditStore;
  approvals: Approvals;
}

export class SessionView implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | undefined;
  /** The page listens: what is posted to one that is hidden, or still loads, is lost. */
  private ready = false;
  /** Prompts that no page could take back yet. */
  private unsent: string[] = [];
  private readonly visible = new vscode.EventEmitter<void>();

  constructor(
    private readonly extension: vscode.Uri,
    private readonly parts: Parts,
  ) {
    parts.session.onEvent((event) => {
      this.post({ type: 'events', events: [event] });
      if (event.kind !== 'local.unsent') return;
      this.unsent.push(event.text);
      this.giveBack();
    });
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    const { webview } = view;
    const dist = vscode.Uri.joinPath(this.extension, 'dist');
    webview.options = { enableScripts: true, enableCommandUris: false, localResourceRoots: [dist] };
    webview.onDidReceiveMessage((message: unknown) => {
      const known = readMessage(message);
      if (known)
        void this.take(known).catch((error: unknown) => vscode.window.showErrorMessage(`DS4: ${messageOf(error)}`));
    });
    view.onDidChangeVisibility(() => {
      // A hidden page is gone; when it is shown it loads anew, and says so.
      if (!view.visible) this.ready = false;
      this.visible.fire();
    });
    view.onDidDispose(() => {
      this.view = undefined;
      this.ready = false;
    });
    const address = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(dist, name)).toString();
    webview.html = page({ csp: webview.cspSource, script: address('webview.js'), style: address('webview.css') });
    void this.parts.server.ensure();
  }

  /** Make the view visible without taking the focus from the editor; whether it is visible then. */
  async reveal(): Promise<boolean> {
    if (this.view?.visible) return true;
    await vscode.commands.executeCommand(`${VIEW}.focus`, { preserveFocus: true });
    return this.view?.visible ?? false;
  }

  private post(message: ToView): void {
    void this.view?.webview.postMessage(message);
  }

  private giveBack(): void {
    if (!this.ready) return;
    for (const text of this.unsent.splice(0)) this.post({ type: 'putBack', text });
  }

  private async take(message: FromView): Promise<void> {
    const { session, edits, approvals, server } = this.parts;
    switch (message.type) {
      case 'ready':
        this.post({ type: 'state', state: session.state, prompts: session.prompts });
        this.ready = true;
        this.giveBack();
        break;
      case 'prompt':
        await session.prompt(message.text);
        break;
      case 'command':
        await vscode.commands.executeCommand(message.command);
        break;
      case 'answer':
        approvals.answer(message.id, message.answer);
        break;
      case 'openEdit':
        await edits.show(vscode.Uri.parse(message.uri), message.fileTag, message.startLine);
        break;
      case 'openFile':
        await vscode.window.showTextDocument(vscode.Uri.parse(message.uri));
        break;
      case 'openCheckpoint': {
        const path = `/session/${session.state.sessionId ?? ''}/checkpoint/${message.seq}.md`;
        await showDocument(server, vscode.Uri.from({ scheme: 'ds4', path }));
        break;
      }
      case 'stopJob':
        await server.runIfRunning('ds4.stopJob', { job: message.job });
        session.refresh();
        break;
      case 'unqueue':
        await session.unqueue(message.seq);
        break;
      case 'editQueued':
        await session.editQueued(message.seq);
        break;
      case 'sendQueued':
        await session.sendQueued(message.seq);
        break;
      case 'link': {
        const href = safeHref(message.href);
        if (href) await vscode.env.openExternal(vscode.Uri.parse(href, true));
        break;
      }
      case 'copy':
        await vscode.env.clipboard.writeText(message.text);
        break;
      case 'insert': {
        const editor = vscode.window.activeTextEditor;
        await editor?.edit((builder) => editor.selections.forEach((range) => builder.replace(range, message.text)));
        break;
      }
    }
  }
}

/** Show a Markdown document of the server's, rendered, as it is now. */
export async function showDocument(server: Server, uri: vscode.Uri): Promise<void> {
  const client = await server.ensure();
  // One that is open already would stay as it was when it was opened.
  for (const provider of client?.getFeature(TextDocumentContentRequest.method)?.getProviders() ?? []) {
    if (provider.scheme === uri.scheme) provider.onDidChangeEmitter.fire(uri);
  }
  await vscode.workspace.openTextDocument(uri);
  await vscode.commands.executeCommand('markdown.showPreview', uri);
}
