/** What passes between the extension and its webview. */

import type { SessionState } from '../session/state';
import type { ViewEvent } from '../session/wire';

export type ToView =
  | { type: 'state'; state: SessionState; prompts: readonly string[] }
  | { type: 'events'; events: readonly ViewEvent[] }
  | { type: 'putBack'; text: string }
  | { type: 'focus' };

export type FromView =
  | { type: 'ready' }
  | { type: 'prompt'; text: string }
  | { type: 'command'; command: string }
  | { type: 'answer'; id: number; answer: string }
  | { type: 'openEdit'; uri: string; fileTag: string; startLine: number }
  | { type: 'openFile'; uri: string }
  | { type: 'openCheckpoint'; seq: number }
  | { type: 'stopJob'; job: number }
  | { type: 'unqueue'; seq: number }
  | { type: 'editQueued'; seq: number }
  | { type: 'sendQueued'; seq: number }
  | { type: 'link'; href: string }
  | { type: 'copy'; text: string }
  | { type: 'insert'; text: string };

/** Commands that the view may run. */
export const COMMANDS = [
  'ds4-lsp.stop',
  'ds4-lsp.sendQueued',
  'ds4-lsp.newSession',
  'ds4-lsp.showHistory',
  'ds4-lsp.undoTurn',
  'ds4-lsp.loadModel',
  'ds4-lsp.install',
  'ds4-lsp.restartServer',
  'ds4-lsp.openLogs',
  'ds4-lsp.openWalkthrough',
] as const;

const FIELDS: Record<FromView['type'], Record<string, 'string' | 'number'>> = {
  ready: {},
  prompt: { text: 'string' },
  command: { command: 'string' },
  answer: { id: 'number', answer: 'string' },
  openEdit: { uri: 'string', fileTag: 'string', startLine: 'number' },
  openFile: { uri: 'string' },
  openCheckpoint: { seq: 'number' },
  stopJob: { job: 'number' },
  unqueue: { seq: 'number' },
  editQueued: { seq: 'number' },
  sendQueued: { seq: 'number' },
  link: { href: 'string' },
  copy: { text: 'string' },
  insert: { text: 'string' },
};

/** Only messages of a known shape, and only commands of the list, come through. */
export function readMessage(message: unknown): FromView | undefined {
  if (typeof message !== 'object' || message === null || !('type' in message)) return undefined;
  const values = message as Record<string, unknown>;
  const fields = Object.hasOwn(FIELDS, String(values['type'])) ? FIELDS[values['type'] as FromView['type']] : undefined;
  if (!fields || !Object.entries(fields).every(([name, type]) => typeof values[name] === type)) return undefined;
  const found = values as unknown as FromView;
  if (found.type === 'command' && !(COMMANDS as readonly string[]).includes(found.command)) return undefined;
  return found;
}
