/**
 * Markdown to blocks. Pure, and safe by its result: there is no node for HTML, so a model's HTML stays text, and a link
 * exists only to http and https, so `command:`, `file:`, `javascript:` and the like stay text too.
 */

import { inlines, type Inline } from './inlines';

export type Block =
  | { kind: 'heading'; level: number; content: Inline[] }
  | { kind: 'paragraph'; content: Inline[] }
  | { kind: 'code'; language: string; text: string; closed: boolean }
  | { kind: 'list'; ordered: boolean; start: number; items: Block[][] }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' };

const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)? *$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])( +|$)(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^ {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
/** Levels of nesting; what is deeper is a paragraph. */
const DEEPEST = 12;

export function parse(text: string): Block[] {
  return blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}

function blocks(lines: string[], depth: number): Block[] {
  const found: Block[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? '';
    if (!line.trim()) {
      at++;
      continue;
    }
    const taken = depth < DEEPEST ? take(lines, at, depth) : undefined;
    const [block, next] = taken ?? paragraph(lines, at, depth);
    found.push(block);
    at = next;
  }
  return found;
}

type Taken = [block: Block, next: number];

function take(lines: string[], at: number, depth: number): Taken | undefined {
  const line = lines[at] ?? '';
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence[1] ?? '', fence[2] ?? '');
  const heading = HEADING.exec(line);
  if (heading)
    return [{ kind: 'heading', level: (heading[1] ?? '').length, content: inlines(heading[2] ?? '') }, at + 1];
  if (RULE.test(line)) return [{ kind: 'rule' }, at + 1];
  if (QUOTE.test(line)) return quote(lines, at, depth);
  if (ITEM.test(line)) return list(lines, at, depth);
  if (line.includes('|') && DIVIDER.test(lines[at + 1] ?? '') && (lines[at + 1] ?? '').includes('-'))
    return table(lines, at);
  return undefined;
}

/** Whether a line begins a block of its own, and so ends a paragraph. */
function starts(lines: string[], at: number): boolean {
  const line = lines[at] ?? '';
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));
}

function code(lines: string[], at: number, fence: string, language: string): Taken {
  const closing = new RegExp(`^ {0,3}${fence[0] === '~' ? '~' : '`'}{${fence.length},} *$`);
  const end = lines.findIndex((line, index) => index > at && closing.test(line));
  const closed = end >= 0;
  const text = lines.slice(at + 1, closed ? end : lines.length).join('\n');
  return [{ kind: 'code', language, text, closed }, closed ? end + 1 : lines.length];
}

function quote(lines: string[], at: number, depth: number): Taken {
  const inner: string[] = [];
  let next = at;
  for (; next < lines.length; next++) {
    const match = QUOTE.exec(lines[next] ?? '');
    if (!match) break;
    inner.push(match[1] ?? '');
  }
  return [{ kind: 'quote', blocks: blocks(inner, depth + 1) }, next];
}

function list(lines: string[], at: number, depth: number): Taken {
  const first = ITEM.exec(lines[at] ?? '');
  const ordered = first?.[3] !== undefined;
  const items: string[][] = [];
  let indent = 0;
  let next = at;
  for (; next < lines.length; next++) {
    const line = lines[next] ?? '';
    const item = ITEM.exec(line);
    if (item && (item[3] !== undefined) === ordered && (items.length === 0 || leading(line) < indent)) {
      indent = (item[1] ?? '').length + (item[2] ?? '').length + Math.min(4, Math.max(1, (item[4] ?? '').length));
      items.push([item[5] ?? '']);
    } else if (!line.trim()) {
      const after = lines[next + 1] ?? '';
      if (!after.trim() || (leading(after) < indent && !ITEM.test(after))) break;
      items.at(-1)?.push('');
    } else if (leading(line) >= indent) {
      items.at(-1)?.push(line.slice(indent));
    } else if (item || starts(lines, next) || (lines[next - 1] ?? '').trim() === '') {
      break;
    } else {
      items.at(-1)?.push(line.trim());
    }
  }
  const start = Number(first?.[3] ?? 1);
  return [{ kind: 'list', ordered, start, items: items.map((item) => blocks(item, depth + 1)) }, next];
}

function leading(line: string): number {
  return line.length - line.trimStart().length;
}

function table(lines: string[], at: number): Taken {
  const head = cells(lines[at] ?? '');
  const rows: Inline[][][] = [];
  let next = at + 2;
  for (; next < lines.length && (lines[next] ?? '').includes('|'); next++) {
    const row = cells(lines[next] ?? '').slice(0, head.length);
    rows.push(row);
  }
  return [{ kind: 'table', head, rows }, next];
}

function cells(line: string): Inline[][] {
  const inner = line
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => inlines(cell.trim().replaceAll('\\|', '|')));
}

function paragraph(lines: string[], at: number, depth: number): Taken {
  let next = at + 1;
  while (next < lines.length && (lines[next] ?? '').trim() && (depth >= DEEPEST || !starts(lines, next))) next++;
  const text = lines.slice(at, next).map((line) => line.trimStart());
  return [{ kind: 'paragraph', content: inlines(text.join('\n')) }, next];
}
