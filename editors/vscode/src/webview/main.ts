/** The session view in the side bar: keeps a copy of the state, follows it by the same reducer as the extension. */

import './style.css';
import type { FromView, ToView } from '../view/messages';
import { reduce } from '../session/reducer';
import { EMPTY, type Item, type SessionState } from '../session/state';
import { find, renderApprovals, renderHead, renderHelp, renderJobs, renderQueue } from './chrome';
import { Composer, type Draft } from './composer';
import { createItem, updateItem } from './items';

const vscode = acquireVsCodeApi<Draft>();
const log = find(document, '#log');
const parts = Object.fromEntries(
  ['head', 'help', 'approvals', 'queue', 'jobs', 'composer', 'earlier'].map((name) => [
    name,
    find(document, `#${name}`),
  ]),
) as Record<'head' | 'help' | 'approvals' | 'queue' | 'jobs' | 'composer' | 'earlier', HTMLElement>;
const elements = new Map<number, { item: Item; element: HTMLElement }>();
let state: SessionState = EMPTY;
let scheduled = false;

const post = (message: FromView): void => vscode.postMessage(message);
const composer = new Composer(
  parts.composer,
  (text) => post({ type: 'prompt', text }),
  (draft) => vscode.setState(draft),
);

window.addEventListener('message', (event: MessageEvent<ToView>) => {
  const message = event.data;
  switch (message.type) {
    case 'state':
      state = message.state;
      composer.setPrompts(message.prompts);
      break;
    case 'events':
      state = message.events.reduce(reduce, state);
      break;
    case 'putBack':
      composer.takeBack(message.text);
      return;
    case 'focus':
      composer.focus();
      return;
  }
  schedule();
});

/** At most one drawing a frame, however many messages arrive. */
function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

function draw(): void {
  const scroller = find(document, '#scroll');
  const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40;
  renderHead(parts.head, state);
  renderHelp(parts.help, state);
  drawItems();
  parts.earlier.hidden = !state.trimmed;
  renderApprovals(parts.approvals, state.approvals);
  renderQueue(parts.queue, state.queue);
  renderJobs(parts.jobs, state.jobs);
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
}

function drawItems(): void {
  const wanted = new Set(state.items.map((item) => item.id));
  for (const [id, { element }] of elements) {
    if (wanted.has(id)) continue;
    element.remove();
    elements.delete(id);
  }
  for (const item of state.items) {
    const known = elements.get(item.id);
    if (!known) {
      const element = createItem(item);
      log.append(element);
      elements.set(item.id, { item, element });
    } else if (known.item !== item) {
      updateItem(known.element, item);
      known.item = item;
    }
  }
}

document.addEventListener('click', (event) => {
  const target = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-action]') : null;
  if (!target) return;
  event.preventDefault();
  act(target);
});

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && document.body.classList.contains('busy')) {
    post({ type: 'command', command: 'ds4-lsp.stop' });
  }
});

function act(target: HTMLElement): void {
  const data = target.dataset;
  const text = target.closest('.code')?.querySelector('pre')?.textContent ?? '';
  switch (data['action']) {
    case 'link':
      post({ type: 'link', href: target.getAttribute('href') ?? '' });
      break;
    case 'copy':
      post({ type: 'copy', text });
      break;
    case 'insert':
      post({ type: 'insert', text });
      break;
    case 'command':
      post({ type: 'command', command: data['command'] ?? '' });
      break;
    case 'answer':
      post({ type: 'answer', id: Number(data['id']), answer: data['answer'] ?? '' });
      break;
    case 'openFile':
      post({ type: 'openFile', uri: data['uri'] ?? '' });
      break;
    case 'openCheckpoint':
      post({ type: 'openCheckpoint', seq: Number(data['seq']) });
      break;
    case 'openEdit': {
      const { uri = '', tag = '', line = '1' } = data;
      post({ type: 'openEdit', uri, fileTag: tag, startLine: Number(line) });
      break;
    }
    case 'stopJob':
      post({ type: 'stopJob', job: Number(data['job']) });
      break;
    case 'unqueue':
    case 'editQueued':
    case 'sendQueued':
      post({ type: data['action'], seq: Number(data['seq']) });
      break;
    case 'slash':
      composer.complete(data['name'] ?? '');
      break;
    default:
  }
}

const kept = vscode.getState();
if (kept) composer.restore(kept);
post({ type: 'ready' });
