/** Blocks to elements. Text only ever becomes a text node. */

import { parse, type Block } from './markdown';
import type { Inline } from './inlines';

type Child = Node | string;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function button(label: string, action: string, attributes: Record<string, string> = {}): HTMLButtonElement {
  return element('button', { type: 'button', 'data-action': action, ...attributes }, label);
}

const shownBlocks = new WeakMap<Element, string[]>();

/** Show `text` in `target`. Blocks that did not change keep their elements, so that streaming costs little. */
export function renderMarkdown(target: Element, text: string): void {
  const blocks = parse(text);
  const keys = blocks.map((block) => JSON.stringify(block));
  const before = shownBlocks.get(target) ?? [];
  let same = 0;
  while (same < keys.length && keys[same] === before[same]) same++;
  while (target.children.length > same) target.lastElementChild?.remove();
  target.append(...blocks.slice(same).map(blockElement));
  shownBlocks.set(target, keys);
}

function blockElement(block: Block): HTMLElement {
  switch (block.kind) {
    case 'heading':
      // The view has headings of its own above: the model's begin below them.
      return element(`h${Math.min(6, block.level + 2)}` as 'h3', {}, ...block.content.map(inlineNode));
    case 'paragraph':
      return element('p', {}, ...block.content.map(inlineNode));
    case 'code':
      return codeElement(block.language, block.text);
    case 'rule':
      return element('hr');
    case 'quote':
      return element('blockquote', {}, ...block.blocks.map(blockElement));
    case 'list': {
      const items = block.items.map((item) => element('li', {}, ...listItem(item)));
      return block.ordered ? element('ol', { start: String(block.start) }, ...items) : element('ul', {}, ...items);
    }
    case 'table': {
      const row = (cells: Inline[][], name: 'td' | 'th'): HTMLElement =>
        element('tr', {}, ...cells.map((cell) => element(name, {}, ...cell.map(inlineNode))));
      const head = element('thead', {}, row(block.head, 'th'));
      return element('table', {}, head, element('tbody', {}, ...block.rows.map((cells) => row(cells, 'td'))));
    }
  }
}

/** A paragraph at the head of an item is the item's own text. */
function listItem(blocks: Block[]): Child[] {
  const [first, ...rest] = blocks;
  if (first?.kind !== 'paragraph') return blocks.map(blockElement);
  return [...first.content.map(inlineNode), ...rest.map(blockElement)];
}

export function codeElement(language: string, text: string): HTMLElement {
  const bar = element('div', { class: 'code-bar' }, element('span', {}, language || 'text'));
  bar.append(button('Copy', 'copy'), button('Insert', 'insert', { title: 'Insert at the cursor' }));
  return element('div', { class: 'code' }, bar, element('pre', { tabindex: '0' }, element('code', {}, text)));
}

function inlineNode(inline: Inline): Node {
  switch (inline.kind) {
    case 'text':
      return document.createTextNode(inline.text);
    case 'code':
      return element('code', {}, inline.text);
    case 'break':
      return element('br');
    case 'link':
      return element('a', { href: inline.href, 'data-action': 'link' }, ...inline.content.map(inlineNode));
    case 'strong':
      return element('strong', {}, ...inline.content.map(inlineNode));
    case 'em':
      return element('em', {}, ...inline.content.map(inlineNode));
    case 'strike':
      return element('s', {}, ...inline.content.map(inlineNode));
  }
}
