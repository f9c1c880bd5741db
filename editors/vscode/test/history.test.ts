import { expect, test } from 'vitest';
import { reduce } from '../src/session/reducer';
import { EMPTY } from '../src/session/state';
import type { EditMark, HistoryEntry } from '../src/session/wire';

const entry = (seq: number, role: string, text: string, fields: Record<string, unknown> = {}): HistoryEntry => ({
  seq,
  role,
  text,
  turn: 1,
  ...fields,
});
const HISTORY = [
  entry(3, 'user', 'fix it', { context: [{ uri: 'file:///a.py' }] }),
  entry(4, 'assistant', 'I edit.', {
    calls: [{ callId: 'c1', name: 'edit', arguments: { path: 'a.py' } }],
    stop: 'tool',
    thinking: 'An edit, then.',
  }),
  entry(7, 'tool', 'ok', { callId: 'c1', name: 'edit', ok: true }),
  entry(8, 'assistant', 'Done.', { calls: [{ callId: 'c2', name: 'bash', arguments: {} }], stop: 'cancelled' }),
  entry(9, 'compaction', 'the summary'),
  entry(10, 'notice', 'a note'),
];
const EDITS: EditMark[] = [{ seq: 6, turn: 1, uri: 'file:///a.py', fileTag: 't', startLine: 1, endLine: 1 }];

test('a reloaded session shows what was there, edits at their place', () => {
  const state = reduce(EMPTY, { kind: 'local.session', sessionId: 's', title: 'T', history: HISTORY, edits: EDITS });
  expect(state.items.map((item) => item.kind)).toEqual([
    'user',
    'thinking',
    'text',
    'tool',
    'edit',
    'text',
    'tool',
    'stopped',
    'compaction',
    'notice',
  ]);
  expect(state.items[3]).toMatchObject({ state: 'done', result: 'ok' });
  expect(state.items[6]).toMatchObject({ state: 'dropped' });
  expect(state.items[8]).toMatchObject({ state: 'done', seq: 9, summary: 'the summary' });
  expect(state.trimmed).toBe(false);
});

test('events go on where the history ends', () => {
  const loaded = reduce(EMPTY, { kind: 'local.session', sessionId: 's', title: '', history: HISTORY, edits: [] });
  const state = reduce(loaded, { sessionId: 's', turn: 2, kind: 'turn.start', text: 'next' });
  expect(state.items.at(-1)).toMatchObject({ kind: 'user', text: 'next' });
  expect(new Set(state.items.map((item) => item.id)).size).toBe(state.items.length);
});

test('a history that begins in the middle says so', () => {
  const late = [entry(50, 'user', 'later', { turn: 7 })];
  const state = reduce(EMPTY, { kind: 'local.session', sessionId: 's', title: '', history: late, edits: EDITS });
  expect(state.trimmed).toBe(true);
  expect(state.items.map((item) => item.kind)).toEqual(['user']);
});

test('a reply that was cut is an ending only where its turn ended with it', () => {
  const cut = [
    entry(3, 'user', 'write much'),
    entry(4, 'assistant', 'Much', { stop: 'length' }),
    entry(5, 'compaction', 'the summary'),
  ];
  const kinds = (history: HistoryEntry[], running = false): string[] =>
    reduce(
      { ...EMPTY, sessionId: 's', running },
      { kind: 'local.session', sessionId: 's', title: '', history, edits: [] },
    ).items.map((item) => item.kind);
  expect(kinds(cut)).toEqual(['user', 'text', 'stopped', 'compaction']);
  expect(kinds(cut, true)).toEqual(['user', 'text', 'compaction']);
  const whole = [...cut, entry(6, 'assistant', 'more.', { stop: 'end' })];
  expect(kinds(whole)).toEqual(['user', 'text', 'compaction', 'text']);
  expect(kinds([...whole, entry(7, 'user', 'and?', { turn: 2 })])).not.toContain('stopped');
  const later = [...cut, entry(7, 'user', 'and?', { turn: 2 }), entry(8, 'assistant', 'No.', { turn: 2, stop: 'end' })];
  expect(kinds(later)).toContain('stopped');
  expect(kinds(later, true)).toContain('stopped');
});
