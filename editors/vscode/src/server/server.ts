/** The window's one server: found, started when first needed, started again when it ends by itself. */

import * as os from 'node:os';
import * as vscode from 'vscode';
import { State, type LanguageClient } from 'vscode-languageclient/node';
import type { Commands } from '../generated/protocol';
import { Backoff } from './backoff';
import { connect, type Hooks } from './connection';
import { locate } from './locate';
import { aborted, firstOutcome, PATIENCE, problemOf, ServerProcess } from './process';
import { activePython } from './python';

export type ServerState = 'stopped' | 'starting' | 'running' | 'missing';
type Name = keyof Commands;

interface Live {
  client: LanguageClient;
  process: ServerProcess;
  began: number;
  /** The connection is gone. */
  closed: boolean;
}

export interface RunOptions {
  token?: vscode.CancellationToken;
  workDoneToken?: string;
}

export class Server implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<ServerState>();
  readonly onDidChangeState = this.changed.event;
  private readonly backoff = new Backoff();
  private live: Live | undefined;
  private starting: Promise<LanguageClient | undefined> | undefined;
  private stopping: Promise<void> | undefined;
  /** Ends the start that is under way. */
  private attempt = new AbortController();
  private retry: NodeJS.Timeout | undefined;
  private current: ServerState = 'stopped';
  private why: string | undefined;
  private ended = false;

  /** `patience`: milliseconds that a server has to answer when it starts. */
  constructor(
    private readonly output: vscode.LogOutputChannel,
    private readonly hooks: Omit<Hooks, 'closed'>,
    private readonly onMissing: (reason: string) => void,
    public patience = PATIENCE,
  ) {}

  get state(): ServerState {
    return this.current;
  }

  /** Why there is no server although one was wanted, in words for the user. */
  get problem(): string | undefined {
    return this.why;
  }

  /** The running client, started where that is needed; undefined when there is no server: `problem` says why. */
  async ensure(): Promise<LanguageClient | undefined> {
    if (this.ended) return undefined;
    const client = this.running();
    if (client) return client;
    clearTimeout(this.retry);
    this.starting ??= this.begin().finally(() => (this.starting = undefined));
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
    return this.running() ? this.run(command, args) : undefined;
  }

  async restart(): Promise<LanguageClient | undefined> {
    this.backoff.forget();
    await this.stop();
    return this.ensure();
  }

  /** End the server, or the start that is under way. */
  stop(): Promise<void> {
    this.stopping ??= this.halt().finally(() => (this.stopping = undefined));
    return this.stopping;
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

  private running(): LanguageClient | undefined {
    const client = this.live?.client;
    return client?.state === State.Running ? client : undefined;
  }

  private async begin(): Promise<LanguageClient | undefined> {
    // Made before anything is waited for: a stop that comes meanwhile is for this start.
    const attempt = (this.attempt = new AbortController());
    await this.stopping;
    return this.ended || attempt.signal.aborted ? undefined : this.start(attempt.signal);
  }

  private async halt(): Promise<void> {
    clearTimeout(this.retry);
    this.attempt.abort();
    await this.starting;
    const { live } = this;
    this.live = undefined;
    try {
      await live?.client.stop();
    } catch (error) {
      this.output.warn(`The server did not stop in order: ${String(error)}`);
    }
    await live?.client.dispose().catch(() => undefined);
    await live?.process.leave();
    this.enter('stopped');
  }

  private async start(withdrawn: AbortSignal): Promise<LanguageClient | undefined> {
    this.enter('starting');
    const found = await Promise.race([this.find(), aborted(withdrawn)]);
    if (!found || withdrawn.aborted) return undefined;
    if ('missing' in found) {
      this.output.error(found.missing);
      this.enter('missing', found.missing);
      this.onMissing(found.missing);
      return undefined;
    }
    const args = vscode.workspace.getConfiguration('ds4').get<string[]>('server.arguments', []);
    this.output.info(`Starting ${[found.path, ...args].join(' ')}`);
    const live = this.launch({ path: found.path, args });
    const { client, process } = live;
    const outcome = await firstOutcome(client.start(), process.closed, this.patience, withdrawn);
    if (outcome.kind === 'answered' && !live.closed && !isGiven(withdrawn)) {
      this.live = live;
      this.output.info(`The server answered after ${Math.round(performance.now() - live.began)} ms`);
      this.enter('running');
      return client;
    }
    const told = live.closed ? ({ kind: 'ended', how: await process.closed } as const) : outcome;
    // Whatever it is that runs there, it is not to stay.
    await process.kill();
    await client.dispose().catch(() => undefined);
    if (isGiven(withdrawn)) return undefined;
    const problem = problemOf(told, found.path, this.patience);
    this.output.error(problem);
    if (outcome.kind === 'silent') this.giveUp(problem);
    else this.again(problem, performance.now() - live.began);
    return undefined;
  }

  private launch(executable: { path: string; args: string[] }): Live {
    const process = new ServerProcess(executable, vscode.workspace.workspaceFolders?.[0]?.uri.fsPath);
    const closed = (): void => {
      live.closed = true;
      if (this.live === live) void this.crashed(live);
    };
    const client = connect(process, this.output, { ...this.hooks, closed });
    const live: Live = { client, process, began: performance.now(), closed: false };
    return live;
  }

  /** The connection of a running server ended, and with it what is left of the server. */
  private async crashed({ process, began }: Live): Promise<void> {
    this.live = undefined;
    const lived = performance.now() - began;
    const how = await process.closed;
    this.output.warn(`The server ended by itself: ${how}`);
    await process.kill();
    // Meanwhile somebody may have started another one.
    if (!this.ended && !this.starting && !this.stopping) this.again(`The server ended by itself: ${how}.`, lived);
  }

  /** Start again in a while, unless that was tried too often. */
  private again(problem: string, livedFor: number): void {
    this.enter('stopped', problem);
    const delay = this.backoff.next(livedFor);
    if (delay === undefined) {
      this.tell(`The DS4 server keeps ending. It is not started again by itself. ${problem}`);
      return;
    }
    this.output.warn(`The server is started again in ${delay} ms`);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => void this.ensure(), delay);
  }

  private giveUp(problem: string): void {
    this.enter('stopped', problem);
    this.tell(problem);
  }

  private tell(problem: string): void {
    void vscode.window.showErrorMessage(problem, 'Restart', 'Open Logs', 'Open Setting').then((choice) => {
      if (choice === 'Restart') void this.restart();
      if (choice === 'Open Logs') this.output.show();
      if (choice === 'Open Setting')
        void vscode.commands.executeCommand('workbench.action.openSettings', 'ds4.server.path');
    });
  }

  private enter(state: ServerState, problem?: string): void {
    if (state === this.current && problem === this.why) return;
    this.current = state;
    this.why = problem;
    this.changed.fire(state);
  }
}

/** Asked anew: the compiler takes a signal that was not given a while ago for one that never is. */
function isGiven(signal: AbortSignal): boolean {
  return signal.aborted;
}
