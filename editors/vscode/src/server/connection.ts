/** One language client for one server process, with what this extension adds to the protocol. */

import * as vscode from 'vscode';
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  ShowMessageRequest,
  State,
  WorkDoneProgressCreateRequest,
  type ShowMessageRequestParams,
  type MessageActionItem,
  type ProgressToken,
  type StaticFeature,
} from 'vscode-languageclient/node';
import type { ServerEvent } from '../session/wire';
import { serverSection } from './configuration';
import type { ServerProcess } from './process';

export interface GuardedEditParams {
  label?: string;
  edit: import('vscode-languageclient').WorkspaceEdit;
  guards: { uri: string; version: number | null; fileTag: string | null }[];
  save: boolean;
}

export interface GuardedEditResult {
  applied: boolean;
  fileTag?: string;
  saved?: boolean;
  failureReason?: string;
}

/** What the rest of the extension does for the server. */
export interface Hooks {
  event(event: ServerEvent): void;
  progress(client: LanguageClient, token: ProgressToken): void;
  ask(params: ShowMessageRequestParams, token: vscode.CancellationToken): Promise<MessageActionItem | null>;
  applyGuarded(
    client: LanguageClient,
    params: GuardedEditParams,
    token: vscode.CancellationToken,
  ): Promise<GuardedEditResult>;
  save(uri: vscode.Uri): Promise<boolean>;
  /** A `ds4.*` command that somebody runs through VS Code, for example a code action. */
  serverCommand(name: string, args: unknown[], next: (name: string, args: unknown[]) => unknown): unknown;
  closed(): void;
}

export interface Executable {
  path: string;
  args: string[];
}

export function section(): Record<string, unknown> {
  // Through JSON: VS Code hands out proxies.
  const plain: unknown = JSON.parse(JSON.stringify(vscode.workspace.getConfiguration().get('ds4') ?? {}));
  return serverSection(plain);
}

/** `Server` tells the user what went wrong, once and in words of its own. */
class Client extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  /** Of a client that never ran there is nothing to stop: its process is ended by whoever started it. */
  override async stop(timeout?: number): Promise<void> {
    if (this.state !== State.Starting && this.state !== State.StartFailed) await super.stop(timeout);
  }
}

/** A client for a process that was started already. */
export function connect(server: ServerProcess, output: vscode.LogOutputChannel, hooks: Hooks): LanguageClient {
  const client: LanguageClient = new Client('ds4', 'DS4', () => server.spawned.then(() => server.child), {
    documentSelector: [{ scheme: 'file' }],
    outputChannel: output,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationOptions: () => section(),
    // Not to be tried again on the same connection.
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        hooks.closed();
        return { action: CloseAction.DoNotRestart, handled: true, message: 'The connection to the server ended.' };
      },
    },
    middleware: {
      executeCommand: (name, args: unknown[], next) =>
        hooks.serverCommand(name, args, (same, values) => next(same, values)),
      workspace: {
        configuration: (params) => params.items.map((item) => (item.section === 'ds4' ? section() : null)),
        didChangeConfiguration: () =>
          client.sendNotification('workspace/didChangeConfiguration', { settings: { ds4: section() } }),
      },
    },
  });
  client.registerFeature(new Ds4Feature(client, hooks));
  return client;
}

/** Announces what this client can do, and serves it. Initialised after the built-in features, whose handlers it replaces:
 * their progress has no cancel button, and their questions show one line. */
class Ds4Feature implements StaticFeature {
  constructor(
    private readonly client: LanguageClient,
    private readonly hooks: Hooks,
  ) {}

  fillClientCapabilities(capabilities: import('vscode-languageclient').ClientCapabilities): void {
    capabilities.experimental = {
      ...(capabilities.experimental as object | undefined),
      serverStatusNotification: true,
      ds4: { events: true, guardedApply: true, saveDocument: true, editCommand: 'ds4-lsp.promptSelection' },
    };
  }

  initialize(): void {
    const { client, hooks } = this;
    client.onNotification('ds4/event', (event: ServerEvent) => hooks.event(event));
    client.onNotification('experimental/serverStatus', () => undefined);
    client.onRequest(WorkDoneProgressCreateRequest.type, ({ token }) => hooks.progress(client, token));
    client.onRequest(ShowMessageRequest.type, (params, token) => hooks.ask(params, token));
    client.onRequest('ds4/applyGuardedEdit', (params: GuardedEditParams, token: vscode.CancellationToken) =>
      hooks.applyGuarded(client, params, token),
    );
    client.onRequest('ds4/saveDocument', async ({ uri }: { uri: string }) => ({
      saved: await hooks.save(client.protocol2CodeConverter.asUri(uri)),
    }));
  }

  getState(): { kind: 'static' } {
    return { kind: 'static' };
  }

  clear(): void {
    // Handlers go with the connection.
  }
}
