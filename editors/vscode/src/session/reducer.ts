/** From events to what the view shows. Pure: a new state for each event, items that did not change stay the same. */

import type { CompactionItem, Item, QueuedItem, SessionState, ToolItem } from './state';
import { fromHistory } from './history';
import { clip, shown } from './shown';
import { isLocal, type LocalEvent, type ServerEvent, type State, type StatusResult, type ViewEvent } from './wire';

export const MAX_ITEMS = 400;

export function reduce(state: SessionState, event: ViewEvent): SessionState {
  if (isLocal(event)) return local(state, event);
  if (event.kind === 'state') {
    return { ...state, meter: { ...state.meter, state: event['state'] as State } };
  }
  const adopted = state.sessionId === undefined ? { ...state, sessionId: event.sessionId } : state;
  return adopted.sessionId === event.sessionId ? trim(ofSession(adopted, event)) : state;
}

function ofSession(state: SessionState, event: ServerEvent): SessionState {
  const text = (name: string): string => (typeof event[name] === 'string' ? event[name] : '');
  switch (event.kind) {
    case 'turn.start':
      return {
        ...add(state, event.turn, { kind: 'user', text: text('text') }),
        running: true,
        queue: without(state.queue, text('text')),
      };
    case 'queued':
      return { ...state, queue: [...state.queue, { seq: event.seq ?? -1, text: text('text'), held: false }] };
    case 'queue':
      return { ...state, queue: (event['items'] ?? []) as QueuedItem[] };
    case 'text':
    case 'thinking':
      return stream(state, event, event.kind, text('delta'));
    case 'tool.start':
      return add(close(state), event.turn, {
        kind: 'tool',
        callId: text('callId'),
        name: text('name'),
        parameters: {},
        state: 'writing',
      });
    case 'tool.delta':
      return onTool(state, event, (tool) => ({
        ...tool,
        parameters: {
          ...tool.parameters,
          [text('parameter')]: (tool.parameters[text('parameter')] ?? '') + text('delta'),
        },
      }));
    case 'tool.call':
      return onTool(state, event, (tool) => ({ ...tool, parameters: shown(event['arguments']), state: 'running' }));
    case 'tool.result':
      return onTool(state, event, (tool) => ({
        ...tool,
        state: event['ok'] === true ? 'done' : 'failed',
        result: clip(text('text')),
      }));
    case 'edit':
      return add(state, event.turn, {
        kind: 'edit',
        uri: text('uri'),
        fileTag: text('fileTag'),
        startLine: Number(event['startLine'] ?? 1),
        endLine: Number(event['endLine'] ?? 1),
      });
    case 'context':
      return add(state, event.turn, { kind: 'context', text: text('text') });
    case 'notice':
      return add(state, event.turn, { kind: 'notice', text: text('text') });
    case 'compaction.start':
      return add(close(state), event.turn, {
        kind: 'compaction',
        trigger: text('trigger'),
        summary: '',
        state: 'running',
      });
    case 'compaction.delta':
      return onCompaction(state, (item) => ({ ...item, summary: item.summary + text('delta') }));
    case 'compaction.end':
      return onCompaction(state, (item) => ({
        ...item,
        state: event['compacted'] === true ? 'done' : 'failed',
        reason: text('reason'),
      }));
    case 'turn.end':
      return end(state, event.turn, text('stopReason'), text('error'));
    default:
      return state;
  }
}

function local(state: SessionState, event: LocalEvent): SessionState {
  switch (event.kind) {
    case 'local.status':
      return status(state, event.status);
    case 'local.server': {
      const live = event.server === 'running' || event.server === 'starting';
      const meter = { ...state.meter, server: event.server, state: live ? state.meter.state : undefined };
      if (event.problem === undefined) delete meter.error;
      else meter.error = event.problem;
      return live ? { ...state, meter } : { ...end(state, 0, 'end', ''), meter, queue: [], jobs: [], approvals: [] };
    }
    case 'local.session': {
      const { sessionId, title } = event;
      const running = state.running && sessionId === state.sessionId;
      const { items, nextId } = fromHistory(event.history, event.edits, state.nextId, running);
      const trimmed = items.some((item) => item.turn > 0) && (items.find((item) => item.turn > 0)?.turn ?? 1) > 1;
      return trim({ ...state, sessionId, title, items, nextId, trimmed, running });
    }
    case 'local.notice':
      return trim(add(state, 0, { kind: event.error ? 'error' : 'notice', text: event.text }));
    case 'local.waiting':
      return { ...state, waiting: event.count };
    case 'local.unsent':
      return trim(add(state, 0, { kind: event.error ? 'error' : 'notice', text: event.reason }));
    case 'local.prompt':
      return trim(add(state, 0, { kind: 'user', text: event.text }));
    case 'local.checkpoint':
      return onCompaction(state, (item) => ({ ...item, seq: event.seq }), 'done');
    case 'local.ask': {
      const { id, title, detail, answers } = event;
      return { ...state, approvals: [...state.approvals, { id, title, detail, answers }] };
    }
    case 'local.answered':
      return { ...state, approvals: state.approvals.filter((approval) => approval.id !== event.id) };
  }
}

function status(state: SessionState, found: StatusResult): SessionState {
  const session = (found.session ?? {}) as { sessionId?: string; title?: string };
  const ours = session.sessionId === state.sessionId;
  const waiting = found.queue as unknown as (QueuedItem & { sessionId: string })[];
  const model = found.model?.['name'];
  const { server } = state.meter;
  return {
    ...state,
    title: ours ? (session.title ?? '') : state.title,
    queue: waiting
      .filter((item) => item.sessionId === state.sessionId)
      .map(({ seq, text, held }) => ({ seq, text, held })),
    jobs: found.jobs,
    meter: {
      server,
      state: found.state,
      ...(found.error ? { error: found.error } : {}),
      ...(typeof model === 'string' ? { model } : {}),
      ...found.context,
      tokensPerSecond: found.generation.tokensPerSecond,
      prefill: found.prefill,
    },
  };
}

type Bare<T> = T extends Item ? Omit<T, 'id' | 'turn'> : never;

export function add(state: SessionState, turn: number, item: Bare<Item>): SessionState {
  const whole = { ...item, id: state.nextId, turn };
  return { ...state, items: [...state.items, whole], nextId: state.nextId + 1 };
}

function stream(state: SessionState, event: ServerEvent, kind: 'text' | 'thinking', delta: string): SessionState {
  const last = state.items.at(-1);
  if (last?.kind === kind && last.open && last.turn === event.turn) {
    return replaceAt(state, state.items.length - 1, { ...last, text: last.text + delta });
  }
  return add(close(state), event.turn, { kind, text: delta, open: true });
}

/** Nothing is appended any more to the text that was streamed last. */
function close(state: SessionState): SessionState {
  const last = state.items.at(-1);
  const open = (last?.kind === 'text' || last?.kind === 'thinking') && last.open;
  return open ? replaceAt(state, state.items.length - 1, { ...last, open: false }) : state;
}

function end(state: SessionState, turn: number, reason: string, error: string): SessionState {
  const items = state.items.map((item): Item => {
    if ((item.kind === 'text' || item.kind === 'thinking') && item.open) return { ...item, open: false };
    if (item.kind === 'tool' && (item.state === 'writing' || item.state === 'running'))
      return { ...item, state: 'dropped' };
    return item;
  });
  let ended: SessionState = { ...state, items, running: false };
  if (reason === 'cancelled' || reason === 'length') {
    const before = state.items.at(-1);
    const explained = before?.kind === 'notice' && before.turn === turn;
    ended = add(ended, turn, { kind: 'stopped', reason, explained });
  }
  return error ? add(ended, turn, { kind: 'error', text: error }) : ended;
}

function onTool(state: SessionState, event: ServerEvent, change: (tool: ToolItem) => ToolItem): SessionState {
  const index = state.items.findLastIndex((item) => item.kind === 'tool' && item.callId === event['callId']);
  const tool = state.items[index];
  return tool?.kind === 'tool' ? replaceAt(state, index, change(tool)) : state;
}

function onCompaction(
  state: SessionState,
  change: (item: CompactionItem) => CompactionItem,
  wanted: CompactionItem['state'] = 'running',
): SessionState {
  const index = state.items.findLastIndex((item) => item.kind === 'compaction' && item.state === wanted);
  const item = state.items[index];
  return item?.kind === 'compaction' ? replaceAt(state, index, change(item)) : state;
}

function replaceAt(state: SessionState, index: number, item: Item): SessionState {
  return { ...state, items: state.items.with(index, item) };
}

function trim(state: SessionState): SessionState {
  if (state.items.length <= MAX_ITEMS) return state;
  return { ...state, items: state.items.slice(-MAX_ITEMS), trimmed: true };
}

function without(queue: readonly QueuedItem[], text: string): readonly QueuedItem[] {
  const index = queue.findIndex((item) => item.text === text && !item.held);
  return index < 0 ? queue : queue.toSpliced(index, 1);
}
