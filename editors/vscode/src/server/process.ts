/** One server process: how it ended, an end that is certain, and what came of its start. Knows nothing of VS Code. */

import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import type { Executable } from './connection';

/** Milliseconds that a server has for its answer to `initialize`. */
export const PATIENCE = 30_000;
/** Milliseconds that a server has to end by itself after it was asked to. */
const GRACE = 2000;

/** A process group of its own, so that what a script started ends with the script. */
const GROUPS = process.platform !== 'win32';

export class ServerProcess {
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves when it runs; rejects when it could not be started. */
  readonly spawned: Promise<void>;
  /** How the process ended, in words. */
  readonly exited: Promise<string>;
  /** Why nothing more will be heard of it, in words: it ended, or closed a pipe. */
  readonly closed: Promise<string>;

  constructor({ path, args }: Executable, cwd?: string) {
    const child = spawn(path, args, { detached: GROUPS, stdio: 'pipe', ...(cwd ? { cwd } : {}) });
    this.child = child;
    this.spawned = new Promise((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', reject);
    });
    // Told by `exited`, too; somebody may wait for that alone.
    this.spawned.catch(() => undefined);
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code ?? 0}` : `signal ${signal}`));
    });
    const deaf = new Promise<string>((resolve) => {
      child.stdout.once('close', () => resolve('it closed its output'));
      child.stdin.once('close', () => resolve('it closed its input'));
    });
    // An exit says more than the closed pipe that it brings about.
    const patient = deaf.then((why) => Promise.race([this.exited, later(100, why)]));
    this.closed = Promise.race([this.exited, patient]);
    // What is written to a process that has ended fails there; its end is told elsewhere.
    child.stdin.on('error', () => undefined);
  }

  get isAlive(): boolean {
    const { child } = this;
    return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** End it now, whatever it does, with all that it started. */
  async kill(): Promise<void> {
    const { pid } = this.child;
    if (pid !== undefined && this.isAlive) {
      try {
        process.kill(GROUPS ? -pid : pid, 'SIGKILL');
      } catch {
        // It has just ended, and `exit` is on its way.
      }
    }
    await this.exited;
  }

  /** After it was asked to end: wait for that, then end it. */
  async leave(grace = GRACE): Promise<void> {
    await Promise.race([this.exited, later(grace, '')]);
    await this.kill();
  }
}

/** `failed`: it answered with an error, or could not be started. `withdrawn`: nobody wants it any more. */
export type Outcome =
  { kind: 'answered' | 'silent' | 'withdrawn' } | { kind: 'ended'; how: string } | { kind: 'failed'; error: unknown };

/** What comes first of all that can become of a start. `limit`: milliseconds until `silent`. Never rejects. */
export async function firstOutcome(
  answer: Promise<unknown>,
  closed: Promise<string>,
  limit: number,
  withdrawn: AbortSignal,
): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<Outcome>((resolve) => (timer = setTimeout(() => resolve({ kind: 'silent' }), limit)));
  const answered = answer.then(
    (): Outcome => ({ kind: 'answered' }),
    (error: unknown): Outcome => ({ kind: 'failed', error }),
  );
  const ended = closed.then((how): Outcome => ({ kind: 'ended', how }));
  const outcome = await Promise.race([
    aborted(withdrawn).then((): Outcome => ({ kind: 'withdrawn' })),
    // A connection that ends settles the answer as well; how the process ended says more than that.
    answered.then((found) => (found.kind === 'answered' ? found : Promise.race([ended, later(500, found)]))),
    ended,
    silent,
  ]);
  clearTimeout(timer);
  return outcome;
}

/** Why a start came to nothing, and what to do, for the user. */
export function problemOf(outcome: Outcome, path: string, limit: number): string {
  switch (outcome.kind) {
    case 'silent': {
      const waited = `${path} did not answer within ${Math.round(limit / 1000)} s, and was ended.`;
      return `${waited} Check the setting ds4.server.path, look at the log, then restart the server.`;
    }
    case 'ended':
      return `${path} ended while it started: ${outcome.how}. The log may say why.`;
    case 'failed': {
      const { error } = outcome;
      return `${path} did not start: ${error instanceof Error ? error.message : String(error)}`;
    }
    default:
      return '';
  }
}

/** Resolves with undefined once the signal is given. */
export function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}

function later<T>(delay: number, value: T): Promise<T> {
  return new Promise((resolve) => void setTimeout(resolve, delay, value).unref());
}
