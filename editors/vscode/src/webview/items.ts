/** One element per item; an item that changed updates the element that it has. */

import { endText } from '../session/shown';
import type { CompactionItem, Item, TextItem, ToolItem } from '../session/state';
import { button, element, renderMarkdown } from './dom';

export function createItem(item: Item): HTMLElement {
  const made = shell(item);
  made.dataset['kind'] = item.kind;
  updateItem(made, item);
  return made;
}

export function updateItem(target: HTMLElement, item: Item): void {
  switch (item.kind) {
    case 'text':
      target.setAttribute('aria-busy', String(item.open));
      renderMarkdown(target, item.text);
      break;
    case 'thinking':
      updateThinking(target, item);
      break;
    case 'tool':
      updateTool(target, item);
      break;
    case 'compaction':
      updateCompaction(target, item);
      break;
    default:
  }
}

function shell(item: Item): HTMLElement {
  switch (item.kind) {
    case 'user': {
      const made = element('section', { class: 'item user', 'aria-label': 'You' }, element('pre', {}, item.text));
      for (const uri of item.context ?? []) made.append(fileButton(uri, nameOf(uri)));
      return made;
    }
    case 'text':
      return element('section', { class: 'item text', 'aria-label': 'DS4' });
    case 'thinking':
      return element(
        'details',
        { class: 'item thinking' },
        element('summary', {}, 'Thinking'),
        element('div', { class: 'body' }),
      );
    case 'tool':
      return element(
        'details',
        { class: 'item tool' },
        element('summary', {}, element('span', { class: 'name' }, item.name), element('span', { class: 'gist' })),
        element('div', { class: 'parameters' }),
        element('pre', { class: 'result', tabindex: '0', hidden: '' }),
      );
    case 'edit': {
      const { uri, fileTag, startLine } = item;
      const lines = item.endLine > startLine ? `lines ${startLine}–${item.endLine}` : `line ${startLine}`;
      const data = { 'data-uri': uri, 'data-tag': fileTag, 'data-line': String(startLine), class: 'link' };
      const link = button(`${nameOf(uri)}, ${lines}`, 'openEdit', { ...data, title: 'Show what changed' });
      return element('section', { class: 'item edit', 'aria-label': 'Edit' }, 'Edited ', link);
    }
    case 'context':
    case 'notice':
      return element('section', { class: `item notice ${item.kind}` }, element('pre', {}, item.text));
    case 'error':
      return element('section', { class: 'item error', role: 'alert' }, element('pre', {}, item.text));
    case 'stopped': {
      return element('section', { class: 'item stopped' }, endText(item));
    }
    case 'compaction':
      return element(
        'details',
        { class: 'item compaction', open: '' },
        element('summary'),
        element('div', { class: 'body' }),
        element('div', { class: 'foot' }),
      );
  }
}

function updateThinking(target: HTMLElement, item: TextItem): void {
  part(target, 'summary').textContent = item.open ? 'Thinking…' : 'Thought';
  renderMarkdown(part(target, '.body'), item.text);
}

const TOOL_STATES: Record<ToolItem['state'], string> = {
  writing: 'writing…',
  running: 'running…',
  done: 'done',
  failed: 'failed',
  dropped: 'not run',
};

function updateTool(target: HTMLElement, item: ToolItem): void {
  target.dataset['state'] = item.state;
  part(target, '.gist').textContent = `${gist(item)} — ${TOOL_STATES[item.state]}`;
  const parameters = part(target, '.parameters');
  Object.entries(item.parameters).forEach(([name, value], index) => {
    const row = parameters.children[index] ?? parameters.appendChild(element('div', {}, element('b'), element('pre')));
    part(row, 'b').textContent = name;
    part(row, 'pre').textContent = value;
  });
  const result = part(target, '.result');
  result.hidden = item.result === undefined;
  result.textContent = item.result ?? '';
}

/** The argument that says most, in one line. */
function gist(item: ToolItem): string {
  const { command, path, pattern } = item.parameters;
  const text = command ?? path ?? pattern ?? Object.values(item.parameters)[0] ?? '';
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 80 || line.length < text.length ? `${line.slice(0, 80)}…` : line;
}

const COMPACTION_STATES: Record<CompactionItem['state'], string> = {
  running: 'COMPACTING',
  done: 'COMPACTED',
  failed: 'NOT COMPACTED',
};

function updateCompaction(target: HTMLElement, item: CompactionItem): void {
  target.dataset['state'] = item.state;
  target.setAttribute('aria-busy', String(item.state === 'running'));
  const reason = item.reason?.replace(/^not compacted: /, '');
  const why = [item.trigger, reason].filter(Boolean).join(', ');
  part(target, 'summary').textContent = COMPACTION_STATES[item.state] + (why ? ` (${why})` : '');
  renderMarkdown(part(target, '.body'), item.summary);
  const foot = part(target, '.foot');
  if (item.seq !== undefined && foot.childElementCount === 0) {
    foot.append(button('Show what it stands for', 'openCheckpoint', { 'data-seq': String(item.seq), class: 'link' }));
  }
}

export function fileButton(uri: string, label: string): HTMLButtonElement {
  return button(label, 'openFile', { 'data-uri': uri, class: 'link' });
}

function nameOf(uri: string): string {
  const last = uri.slice(uri.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

function part(target: Element, selector: string): HTMLElement {
  const found = target.querySelector<HTMLElement>(`:scope > ${selector}, :scope > summary > ${selector}`);
  if (!found) throw new Error(`no ${selector} in ${target.className}`);
  return found;
}
