import { expect, test } from 'vitest';
import { decode, hasMixedEndings, splice } from '../src/edits/bytes';

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

test.each([
  ['plain', utf8('one\ntwo 😀\n'), 'one\ntwo 😀\n'],
  ['UTF-8 with BOM', Uint8Array.from([0xef, 0xbb, 0xbf, 0x61]), 'a'],
  ['UTF-16 little endian', Uint8Array.from([0xff, 0xfe, 0x61, 0, 0x3d, 0xd8, 0, 0xde]), 'a😀'],
  ['UTF-16 big endian', Uint8Array.from([0xfe, 0xff, 0, 0x61]), 'a'],
])('%s comes back byte for byte', (_name, bytes, text) => {
  const decoded = decode(bytes);
  expect(decoded?.text).toBe(text);
  expect(decoded?.encode(text)).toEqual(bytes);
});

test('bytes that are no text are not decoded', () => {
  expect(decode(Uint8Array.from([0x61, 0xff, 0x00]))).toBeUndefined();
});

test.each([
  ['', false],
  ['a\nb\n', false],
  ['a\r\nb\r\n', false],
  ['a\nb\r\n', true],
  ['a\rb\r', true],
])('mixed endings of %j: %s', (text, expected) => {
  expect(hasMixedEndings(text)).toBe(expected);
});

test('only LF, CRLF and CR end a line when a span is found', () => {
  const text = 'a\fb\u2028c\r\nd\re😀f\ng';
  expect(splice(text, { line: 2, character: 1 }, { line: 2, character: 3 }, '!')).toBe('a\fb\u2028c\r\nd\re!f\ng');
  expect(splice(text, { line: 3, character: 0 }, { line: 3, character: 1 }, 'G')).toBe('a\fb\u2028c\r\nd\re😀f\nG');
});
