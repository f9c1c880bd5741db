/** The input box: Enter sends, Shift+Enter breaks the line, the arrows at its edges walk through earlier prompts. */

import { putBack } from '../session/shown';
import { candidates } from '../session/slash';
import { find } from './chrome';
import { button, element } from './dom';

export interface Draft {
  text: string;
}

export class Composer {
  private readonly box: HTMLTextAreaElement;
  private readonly words: HTMLElement;
  private prompts: readonly string[] = [];
  /** Place in the history; its length is the draft. */
  private at = 0;
  private draft = '';

  constructor(
    form: HTMLElement,
    private readonly send: (text: string) => void,
    private readonly keep: (draft: Draft) => void,
  ) {
    this.box = find(form, 'textarea') as HTMLTextAreaElement;
    this.words = find(form, '#words');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener('keydown', (event) => this.onKey(event));
    this.box.addEventListener('input', () => {
      this.at = this.prompts.length;
      this.changed();
    });
  }

  setPrompts(prompts: readonly string[]): void {
    this.prompts = prompts;
    this.at = prompts.length;
  }

  restore(draft: Draft): void {
    this.box.value = draft.text;
    this.grow();
  }

  /** A prompt that was not sent. */
  takeBack(text: string): void {
    this.box.value = putBack(text, this.box.value);
    this.at = this.prompts.length;
    this.changed();
  }

  focus(): void {
    this.box.focus();
  }

  /** Write the slash word `name` out. */
  complete(name: string): void {
    this.box.value = `/${name} `;
    this.changed();
    this.box.focus();
  }

  private submit(): void {
    // A space at the beginning makes a prompt of what looks like a command.
    const text = this.box.value.trimEnd();
    if (!text.trim()) return;
    this.prompts = [...this.prompts.filter((prompt) => prompt !== text), text];
    this.at = this.prompts.length;
    this.box.value = '';
    this.changed();
    this.send(text);
  }

  private onKey(event: KeyboardEvent): void {
    // Enter that ends a composition (Japanese, Chinese…) belongs to the input method.
    if (event.isComposing) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === 'Tab' && !event.shiftKey && this.words.firstElementChild) {
      event.preventDefault();
      this.complete(candidates(this.box.value)[0]?.name ?? '');
    } else if (event.key === 'ArrowUp' && this.box.selectionEnd === 0) {
      this.walk(-1, event);
    } else if (event.key === 'ArrowDown' && this.box.selectionStart === this.box.value.length) {
      this.walk(1, event);
    }
  }

  private walk(step: number, event: KeyboardEvent): void {
    const next = this.at + step;
    if (next < 0 || next > this.prompts.length) return;
    event.preventDefault();
    if (this.at === this.prompts.length) this.draft = this.box.value;
    this.at = next;
    this.box.value = this.prompts[next] ?? this.draft;
    const caret = step < 0 ? 0 : this.box.value.length;
    this.box.setSelectionRange(caret, caret);
    this.changed();
  }

  private changed(): void {
    this.grow();
    this.offer();
    this.keep({ text: this.box.value });
  }

  private offer(): void {
    const rows = candidates(this.box.value).map(({ name, usage, help }) =>
      element('li', {}, button(`/${name} ${usage}`.trim(), 'slash', { 'data-name': name }), element('span', {}, help)),
    );
    this.words.replaceChildren(...rows);
  }

  private grow(): void {
    this.box.rows = Math.min(10, Math.max(2, this.box.value.split('\n').length));
  }
}
