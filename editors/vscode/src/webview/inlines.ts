/** Markdown inside a line. Pure. */

export type Inline =
  | { kind: 'text' | 'code'; text: string }
  | { kind: 'strong' | 'em' | 'strike'; content: Inline[] }
  | { kind: 'link'; href: string; content: Inline[] }
  | { kind: 'break' };

const CODE = /^(`+)([^`]|[^`][^]*?[^`])\1(?!`)/;
const STRONG = /^(\*\*|__)(?=\S)([^]*?\S)\1/;
const EM = /^([*_])(?=\S)([^]*?[^\s*_])\1(?![\p{L}\p{N}])/u;
const STRIKE = /^~~(?=\S)([^]*?\S)~~/;
const LINK =
  /^!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/;
const BARE = /^https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]}*_]/;
const ESCAPE = /^\\([\\`*_{}[\]()#+\-.!~>|<])/;
const BREAK = /^(?: {2,}|\\)\n/;
/** Levels of nesting. */
const DEEPEST = 6;
/** UTF-16 units in which a span has to end: what never ends must not be searched again and again. */
const WINDOW = 2000;

export function inlines(text: string, depth = 0): Inline[] {
  const found: Inline[] = [];
  let plain = '';
  const push = (inline: Inline): void => {
    if (plain) found.push({ kind: 'text', text: plain });
    plain = '';
    found.push(inline);
  };
  for (let at = 0; at < text.length;) {
    const taken = SPECIAL.test(text[at] ?? '') ? take(text, at, depth) : undefined;
    if (!taken) {
      plain += text[at++] ?? '';
    } else if ('plain' in taken) {
      plain += taken.plain;
      at += taken.length;
    } else {
      push(taken.inline);
      at += taken.length;
    }
  }
  if (plain) found.push({ kind: 'text', text: plain });
  return found;
}

const SPECIAL = /[`*_~![\\h \n]/;

type Taken = { inline: Inline; length: number } | { plain: string; length: number };

function take(text: string, at: number, depth: number): Taken | undefined {
  const rest = text.slice(at, at + WINDOW);
  const before = text[at - 1] ?? ' ';
  let match: RegExpExecArray | null;
  if ((match = ESCAPE.exec(rest))) return { plain: match[1] ?? '', length: 2 };
  if ((match = BREAK.exec(rest))) return { inline: { kind: 'break' }, length: match[0].length };
  if ((match = CODE.exec(rest))) {
    const inner = (match[2] ?? '').replaceAll('\n', ' ').replace(/^ (.*\S.*) $/, '$1');
    return { inline: { kind: 'code', text: inner }, length: match[0].length };
  }
  if (rest.startsWith('`')) {
    const run = /^`+/.exec(rest)?.[0] ?? '`';
    return { plain: run, length: run.length };
  }
  if (depth >= DEEPEST) return undefined;
  if ((match = LINK.exec(rest))) return link(match, depth);
  const inWord = /[\p{L}\p{N}]/u.test(before);
  if (!inWord && (match = BARE.exec(rest))) {
    const content: Inline[] = [{ kind: 'text', text: match[0] }];
    return { inline: { kind: 'link', href: match[0], content }, length: match[0].length };
  }
  if (inWord && rest.startsWith('_')) return undefined;
  if ((match = STRONG.exec(rest))) return nested('strong', match, match[2] ?? '', depth);
  if ((match = EM.exec(rest))) return nested('em', match, match[2] ?? '', depth);
  if ((match = STRIKE.exec(rest))) return nested('strike', match, match[1] ?? '', depth);
  return undefined;
}

function nested(kind: 'strong' | 'em' | 'strike', match: RegExpExecArray, inner: string, depth: number): Taken {
  return { inline: { kind, content: inlines(inner, depth + 1) }, length: match[0].length };
}

/** A link that is not to the web stays as it was written. */
function link(match: RegExpExecArray, depth: number): Taken {
  const href = safeHref(match[2] ?? '');
  if (href === undefined || match[0].startsWith('!')) return { plain: match[0], length: match[0].length };
  const content = inlines(match[1] || href, depth + 1);
  return { inline: { kind: 'link', href, content }, length: match[0].length };
}

/** The address of a link that may be opened; undefined for any other. */
export function safeHref(address: string): string | undefined {
  if (!/^https?:\/\//i.test(address)) return undefined;
  try {
    const url = new URL(address);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : undefined;
  } catch {
    return undefined;
  }
}
