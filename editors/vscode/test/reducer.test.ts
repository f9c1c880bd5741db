import { expect, test } from 'vitest';
import type { StatusResult } from '../src/generated/protocol';
import { MAX_ITEMS, reduce } from '../src/session/reducer';
import { endText, MAX_RESULT, putBack } from '../src/session/shown';
import { EMPTY, isBusy, type QueuedItem, type SessionState } from '../src/session/state';
import type { EventKind } from '../src/generated/protocol';
import type { ServerEvent, ViewEvent } from '../src/session/wire';

const event = (kind: EventKind, fields: Record<string, unknown> = {}, turn = 1): ServerEvent => ({
  sessionId: 's',
  turn,
  kind,
  ...fields,
});
const after = (...events: ViewEvent[]): SessionState => events.reduce(reduce, EMPTY);

const TURN: ServerEvent[] = [
  event('turn.start', { text: 'fix it' }),
  event('thinking', { delta: 'hm' }),
  event('thinking', { delta: 'm' }),
  event('text', { delta: 'I re' }),
  event('text', { delta: 'ad.' }),
  event('tool.start', { callId: 'c1', name: 'read' }),
  event('tool.delta', { callId: 'c1', name: 'read', parameter: 'path', delta: 'a.' }),
  event('tool.delta', { callId: 'c1', name: 'read', parameter: 'path', delta: 'py' }),
  event('tool.call', { callId: 'c1', name: 'read', arguments: { path: 'a.py', max_lines: 5 } }),
  event('tool.result', { callId: 'c1', name: 'read', ok: true, text: 'x = 1' }),
  event('edit', { uri: 'file:///a.py', fileTag: 'abc', startLine: 1, endLine: 2 }),
  event('text', { delta: 'Done.' }),
  event('turn.end', { stopReason: 'end' }),
];

test('a turn becomes items in the order of its events', () => {
  const state = after(...TURN);
  expect(state.items.map((item) => item.kind)).toEqual(['user', 'thinking', 'text', 'tool', 'edit', 'text']);
  expect(state.items[2]).toMatchObject({ text: 'I read.', open: false });
  expect(state.items[3]).toMatchObject({
    parameters: { path: 'a.py', max_lines: '5' },
    state: 'done',
    result: 'x = 1',
  });
  expect(state.running).toBe(false);
  expect(new Set(state.items.map((item) => item.id)).size).toBe(6);
});

test('arguments are visible while they are written', () => {
  const state = after(...TURN.slice(0, 7));
  expect(state.items.at(-1)).toMatchObject({ kind: 'tool', state: 'writing', parameters: { path: 'a.' } });
  expect(isBusy(state)).toBe(true);
});

test('an event changes no state that was seen before, and no item that it is not about', () => {
  let state = EMPTY;
  for (const one of TURN) {
    const before = structuredClone(state);
    const next = reduce(state, one);
    expect(state).toEqual(before);
    const changed = state.items.filter((item, index) => next.items[index] !== item);
    expect(changed.length).toBeLessThanOrEqual(1);
    state = next;
  }
});

test('a call that was dropped by a stop is not shown as running', () => {
  const state = after(...TURN.slice(0, 9), event('turn.end', { stopReason: 'cancelled' }));
  expect(state.items.find((item) => item.kind === 'tool')).toMatchObject({ state: 'dropped' });
  expect(state.items.at(-1)).toMatchObject({ kind: 'stopped', reason: 'cancelled' });
  expect(isBusy(state)).toBe(false);
});

test('what another session does is not shown in this one', () => {
  const state = after(...TURN, { ...event('text', { delta: 'alien' }), sessionId: 'other' });
  expect(JSON.stringify(state.items)).not.toContain('alien');
});

test('a compaction streams its summary, then says how it ended and where it lies', () => {
  const start = event('compaction.start', { trigger: 'soft', tokens: 9 }, 0);
  const running = after(start, event('compaction.delta', { delta: 'sum' }, 0));
  expect(running.items[0]).toMatchObject({ kind: 'compaction', summary: 'sum', state: 'running' });
  const ended = reduce(running, event('compaction.end', { compacted: true, reason: '' }, 0));
  const placed = reduce(ended, { kind: 'local.checkpoint', seq: 12 });
  expect(placed.items[0]).toMatchObject({ state: 'done', seq: 12 });
  expect(after(start, event('compaction.end', { compacted: false, reason: 'cancelled' }, 0)).items[0]).toMatchObject({
    state: 'failed',
    reason: 'cancelled',
  });
});

const waits = (text: string, seq: number): QueuedItem => ({ seq, text, held: false });

test('a prompt that starts leaves the queue, once', () => {
  const queued = { ...EMPTY, sessionId: 's', queue: ['a', 'b', 'a'].map(waits) };
  expect(reduce(queued, event('turn.start', { text: 'a' })).queue).toEqual([waits('b', 1), waits('a', 2)]);
});

test('a server that ends takes questions, queue and running turns with it', () => {
  const asked = after(...TURN.slice(0, 9), {
    kind: 'local.ask',
    id: 1,
    title: 't',
    detail: 'd',
    answers: ['Deny'],
  });
  expect(asked.approvals).toHaveLength(1);
  const ended = reduce(asked, { kind: 'local.server', server: 'stopped' });
  expect(ended).toMatchObject({ approvals: [], queue: [], running: false });
  expect(ended.items.some((item) => item.kind === 'tool' && item.state === 'running')).toBe(false);
});

test('an answered question goes', () => {
  const ask = (id: number): ViewEvent => ({ kind: 'local.ask', id, title: '', detail: '', answers: [] });
  expect(after(ask(1), ask(2), { kind: 'local.answered', id: 1 }).approvals.map((one) => one.id)).toEqual([2]);
});

test('the status fills the meter, and only this session’s queue', () => {
  const status: StatusResult = {
    state: 'generating',
    model: { name: 'm' },
    context: { used: 10, size: 100, percent: 10 },
    prefill: { done: 0, total: 0 },
    generation: { tokens: 5, tokensPerSecond: 7.5 },
    session: { sessionId: 's', title: 'T' },
    queue: [
      { sessionId: 's', text: 'mine', seq: 1, held: true },
      { sessionId: 'x', text: 'other', seq: 2, held: false },
    ],
    jobs: [],
  };
  const state = reduce({ ...EMPTY, sessionId: 's' }, { kind: 'local.status', status });
  expect(state).toMatchObject({
    title: 'T',
    queue: [{ seq: 1, text: 'mine', held: true }],
    meter: { model: 'm', percent: 10, tokensPerSecond: 7.5 },
  });
});

test('long results and long sessions are cut', () => {
  const result = event('tool.result', { callId: 'c1', ok: true, text: 'x'.repeat(MAX_RESULT + 5) });
  const tool = after(...TURN.slice(0, 9), result).items.find((item) => item.kind === 'tool');
  expect(tool?.kind === 'tool' && tool.result?.endsWith('… 5 more')).toBe(true);
  const many = Array.from({ length: MAX_ITEMS + 20 }, (_, turn) => event('turn.start', { text: `p${turn}` }, turn));
  const state = after(...many);
  expect(state.items).toHaveLength(MAX_ITEMS);
  expect(state.trimmed).toBe(true);
});

test.each([
  ['loading', [waits('wait for it', 1)], 0, true],
  ['loading', [{ ...waits('held', 1), held: true }], 0, false],
  ['loading', [], 0, false],
  [undefined, [], 1, true],
  ['idle', [{ ...waits('held', 1), held: true }], 0, false],
] as const)(
  'whether Stop is offered in the state %s with the queue %j and %d waiting: %s',
  (state, queue, count, busy) => {
    const meter = { ...EMPTY.meter, state };
    expect(isBusy(reduce({ ...EMPTY, queue, meter }, { kind: 'local.waiting', count }))).toBe(busy);
  },
);

test('a prompt that waits is shown as queued, until its turn starts', () => {
  const state = after(
    event('compaction.start', { trigger: 'manual' }, 0),
    event('queued', { text: 'and then', seq: 9 }),
  );
  expect(state.queue).toEqual([waits('and then', 9)]);
  expect(reduce(state, event('turn.start', { text: 'and then' })).queue).toEqual([]);
});

test('the queue is as it was told last', () => {
  const items = [{ seq: 3, text: 'changed', held: true }];
  expect(after(event('queued', { text: 'first' }), event('queue', { items })).queue).toEqual(items);
});

test('a turn that ran out of room says so, and names the setting only where no notice says why', () => {
  const ends = event('turn.end', { stopReason: 'length' });
  const told = (item: SessionState['items'][number] | undefined): string =>
    item?.kind === 'stopped' ? endText(item) : '';
  const limit = after(...TURN.slice(0, 5), ends);
  expect(told(limit.items.at(-1))).toBe('Ended: no room for more tokens (ds4.sampling.maxTokens).');
  const full = after(...TURN.slice(0, 5), event('notice', { text: '[Stopped: the context is full.]' }), ends);
  expect(full.items.at(-2)).toMatchObject({ kind: 'notice' });
  expect(told(full.items.at(-1))).toBe('Ended: no room for more tokens.');
});

test('why there is no server is kept until there is one', () => {
  const failed = after({ kind: 'local.server', server: 'stopped', problem: 'it did not answer' });
  expect(failed.meter).toMatchObject({ server: 'stopped', error: 'it did not answer' });
  expect(reduce(failed, { kind: 'local.server', server: 'starting' }).meter).not.toHaveProperty('error');
});

test('a prompt that was not sent is told, and what was typed meanwhile stays', () => {
  const state = after({ kind: 'local.unsent', text: 'fix it', reason: 'Not sent: no server', error: true });
  expect(state.items).toMatchObject([{ kind: 'error', text: 'Not sent: no server' }]);
  expect(putBack('fix it', '')).toBe('fix it');
  expect(putBack('fix it', 'and this')).toBe('fix it\nand this');
});
