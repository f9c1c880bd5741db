import { expect, test } from 'vitest';
import { page } from '../src/view/html';
import { readMessage } from '../src/view/messages';
import { candidates, isSlash } from '../src/session/slash';

test.each([
  undefined,
  null,
  'prompt',
  {},
  { type: 'nothing' },
  { type: 'constructor' },
  { type: 'prompt' },
  { type: 'prompt', text: 5 },
  { type: 'command', command: 'workbench.action.quit' },
  { type: 'command', command: 'ds4-lsp.deleteSession' },
  { type: 'answer', id: '1', answer: 'Allow once' },
])('the message %j of the view is ignored', (message) => {
  expect(readMessage(message)).toBeUndefined();
});

test('messages of a known shape come through', () => {
  expect(readMessage({ type: 'prompt', text: 'x' })).toEqual({ type: 'prompt', text: 'x' });
  expect(readMessage({ type: 'command', command: 'ds4-lsp.stop' })).toBeDefined();
});

test('the page allows its own script and style, and nothing else', () => {
  const html = page({ csp: 'vscode-resource:', script: 's.js', style: 's.css' });
  const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1] ?? '';
  const nonce = /script nonce="([^"]*)"/.exec(html)?.[1] ?? '';
  expect(policy).toBe(`default-src 'none'; style-src vscode-resource:; script-src 'nonce-${nonce}'`);
  expect(nonce.length).toBeGreaterThanOrEqual(16);
  expect(html).not.toMatch(/style=|onclick=|unsafe/);
  expect(page({ csp: '', script: '', style: '' })).not.toContain(nonce);
});

test.each([
  ['/compact', true],
  ['/compact keep the ports', true],
  ['/new ', true],
  [' /new', false],
  ['/history 5', true],
  ['/history five', true],
  ['/unknown', true],
  ['/unknown word\nand text', false],
  ['/compact all\nof it', true],
  ['fix /compact', false],
  ['/etc/hosts is wrong', false],
])('whether %j is a command: %s', (text, expected) => {
  expect(isSlash(text)).toBe(expected);
});

test('the beginning of a slash word offers what it may become', () => {
  expect(candidates('/un').map((word) => word.name)).toEqual(['undo', 'unqueue', 'unload']);
  expect(candidates('/').length).toBeGreaterThan(15);
  for (const text of ['', 'un', '/undo 3', ' /un', '/etc/', '/zzz']) expect(candidates(text)).toEqual([]);
});

test('what the view asks of the queue names a prompt', () => {
  for (const type of ['unqueue', 'editQueued', 'sendQueued']) {
    expect(readMessage({ type, seq: 7 })).toEqual({ type, seq: 7 });
    expect(readMessage({ type, seq: '7' })).toBeUndefined();
  }
});
