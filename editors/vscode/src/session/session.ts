/** The session that the window shows: follows the server's events, asks for the rest, and speaks for the user. */

import * as vscode from 'vscode';
import { ErrorCodes, LSPErrorCodes, ResponseError } from 'vscode-languageclient';
import type { Context, PromptResult } from '../generated/protocol';
import type { EditStore } from '../edits/store';
import type { Server } from '../server/server';
import { reduce } from './reducer';
import { isSlash } from './slash';
import { EMPTY, isBusy, type SessionState } from './state';
import type { ServerEvent, ViewEvent } from './wire';

/** Turns of a session that are shown again when it is opened. */
const TURNS = 20;
/** Milliseconds between two looks at the status while something runs. */
const POLL = 1000;
const PROMPTS_KEY = 'ds4.prompts';
const PROMPTS_KEPT = 100;
/** After these the status has changed in ways that the event does not say. */
const TELLING = new Set(['state', 'queued', 'queue', 'turn.start', 'turn.end', 'compaction.end', 'job', 'usage']);

export class Session implements vscode.Disposable {
  private readonly told = new vscode.EventEmitter<ViewEvent>();
  readonly onEvent = this.told.event;
  state: SessionState = EMPTY;
  private timer: NodeJS.Timeout | undefined;
  private polling = false;
  private again = false;
  private compactionStart: number | undefined;
  /** Texts of prompts that the user took back: they do not return to the input. */
  private readonly takenBack = new Set<string>();
  /** Each takes back a prompt that waits for the server to start. */
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly server: Server,
    private readonly edits: EditStore,
    private readonly memory: vscode.Memento,
  ) {
    server.onDidChangeState((state) => {
      const { problem } = server;
      this.apply({ kind: 'local.server', server: state, ...(problem === undefined ? {} : { problem }) });
      if (state === 'running') void this.resync();
    });
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.told.dispose();
  }

  get prompts(): readonly string[] {
    return this.memory.get<string[]>(PROMPTS_KEY, []);
  }

  apply(event: ViewEvent): void {
    this.state = reduce(this.state, event);
    this.told.fire(event);
  }

  /** An event of the server. */
  take(event: ServerEvent): void {
    if (event.kind === 'edit') void this.edits.bind(event);
    this.apply(event);
    if (event.kind === 'compaction.start') this.compactionStart = event.seq;
    if (event.kind === 'compaction.end' && event['compacted'] === true) void this.findCheckpoint(event.sessionId);
    if (TELLING.has(event.kind)) this.refresh();
  }

  /** Send a prompt and wait for the end of its turn. One that no turn came of is told in the view, and goes back there. */
  async prompt(text: string, context: Context[] = []): Promise<PromptResult | undefined> {
    const kept = [...this.prompts.filter((prompt) => prompt !== text), text].slice(-PROMPTS_KEPT);
    await this.memory.update(PROMPTS_KEY, kept);
    const slash = context.length === 0 && isSlash(text);
    const unsent = await this.unsendable();
    if (unsent) {
      this.apply({ kind: 'local.unsent', text, ...unsent });
      return undefined;
    }
    try {
      const request = this.server.run('ds4.prompt', { text, context });
      // No turn begins, so no event will show it.
      if (slash) this.apply({ kind: 'local.prompt', text });
      this.refresh();
      const result = await request;
      if (result && slash) {
        if (result.sessionId !== this.state.sessionId) await this.resync();
        this.apply({ kind: 'local.notice', text: result.text ?? '', error: false });
      } else if (result && neverBegan(result) && this.takenBack.delete(text)) {
        return result;
      } else if (!result || neverBegan(result)) {
        const reason = result ? 'Stopped before it began.' : this.noServer();
        this.apply({ kind: 'local.unsent', text, reason, error: !result });
      }
      return result;
    } catch (error) {
      const reason = messageOf(error);
      if (wasTaken(error)) this.apply({ kind: 'local.notice', text: reason, error: true });
      else this.apply({ kind: 'local.unsent', text, reason: slash ? reason : `Not sent: ${reason}`, error: true });
      return undefined;
    } finally {
      this.refresh();
    }
  }

  async stop(sendQueued = false): Promise<void> {
    for (const takeBack of this.waiting) takeBack();
    await this.server.runIfRunning('ds4.interrupt', { sendQueued });
  }

  /** Take a prompt back that waits. */
  async unqueue(seq: number): Promise<void> {
    const text = this.state.queue.find((item) => item.seq === seq)?.text;
    if (text !== undefined) this.takenBack.add(text);
    const done = await this.server.runIfRunning('ds4.dequeue', { seq, ...this.ofSession() });
    if (text !== undefined && done?.removed !== true) this.takenBack.delete(text);
    this.refresh();
  }

  /** Let the user change a prompt that waits. */
  async editQueued(seq: number): Promise<void> {
    const before = this.state.queue.find((item) => item.seq === seq);
    if (!before) return;
    const text = await vscode.window.showInputBox({ title: 'Change the queued prompt', value: before.text });
    if (text === undefined || text === before.text) return;
    await this.server.runIfRunning('ds4.editQueued', { seq, text, ...this.ofSession() });
    this.refresh();
  }

  /** Let a prompt run that Stop held. */
  async sendQueued(seq: number): Promise<void> {
    await this.server.runIfRunning('ds4.releaseQueued', { seq, ...this.ofSession() });
    this.refresh();
  }

  private ofSession(): { sessionId?: string } {
    const { sessionId } = this.state;
    return sessionId === undefined ? {} : { sessionId };
  }

  /** Why a prompt cannot be sent: there is no server, or the user stopped it while it waited for one. */
  private async unsendable(): Promise<{ reason: string; error: boolean } | undefined> {
    if (this.server.state === 'running') return undefined;
    let takeBack = (): void => undefined;
    const stopped = new Promise<'stopped'>((resolve) => (takeBack = () => resolve('stopped')));
    this.waiting.add(takeBack);
    this.apply({ kind: 'local.waiting', count: this.waiting.size });
    const client = await Promise.race([this.server.ensure(), stopped]);
    this.waiting.delete(takeBack);
    this.apply({ kind: 'local.waiting', count: this.waiting.size });
    if (client === 'stopped') return { reason: 'Stopped before it was sent.', error: false };
    return client ? undefined : { reason: this.noServer(), error: true };
  }

  private noServer(): string {
    return `Not sent: ${this.server.problem ?? 'the server is not running.'}`;
  }

  /** Show the server's current session as its log has it. */
  async resync(): Promise<void> {
    const status = await this.quietly(this.server.runIfRunning('ds4.status', {}));
    if (!status) return;
    const session = (status.session ?? {}) as { sessionId?: string; title?: string };
    const { sessionId } = session;
    const found = sessionId
      ? await this.quietly(this.server.runIfRunning('ds4.showHistory', { sessionId, turns: TURNS }))
      : { history: [] };
    const history = found?.history ?? [];
    const edits = this.edits.marks(sessionId);
    this.apply({ kind: 'local.session', sessionId, title: session.title ?? '', history, edits });
    this.apply({ kind: 'local.status', status });
    this.refresh();
  }

  /** Look at the status soon, and again and again while something runs. */
  refresh(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.poll(), 50);
  }

  private async poll(): Promise<void> {
    if (this.polling) {
      this.again = true;
      return;
    }
    this.polling = true;
    const status = await this.quietly(this.server.runIfRunning('ds4.status', {}));
    this.polling = false;
    if (!status) return;
    this.apply({ kind: 'local.status', status });
    clearTimeout(this.timer);
    const wait = this.again ? 50 : POLL;
    this.again = false;
    const moving = isBusy(this.state) || status.state === 'loading' || status.queue.length > 0 || wait < POLL;
    if (moving) this.timer = setTimeout(() => void this.poll(), wait);
  }

  /** The log position of the checkpoint that was just written, for the link to what it stands for. */
  private async findCheckpoint(sessionId: string): Promise<void> {
    const start = this.compactionStart;
    if (start === undefined) return;
    const found = await this.quietly(this.server.runIfRunning('ds4.showHistory', { sessionId, turns: 2 }));
    const entry = found?.history.findLast((one) => one.role === 'compaction' && one.seq > start);
    if (entry) this.apply({ kind: 'local.checkpoint', seq: entry.seq });
  }

  /** For what nobody waits for: a server that ends meanwhile is told elsewhere. */
  private async quietly<T>(work: Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await work;
    } catch {
      return undefined;
    }
  }
}

/** A prompt that was stopped in the queue: of a turn there would be figures. */
function neverBegan(result: PromptResult): boolean {
  return result.stopReason === 'cancelled' && !result.usage;
}

/** Whether the server may have the prompt in its log: then it comes back with the server. */
function wasTaken(error: unknown): boolean {
  return isCancelled(error) || (error instanceof ResponseError && error.code === ErrorCodes.PendingResponseRejected);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function isCancelled(error: unknown): boolean {
  return error instanceof ResponseError && error.code === LSPErrorCodes.RequestCancelled;
}
