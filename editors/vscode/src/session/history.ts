/** From the history that the server keeps to items, so that a reloaded window shows what was there before. Pure. */

import type { Item, ToolItem } from './state';
import { clip, shown } from './shown';
import type { EditMark, HistoryEntry } from './wire';

interface Call {
  callId?: string;
  name?: string;
  arguments?: unknown;
}

type Draft = Item extends infer T ? (T extends Item ? Omit<T, 'id'> : never) : never;

/** `running`: the last turn has not ended. */
export function fromHistory(
  entries: readonly HistoryEntry[],
  edits: readonly EditMark[],
  firstId: number,
  running: boolean,
): { items: Item[]; nextId: number } {
  const drafts: Draft[] = [];
  const marks = [...edits].sort((one, other) => one.seq - other.seq);
  const first = entries[0]?.seq ?? 0;
  const last = lastReplies(entries, running);
  for (const entry of entries) {
    while (marks[0] && marks[0].seq < entry.seq) {
      const mark = marks.shift();
      if (mark && mark.seq >= first) drafts.push(ofEdit(mark));
    }
    take(entry, drafts, last.has(entry));
  }
  drafts.push(...marks.map(ofEdit));
  const items = drafts.map((draft, index): Item => ({ ...settled(draft), id: firstId + index }));
  return { items, nextId: firstId + items.length };
}

/** The reply that each turn ended with. A turn goes on after a reply that a compaction cut. */
function lastReplies(entries: readonly HistoryEntry[], running: boolean): Set<HistoryEntry> {
  const last = new Map<number, HistoryEntry>();
  for (const entry of entries) if (entry.role === 'assistant') last.set(turnOf(entry), entry);
  if (running) last.delete(Math.max(...entries.map(turnOf)));
  return new Set(last.values());
}

function turnOf(entry: HistoryEntry): number {
  return Number(entry['turn'] ?? 0);
}

/** `ends`: its turn ended with it. */
function take(entry: HistoryEntry, drafts: Draft[], ends: boolean): void {
  const turn = turnOf(entry);
  switch (entry.role) {
    case 'user': {
      const places = Array.isArray(entry['context']) ? (entry['context'] as { uri?: string }[]) : [];
      const context = places.flatMap((place) => (place.uri ? [place.uri] : []));
      drafts.push({ kind: 'user', turn, text: entry.text, ...(context.length ? { context } : {}) });
      break;
    }
    case 'assistant': {
      if (typeof entry['thinking'] === 'string')
        drafts.push({ kind: 'thinking', turn, text: entry['thinking'], open: false });
      if (entry.text) drafts.push({ kind: 'text', turn, text: entry.text, open: false });
      for (const call of (entry['calls'] ?? []) as Call[]) {
        const { callId = '', name = '' } = call;
        drafts.push({ kind: 'tool', turn, callId, name, parameters: shown(call.arguments), state: 'running' });
      }
      if (ends && (entry['stop'] === 'cancelled' || entry['stop'] === 'length')) {
        // The log does not say which limit it was.
        drafts.push({ kind: 'stopped', turn, reason: entry['stop'], explained: true });
      }
      break;
    }
    case 'tool': {
      const tool = drafts.findLast((draft) => draft.kind === 'tool' && draft.callId === entry['callId']);
      const state = entry['ok'] === true ? 'done' : 'failed';
      if (tool?.kind === 'tool') Object.assign(tool, { state, result: clip(entry.text) } satisfies Partial<ToolItem>);
      break;
    }
    case 'compaction':
      drafts.push({ kind: 'compaction', turn, trigger: '', summary: entry.text, state: 'done', seq: entry.seq });
      break;
    default:
      drafts.push({ kind: 'notice', turn, text: entry.text });
  }
}

function ofEdit(mark: EditMark): Draft {
  const { turn, uri, fileTag, startLine, endLine } = mark;
  return { kind: 'edit', turn, uri, fileTag, startLine, endLine };
}

/** A call without a result was never carried out. */
function settled(draft: Draft): Draft {
  return draft.kind === 'tool' && draft.state === 'running' ? { ...draft, state: 'dropped' } : draft;
}
