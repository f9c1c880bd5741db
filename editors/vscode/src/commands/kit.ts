/** What the commands share. */

import * as vscode from 'vscode';
import { WorkDoneProgress } from 'vscode-languageclient';
import type { Commands } from '../generated/protocol';
import type { Approvals } from '../approvals';
import type { EditStore } from '../edits/store';
import { isCancelled, messageOf, type Session } from '../session/session';
import type { Server } from '../server/server';
import type { SessionView } from '../view/provider';

export interface Kit {
  output: vscode.LogOutputChannel;
  server: Server;
  session: Session;
  edits: EditStore;
  approvals: Approvals;
  view: SessionView;
  extension: vscode.ExtensionContext;
}

export type Handler = (...args: unknown[]) => unknown;

let tokens = 0;

/** Run a server command behind a notification whose Cancel stops it. */
export async function withProgress<K extends keyof Commands>(
  kit: Kit,
  title: string,
  command: K,
  args: Commands[K]['arguments'],
): Promise<Commands[K]['result'] | undefined> {
  const client = await kit.server.ensure();
  if (!client) return undefined;
  const workDoneToken = `ds4-lsp/${++tokens}`;
  const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return vscode.window.withProgress(options, async (progress, token) => {
    let shown = 0;
    const listening = client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
      if (value.kind === 'end') return;
      const increment = Math.max(0, (value.percentage ?? 0) - shown);
      shown += increment;
      progress.report({ ...(value.message ? { message: value.message } : {}), increment });
    });
    try {
      return await kit.server.run(command, args, { token, workDoneToken });
    } catch (error) {
      if (isCancelled(error)) return undefined;
      throw error;
    } finally {
      listening.dispose();
    }
  });
}

/** A command whose failure is told to the user. */
export function told(kit: Kit, handler: Handler): Handler {
  return async (...args) => {
    try {
      return await handler(...args);
    } catch (error) {
      kit.output.error(messageOf(error));
      void vscode.window.showErrorMessage(`DS4: ${messageOf(error)}`);
      return undefined;
    }
  };
}
