/** Puts the parts together. Nothing starts here but what is cheap: the server comes with the first need of it. */

import * as vscode from 'vscode';
import { Approvals } from './approvals';
import { chooseServer } from './commands/install';
import { told, type Kit } from './commands/kit';
import { promptCommands } from './commands/prompts';
import { serverCommands } from './commands/server';
import { sessionCommands } from './commands/sessions';
import { GuardedEdits, saveDocument } from './edits/guarded';
import { EditStore, SCHEME } from './edits/store';
import { followProgress } from './server/progress';
import { Server } from './server/server';
import { Session } from './session/session';
import { createStatusBar } from './status';
import { SessionView, VIEW } from './view/provider';

/** Server commands after which another session may be current. */
const SESSION_COMMANDS = new Set(['ds4.newSession', 'ds4.switchSession', 'ds4.forkSession', 'ds4.deleteSession']);

let server: Server | undefined;

/** What tests look at. */
export interface Api {
  session: Session;
  server: Server;
  guarded: GuardedEdits;
  approvals: Approvals;
}

export function activate(extension: vscode.ExtensionContext): Api {
  const output = vscode.window.createOutputChannel('DS4', { log: true });
  const edits = new EditStore(extension.workspaceState, extension.storageUri);
  const approvals: Approvals = new Approvals(
    (event) => session.apply(event),
    () => view.reveal(),
  );
  const guarded = new GuardedEdits(edits, async ({ uri, label, before, after }, token) => {
    const close = await edits.preview(uri, before, after);
    const file = vscode.workspace.asRelativePath(uri);
    const answer = await approvals.question('Apply this edit?', `${label}\n${file}`, ['Apply', 'Reject'], token);
    await close();
    return answer === 'Apply';
  });
  const made = new Server(
    output,
    {
      event: (event) => session.take(event),
      progress: followProgress,
      ask: (params, token) => approvals.ask(params, token),
      applyGuarded: (client, params, token) => guarded.apply(client, params, token),
      save: saveDocument,
      serverCommand: (name, args, next) => serverCommand(kit, name, args, next),
    },
    (reason) => void chooseServer(kit, reason),
  );
  server = made;
  const session = new Session(made, edits, extension.workspaceState);
  const view = new SessionView(extension.extensionUri, { server: made, session, edits, approvals });
  const kit: Kit = { output, server: made, session, edits, approvals, view, extension };
  const commands = { ...promptCommands(kit), ...sessionCommands(kit), ...serverCommands(kit) };
  // An event may come twice for one change, and a restart ends what runs.
  let before = launched();
  extension.subscriptions.push(
    output,
    made,
    session,
    made.onDidChangeState((state) => {
      if (state !== 'running') approvals.clear();
    }),
    createStatusBar(session),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, edits),
    vscode.window.registerWebviewViewProvider(VIEW, view),
    vscode.workspace.onDidChangeConfiguration(() => {
      const now = launched();
      if (now === before) return;
      before = now;
      // What failed may be right now.
      if (made.state !== 'stopped' || made.problem !== undefined) void made.restart();
    }),
    ...Object.entries(commands).map(([name, handler]) =>
      vscode.commands.registerCommand(`ds4-lsp.${name}`, told(kit, handler)),
    ),
  );
  return { session, server: made, guarded, approvals };
}

export async function deactivate(): Promise<void> {
  await server?.end();
}

/** What the settings say of the program to start. */
function launched(): string {
  const setting = vscode.workspace.getConfiguration('ds4.server');
  return JSON.stringify([setting.get('path'), setting.get('arguments')]);
}

/** Code actions run `ds4.prompt` by itself: the view has to be there to show what comes of it. */
async function serverCommand(
  kit: Kit,
  name: string,
  args: unknown[],
  next: (name: string, args: unknown[]) => unknown,
): Promise<unknown> {
  if (name === 'ds4.prompt') await kit.view.reveal();
  const result = await next(name, args);
  if (SESSION_COMMANDS.has(name)) await kit.session.resync();
  else kit.session.refresh();
  return result;
}
