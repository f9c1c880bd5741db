/** What the server sends, as far as its types do not say it. */

import type { EventKind, HistoryEntry, JobInfo, StatusResult } from '../generated/protocol';

export type { HistoryEntry, JobInfo, StatusResult };
export type State = StatusResult['state'];

/** One `ds4/event`. */
export interface ServerEvent {
  sessionId: string;
  turn: number;
  kind: EventKind;
  seq?: number;
  [field: string]: unknown;
}

/** What the extension itself adds to the stream that the view follows. */
export type LocalEvent =
  | { kind: 'local.status'; status: StatusResult }
  | { kind: 'local.server'; server: 'stopped' | 'starting' | 'running' | 'missing'; problem?: string }
  /** How many prompts wait for the server to start. */
  | { kind: 'local.waiting'; count: number }
  /** A prompt that no turn came of; its text goes back into the input. */
  | { kind: 'local.unsent'; text: string; reason: string; error: boolean }
  | { kind: 'local.session'; sessionId: string | undefined; title: string; history: HistoryEntry[]; edits: EditMark[] }
  | { kind: 'local.notice'; text: string; error: boolean }
  | { kind: 'local.prompt'; text: string }
  | { kind: 'local.checkpoint'; seq: number }
  | { kind: 'local.ask'; id: number; title: string; detail: string; answers: string[] }
  | { kind: 'local.answered'; id: number };

/** An edit of the session's past, at its place in the log. */
export interface EditMark {
  seq: number;
  turn: number;
  uri: string;
  fileTag: string;
  startLine: number;
  endLine: number;
}

export type ViewEvent = ServerEvent | LocalEvent;

export function isLocal(event: ViewEvent): event is LocalEvent {
  return event.kind.startsWith('local.');
}
