/** What the session view shows. Plain data: it travels to the webview as it is. */

import type { JobInfo, State as ServerState } from './wire';

export type { ServerState };

interface Base {
  /** Unique in a view's life. */
  id: number;
  turn: number;
}

export interface UserItem extends Base {
  kind: 'user';
  text: string;
  context?: string[];
}

export interface TextItem extends Base {
  kind: 'text' | 'thinking';
  text: string;
  open: boolean;
}

export interface ToolItem extends Base {
  kind: 'tool';
  callId: string;
  name: string;
  /** Arguments as they are written, then as they were called. */
  parameters: Record<string, string>;
  state: 'writing' | 'running' | 'done' | 'failed' | 'dropped';
  result?: string;
}

export interface EditItem extends Base {
  kind: 'edit';
  uri: string;
  fileTag: string;
  startLine: number;
  endLine: number;
}

export interface NoticeItem extends Base {
  /** `context`: what went along with the prompt. */
  kind: 'notice' | 'error' | 'context';
  text: string;
}

export interface CompactionItem extends Base {
  kind: 'compaction';
  trigger: string;
  summary: string;
  state: 'running' | 'done' | 'failed';
  reason?: string;
  /** Log position of the checkpoint, once it is known. */
  seq?: number;
}

export interface StoppedItem extends Base {
  kind: 'stopped';
  reason: 'cancelled' | 'length';
  /** A notice right before says why. */
  explained: boolean;
}

export type Item = UserItem | TextItem | ToolItem | EditItem | NoticeItem | CompactionItem | StoppedItem;

/** A prompt that waits. `held`: until the user sends it. */
export interface QueuedItem {
  seq: number;
  text: string;
  held: boolean;
}

/** A question to the user, with everything that the answer is about. */
export interface Approval {
  id: number;
  title: string;
  detail: string;
  answers: string[];
}

export interface Meter {
  server: 'stopped' | 'starting' | 'running' | 'missing';
  state: ServerState | undefined;
  error?: string;
  model?: string;
  used: number;
  size: number;
  percent: number;
  tokensPerSecond: number;
  prefill: { done: number; total: number };
}

export interface SessionState {
  sessionId: string | undefined;
  title: string;
  items: readonly Item[];
  /** Turns before the first item that are not shown. */
  trimmed: boolean;
  running: boolean;
  /** Prompts that wait for the server to start. */
  waiting: number;
  meter: Meter;
  queue: readonly QueuedItem[];
  jobs: readonly JobInfo[];
  approvals: readonly Approval[];
  nextId: number;
}

export const EMPTY: SessionState = {
  sessionId: undefined,
  title: '',
  items: [],
  trimmed: false,
  running: false,
  waiting: 0,
  meter: {
    server: 'stopped',
    state: undefined,
    used: 0,
    size: 0,
    percent: 0,
    tokensPerSecond: 0,
    prefill: { done: 0, total: 0 },
  },
  queue: [],
  jobs: [],
  approvals: [],
  nextId: 1,
};

/** Whether something runs, or waits to run, that Stop would stop. */
export function isBusy(state: SessionState): boolean {
  const busy: (ServerState | undefined)[] = ['prefill', 'generating', 'tool', 'compacting'];
  // A model that is loaded for nobody is not stopped: only the prompt that waits for it can be.
  const waits = state.waiting > 0 || (state.meter.state === 'loading' && state.queue.some((one) => !one.held));
  return state.running || waits || busy.includes(state.meter.state);
}
