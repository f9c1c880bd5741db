import { expect, test } from 'vitest';
import { safeHref, type Inline } from '../src/webview/inlines';
import { parse, type Block } from '../src/webview/markdown';

/** Every link in a tree of blocks, wherever it is. */
function links(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(links);
  if (typeof node !== 'object' || node === null) return [];
  const own = 'kind' in node && node.kind === 'link' && 'href' in node ? [String(node.href)] : [];
  return [...own, ...Object.values(node).flatMap(links)];
}

function text(inlines: Inline[]): string {
  return inlines.map((one) => ('text' in one ? one.text : 'content' in one ? text(one.content) : '\n')).join('');
}

const first = (source: string): Block | undefined => parse(source)[0];

test.each([
  '[x](command:workbench.action.terminal.new)',
  '[x](javascript:alert(1))',
  '[x](JaVaScRiPt:alert(1))',
  '[x](data:text/html;base64,PHNjcmlwdD4=)',
  '[x](file:///etc/passwd)',
  '[x](vscode://evil/run)',
  '[x](//example.com)',
  '[x](http:javascript)',
  '![x](https://example.com/tracker.png)',
  '<command:workbench.action.quit>',
  '<a href="command:workbench.action.quit">x</a>',
  '- [x]( command:workbench.action.quit )',
  '| [x](command:a) |\n| --- |\n| [y](javascript:b) |',
])('%s is no link', (source) => {
  expect(links(parse(source)).filter((href) => !/^https?:\/\//.test(href))).toEqual([]);
  expect(JSON.stringify(parse(source))).not.toMatch(/"kind":"(html|image)"/);
});

test('HTML stays the text that it is', () => {
  const source = '<img src=x onerror=alert(1)><script>alert(1)</script>';
  expect(parse(source)).toEqual([{ kind: 'paragraph', content: [{ kind: 'text', text: source }] }]);
});

test('web links are links, with what they are called', () => {
  expect(parse('see [the *docs*](https://example.com/a_(b) "t") or https://example.com/c.')).toEqual([
    {
      kind: 'paragraph',
      content: [
        { kind: 'text', text: 'see ' },
        {
          kind: 'link',
          href: 'https://example.com/a_(b)',
          content: [
            { kind: 'text', text: 'the ' },
            { kind: 'em', content: [{ kind: 'text', text: 'docs' }] },
          ],
        },
        { kind: 'text', text: ' or ' },
        { kind: 'link', href: 'https://example.com/c', content: [{ kind: 'text', text: 'https://example.com/c' }] },
        { kind: 'text', text: '.' },
      ],
    },
  ]);
});

test.each(['command:x', 'http:/x', 'ftp://x', 'https://', ' https://x', 'javascript://x%0aalert(1)'])(
  'the address %j is not opened',
  (address) => {
    expect(safeHref(address)).toBeUndefined();
  },
);

test('a code block that is still streaming is shown, and what is in it stays as it is', () => {
  expect(first('```ts\nconst a = "<b>*x*</b>";')).toEqual({
    kind: 'code',
    language: 'ts',
    text: 'const a = "<b>*x*</b>";',
    closed: false,
  });
  expect(first('````md\n```\ninner\n```\n````')).toMatchObject({ text: '```\ninner\n```', closed: true });
});

test('lists nest, and keep their code blocks', () => {
  const block = first('1. one\n   ```\n   code\n   ```\n2. two\n   - deep\n     deeper');
  expect(block).toMatchObject({ kind: 'list', ordered: true, start: 1 });
  if (block?.kind !== 'list') throw new Error('no list');
  expect(block.items[0]?.map((one) => one.kind)).toEqual(['paragraph', 'code']);
  expect(block.items[1]?.map((one) => one.kind)).toEqual(['paragraph', 'list']);
});

test('a name with underscores is not emphasised', () => {
  expect(first('call snake_case_name and __init__ now')).toMatchObject({
    content: [{ text: 'call snake_case_name and ' }, { kind: 'strong' }, { text: ' now' }],
  });
});

test.each([
  ['*'.repeat(20_000)],
  ['[a]('.repeat(5000)],
  ['> '.repeat(3000) + 'x'],
  ['`a '.repeat(8000)],
  ['- '.repeat(3000) + 'x'],
])('hostile text %#: parsed in reasonable time, and nothing is lost', (source) => {
  const began = performance.now();
  expect(parse(source).length).toBeGreaterThan(0);
  expect(performance.now() - began).toBeLessThan(5000);
});

test('every prefix of a streamed text parses', () => {
  const source =
    '# T\n\nSome **bold** `code` [l](https://e.com).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n  1. y\n\n> q\n\n```js\nz\n```\n';
  for (let length = 0; length <= source.length; length++) parse(source.slice(0, length));
  expect(parse(source).map((block) => block.kind)).toEqual(['heading', 'paragraph', 'table', 'list', 'quote', 'code']);
  const paragraph = parse(source)[1];
  expect(paragraph?.kind === 'paragraph' && text(paragraph.content)).toBe('Some bold code l.');
});
