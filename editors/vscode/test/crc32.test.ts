import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { fileTag } from '../src/edits/crc32';

interface Vectors {
  tags: { text: string; fileTag: string }[];
}

const file = new URL('../../../tests/edits/vectors.json', import.meta.url);
const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors;

test.each(vectors.tags)('the tag of $text is the server’s', ({ text, fileTag: expected }) => {
  expect(fileTag(text)).toBe(expected);
});

test('the vectors hold something that only UTF-8 gets right', () => {
  expect(vectors.tags.some(({ text }) => /[\u0080-\uffff]/.test(text))).toBe(true);
});
