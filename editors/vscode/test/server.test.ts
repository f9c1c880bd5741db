import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Backoff, DELAYS, QUIET } from '../src/server/backoff';
import { serverSection } from '../src/server/configuration';
import { candidates, locate, type Places } from '../src/server/locate';

let root: string;
beforeEach(() => (root = mkdtempSync(path.join(tmpdir(), 'ds4-locate-'))));
afterEach(() => rmSync(root, { recursive: true }));

function executable(...parts: string[]): string {
  const file = path.join(root, ...parts);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, '#!/bin/sh\n');
  chmodSync(file, 0o755);
  return file;
}

const places = (given: Partial<Places> = {}): Places => ({
  setting: '',
  python: undefined,
  env: {},
  home: root,
  platform: 'linux',
  ...given,
});

test('the setting wins, then the active Python, then the PATH', async () => {
  const set = executable('set', 'ds4-lsp');
  const python = executable('env', 'bin', 'ds4-lsp');
  const onPath = executable('path', 'ds4-lsp');
  const env = { PATH: path.dirname(onPath) };
  const interpreter = path.join(root, 'env/bin/python');
  expect(await locate(places({ setting: set, python: interpreter, env }))).toMatchObject({
    path: set,
    source: 'setting',
  });
  expect(await locate(places({ python: interpreter, env }))).toMatchObject({ path: python, source: 'python' });
  expect(await locate(places({ python: path.join(root, 'env'), env }))).toMatchObject({ path: python });
  expect(await locate(places({ env: { ...env, VIRTUAL_ENV: path.join(root, 'env') } }))).toMatchObject({
    path: python,
  });
  expect(await locate(places({ env: { ...env, CONDA_PREFIX: path.join(root, 'env') } }))).toMatchObject({
    path: python,
    source: 'python',
  });
  expect(await locate(places({ env }))).toMatchObject({ path: onPath, source: 'path' });
});

test('on Windows the names and folders are its own', () => {
  const found = candidates(places({ python: '/env', platform: 'win32' }));
  expect(found.map((one) => one.path)).toEqual(['/ds4-lsp.exe', '/env/Scripts/ds4-lsp.exe']);
});

test('a wrong setting is told, and nothing else is started instead', async () => {
  const onPath = executable('path', 'ds4-lsp');
  const found = await locate(places({ setting: '~/nowhere', env: { PATH: path.dirname(onPath) } }));
  expect(found).toEqual({ missing: expect.stringContaining(path.join(root, 'nowhere')) as string });
});

test('neither a folder nor a file that cannot be executed is a server', async () => {
  mkdirSync(path.join(root, 'one/ds4-lsp'), { recursive: true });
  mkdirSync(path.join(root, 'two'));
  writeFileSync(path.join(root, 'two/ds4-lsp'), '');
  expect(await locate(places({ env: { PATH: `${root}/one:${root}/two` } }))).toHaveProperty('missing');
});

test('a relative folder on the PATH, which a workspace could fill, does not count', () => {
  expect(candidates(places({ env: { PATH: '.:bin::/usr/bin' } }))).toEqual([
    { source: 'path', path: '/usr/bin/ds4-lsp' },
  ]);
});

test('crashes are followed by ever longer waits, then by none; a long life forgives', () => {
  const backoff = new Backoff();
  expect(DELAYS.map(() => backoff.next(10))).toEqual(DELAYS);
  expect(backoff.next(10)).toBeUndefined();
  expect(backoff.next(QUIET)).toBe(DELAYS[0]);
  expect(backoff.next(10)).toBe(DELAYS[1]);
});

test('the server does not see the extension’s own settings', () => {
  expect(serverSection({ server: { path: '/x' }, trace: {}, thinking: 'on' })).toEqual({ thinking: 'on' });
  expect(serverSection(undefined)).toEqual({});
});
