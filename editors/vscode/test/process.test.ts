import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { firstOutcome, problemOf, ServerProcess } from '../src/server/process';

const LONG = 600_000;
const never = new Promise<never>(() => undefined);
const wanted = new AbortController().signal;

let root: string;
let started: ServerProcess[];
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'ds4-process-'));
  started = [];
});
afterEach(async () => {
  await Promise.all(started.map((one) => one.kill()));
  rmSync(root, { recursive: true });
});

function shell(script: string): ServerProcess {
  const made = new ServerProcess({ path: '/bin/sh', args: ['-c', script] }, root);
  made.child.stdout.resume();
  started.push(made);
  return made;
}

const heard = (one: ServerProcess): Promise<unknown> =>
  new Promise((resolve) => one.child.stderr.once('data', resolve));

test('a program that reads and says nothing is silent after the limit, and ends when it is killed', async () => {
  const hangs = shell('trap "" TERM INT HUP; while read -r line; do :; done; sleep 1000');
  const outcome = await firstOutcome(never, hangs.closed, 20, wanted);
  expect(outcome).toEqual({ kind: 'silent' });
  expect(hangs.isAlive).toBe(true);
  await hangs.kill();
  expect(hangs.isAlive).toBe(false);
  expect(await hangs.exited).toBe('signal SIGKILL');
});

test('a start that nobody wants any more ends at once, whatever the program does', async () => {
  const hangs = shell('while read -r line; do :; done');
  const given = new AbortController();
  const outcome = firstOutcome(never, hangs.closed, LONG, given.signal);
  given.abort();
  expect(await outcome).toEqual({ kind: 'withdrawn' });
});

test('what a script started ends with it', async () => {
  const script = shell('sleep 1000 & echo up >&2; wait');
  // Open for as long as one of the two lives.
  const output = new Promise((resolve) => script.child.stdout.once('close', resolve));
  await heard(script);
  await script.kill();
  await output;
});

test.each([
  ['exit 3', 'exit code 3'],
  ['kill -KILL $$', 'signal SIGKILL'],
  ['exec >&-; while read -r line; do :; done', 'it closed its output'],
])('the program %j is told to have ended: %s', async (script, how) => {
  const one = shell(script);
  expect(await firstOutcome(never, one.closed, LONG, wanted)).toEqual({ kind: 'ended', how });
});

test('how it ended says more than the answer that did not come', async () => {
  const one = shell('exit 3');
  const lost = Promise.reject(new Error('connection got disposed'));
  expect(await firstOutcome(lost, one.closed, LONG, wanted)).toEqual({ kind: 'ended', how: 'exit code 3' });
});

test('an answer is an answer, and a refusal is told', async () => {
  const one = shell('read -r line');
  expect(await firstOutcome(Promise.resolve(), one.closed, LONG, wanted)).toEqual({ kind: 'answered' });
  const error = new Error('no such position encoding');
  const refused = await firstOutcome(Promise.reject(error), one.closed, LONG, wanted);
  expect(refused).toEqual({ kind: 'failed', error });
  expect(problemOf(refused, '/bin/x', LONG)).toBe('/bin/x did not start: no such position encoding');
});

test('a program that is not there is told, and can be ended all the same', async () => {
  const missing = new ServerProcess({ path: path.join(root, 'nowhere'), args: [] });
  await expect(missing.spawned).rejects.toThrow(/ENOENT/);
  expect(await missing.closed).toMatch(/ENOENT/);
  await missing.kill();
});

test('one that was asked to end is left the time for it, and no more', async () => {
  const obeys = shell('read -r line; exit 7');
  obeys.child.stdin.end('exit\n');
  await obeys.leave(LONG);
  expect(await obeys.exited).toBe('exit code 7');
  const stays = shell('exec sleep 1000');
  await stays.leave(1);
  expect(await stays.exited).toBe('signal SIGKILL');
});

test('whoever is not answered is told what to look at and what to do', () => {
  const text = problemOf({ kind: 'silent' }, '/opt/ds4-lsp', 30_000);
  expect(text).toMatch(/^\/opt\/ds4-lsp did not answer within 30 s.*ds4\.server\.path.*log.*restart the server/);
});
