/** Everything around the conversation: the state line, the context meter, questions, queue and jobs. */

import { isBusy, type Approval, type QueuedItem, type SessionState } from '../session/state';
import { button, element } from './dom';

const STATES: Record<string, string> = {
  loading: 'Loading the model…',
  idle: 'Ready',
  prefill: 'Reading…',
  generating: 'Writing…',
  tool: 'Running a tool…',
  compacting: 'COMPACTING…',
  error: 'Error',
  noModel: 'No model',
};

const SERVER: Record<string, string> = {
  stopped: 'The server is not running',
  starting: 'Starting the server…',
  missing: 'The server was not found',
};

/** One line on what happens now, for the head of the view. */
export function stateLine(state: SessionState): string {
  const { meter } = state;
  if (meter.server !== 'running') return SERVER[meter.server] ?? '';
  if (meter.state === 'prefill' && meter.prefill.total > 0) {
    return `Reading ${meter.prefill.done} of ${meter.prefill.total} tokens…`;
  }
  const speed =
    meter.state === 'generating' && meter.tokensPerSecond > 0 ? ` ${meter.tokensPerSecond.toFixed(1)} tokens/s` : '';
  return (STATES[meter.state ?? ''] ?? 'Starting…') + speed;
}

export function renderHead(target: HTMLElement, state: SessionState): void {
  const { meter } = state;
  const line = `${stateLine(state)}${meter.model ? ` · ${meter.model}` : ''}`;
  setText(find(target, '.state'), line);
  setText(find(target, '.title'), state.title || (state.sessionId ? 'Session' : 'New session'));
  const bar = find(target, 'meter') as HTMLMeterElement;
  bar.value = Math.min(100, meter.percent);
  const label = meter.size
    ? `Context: ${meter.used} of ${meter.size} tokens, ${Math.round(meter.percent)} %`
    : 'Context';
  bar.setAttribute('aria-label', label);
  bar.title = label;
  setText(find(target, '.percent'), meter.size ? `${Math.round(meter.percent)} %` : '');
  document.body.classList.toggle('busy', isBusy(state));
}

/** What the user can do when there is no server or no model. */
export function renderHelp(target: HTMLElement, state: SessionState): void {
  const { meter } = state;
  const key = `${meter.server} ${meter.state === 'noModel' || meter.state === 'error' ? meter.state : ''} ${meter.error ?? ''}`;
  if (target.dataset['key'] === key) return;
  target.dataset['key'] = key;
  const command = (label: string, id: string): HTMLElement => button(label, 'command', { 'data-command': id });
  if (meter.server === 'missing') {
    const text = 'DS4 needs its server, ds4-lsp, which was not found.';
    target.replaceChildren(
      element('p', {}, text),
      command('Install or choose it…', 'ds4-lsp.install'),
      command('Get started', 'ds4-lsp.openWalkthrough'),
    );
  } else if (meter.server === 'stopped') {
    const restart = command('Start the server', 'ds4-lsp.restartServer');
    target.replaceChildren(
      element('p', {}, meter.error ?? 'The server is not running.'),
      restart,
      command('Open the log', 'ds4-lsp.openLogs'),
    );
  } else if (meter.state === 'noModel' || meter.state === 'error') {
    const text =
      meter.state === 'noModel' ? 'No model is chosen yet.' : (meter.error ?? 'The model could not be loaded.');
    target.replaceChildren(element('p', {}, text), command('Load a model…', 'ds4-lsp.loadModel'));
  } else {
    target.replaceChildren();
  }
}

export function renderApprovals(target: HTMLElement, approvals: readonly Approval[]): void {
  const wanted = new Map(approvals.map((approval) => [String(approval.id), approval]));
  for (const card of [...target.children] as HTMLElement[]) {
    if (!wanted.delete(card.dataset['id'] ?? '')) card.remove();
  }
  for (const approval of wanted.values()) target.append(card(approval));
}

function card(approval: Approval): HTMLElement {
  const id = String(approval.id);
  const answers = approval.answers.map((answer) => button(answer, 'answer', { 'data-id': id, 'data-answer': answer }));
  return element(
    'section',
    {
      class: 'approval',
      role: 'alertdialog',
      'aria-labelledby': `ask-${id}`,
      'aria-describedby': `what-${id}`,
      'data-id': id,
    },
    element('h2', { id: `ask-${id}` }, approval.title),
    element('pre', { id: `what-${id}`, tabindex: '0' }, approval.detail),
    element('div', { class: 'answers' }, ...answers),
  );
}

export function renderQueue(target: HTMLElement, queue: readonly QueuedItem[]): void {
  if (!changed(target, queue)) return;
  const rows = queue.map(queued);
  const all = queue.every((item) => item.held) ? 'Send these' : 'Stop, and send these';
  const send = button(all, 'command', { 'data-command': 'ds4-lsp.sendQueued' });
  target.replaceChildren(...(rows.length ? [element('h2', {}, 'Queued'), element('ul', {}, ...rows), send] : []));
}

function queued({ seq, text, held }: QueuedItem): HTMLElement {
  const data = { 'data-seq': String(seq) };
  const label = (what: string): Record<string, string> => ({ ...data, 'aria-label': `${what}: ${text}` });
  const buttons = [button('Edit', 'editQueued', label('Edit')), button('Remove', 'unqueue', label('Remove'))];
  if (held) buttons.unshift(button('Send', 'sendQueued', label('Send')));
  const state = held ? [element('span', { class: 'held' }, 'waits for you')] : [];
  return element('li', {}, element('span', { class: 'queued' }, text), ...state, ...buttons);
}

export function renderJobs(target: HTMLElement, jobs: SessionState['jobs']): void {
  const running = jobs.filter((job) => job.state === 'running');
  const rows = running.map((job) => ({ job: job.job, command: job.command }));
  if (!changed(target, rows)) return;
  const items = rows.map(({ job, command }) => {
    const stop = button('Stop', 'stopJob', { 'data-job': String(job), 'aria-label': `Stop job ${job}` });
    return element('li', {}, element('code', {}, command), stop);
  });
  target.replaceChildren(...(items.length ? [element('h2', {}, 'Running commands'), element('ul', {}, ...items)] : []));
}

function changed(target: HTMLElement, value: unknown): boolean {
  const key = JSON.stringify(value);
  if (target.dataset['key'] === key) return false;
  target.dataset['key'] = key;
  return true;
}

function setText(target: HTMLElement, text: string): void {
  // A live region speaks at every write, also of the same text.
  if (target.textContent !== text) target.textContent = text;
}

export function find(target: ParentNode, selector: string): HTMLElement {
  const found = target.querySelector<HTMLElement>(selector);
  if (!found) throw new Error(`no ${selector}`);
  return found;
}
