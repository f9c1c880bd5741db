/** The window's one server: found, started when first needed, started again when it ends by itself. */

import * as os from 'node:os';
import * as vscode from 'vscode';
import { State, type LanguageClient } from 'vscode-languageclient/node';
import type { Commands } from '../generated/protocol';
import { Backoff } from './backoff';
import { connect, type Hooks } from './connection';
import { locate } from './locate';
import { activePython } from './python';

export type ServerState = 'stopped' | 'starting' | 'running' | 'missing';
type Name = keyof Commands;

export interface RunOptions {
  token?: vscode.CancellationToken;
  workDoneToken?: string;
}

export class Server implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<ServerState>();
  readonly onDidChangeState = this.changed.event;
  private readonly backoff = new Backoff();
  private client: LanguageClient | undefined;
  private starting: Promise<LanguageClient | undefined> | undefined;
  private retry: NodeJS.Timeout | undefined;
  private current: ServerState = 'stopped';
  private ended = false;

  constructor(
    private readonly output: vscode.LogOutputChannel,
    private readonly hooks: Omit<Hooks, 'closed'>,
    private readonly onMissing: (reason: string) => void,
  ) {}

  get state(): ServerState {
    return this.current;
  }

  /** The running client, started where that is needed; undefined when there is no server, which the user was told. */
  async ensure(): Promise<LanguageClient | undefined> {
    if (this.ended) return undefined;
    if (this.client?.state === State.Running) return this.client;
    clearTimeout(this.retry);
    this.starting ??= this.start().finally(() => (this.starting = undefined));
    return this.starting;
  }

  /** Run a server command. Rejects with the server's refusal; undefined when there is no server. */
  async run<K extends Name>(
    command: K,
    args: Commands[K]['arguments'],
    options: RunOptions = {},
  ): Promise<Commands[K]['result'] | undefined> {
    const client = await this.ensure();
    if (!client) return undefined;
    const { token, workDoneToken } = options;
    const params = { command, arguments: [args], ...(workDoneToken ? { workDoneToken } : {}) };
    // A token that is undefined would be sent as a second parameter.
    return client.sendRequest<Commands[K]['result']>('workspace/executeCommand', params, ...(token ? [token] : []));
  }

  /** Like `run`, but never starts a server. */
  async runIfRunning<K extends Name>(
    command: K,
    args: Commands[K]['arguments'],
  ): Promise<Commands[K]['result'] | undefined> {
    return this.client?.state === State.Running ? this.run(command, args) : undefined;
  }

  async restart(): Promise<LanguageClient | undefined> {
    this.backoff.forget();
    await this.stop();
    return this.ensure();
  }

  async stop(): Promise<void> {
    clearTimeout(this.retry);
    await this.starting;
    const client = this.client;
    this.client = undefined;
    try {
      await client?.stop();
    } catch (error) {
      this.output.warn(`The server did not stop in order: ${String(error)}`);
    }
    await client?.dispose().catch(() => undefined);
    this.enter('stopped');
  }

  /** At the end of the window. What is left of the process ends with its standard input. */
  async end(): Promise<void> {
    this.ended = true;
    await this.stop();
  }

  dispose(): void {
    clearTimeout(this.retry);
    this.changed.dispose();
  }

  /** What would be started now. */
  async find(): Promise<{ path: string } | { missing: string }> {
    const setting = vscode.workspace.getConfiguration('ds4').get<string>('server.path', '');
    return locate({
      setting,
      // With a setting nothing else counts, so the Python extension need not wake up.
      python: setting.trim() ? undefined : await activePython(),
      env: process.env,
      home: os.homedir(),
      platform: process.platform,
    });
  }

  private async start(): Promise<LanguageClient | undefined> {
    this.enter('starting');
    const found = await this.find();
    if ('missing' in found) {
      this.output.error(found.missing);
      this.enter('missing');
      this.onMissing(found.missing);
      return undefined;
    }
    const args = vscode.workspace.getConfiguration('ds4').get<string[]>('server.arguments', []);
    this.output.info(`Starting ${[found.path, ...args].join(' ')}`);
    const began = performance.now();
    const life = { closed: false };
    const client = connect({ path: found.path, args }, this.output, {
      ...this.hooks,
      closed: () => {
        life.closed = true;
        if (this.client === client) this.crashed(performance.now() - began);
      },
    });
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      this.output.error(`The server did not start: ${String(error)}`);
      if (!life.closed) this.crashed(performance.now() - began);
      return undefined;
    }
    this.output.info(`The server answered after ${Math.round(performance.now() - began)} ms`);
    this.enter('running');
    return client;
  }

  private crashed(livedFor: number): void {
    this.client = undefined;
    if (this.ended) return;
    this.enter('stopped');
    const delay = this.backoff.next(livedFor);
    if (delay !== undefined) {
      this.output.warn(`The server ended by itself; it is started again in ${delay} ms`);
      this.retry = setTimeout(() => void this.ensure(), delay);
      return;
    }
    void vscode.window
      .showErrorMessage('The DS4 server keeps ending. It is not started again by itself.', 'Restart', 'Open Logs')
      .then((choice) => {
        if (choice === 'Restart') void this.restart();
        if (choice === 'Open Logs') this.output.show();
      });
  }

  private enter(state: ServerState): void {
    if (state === this.current) return;
    this.current = state;
    this.changed.fire(state);
  }
}
