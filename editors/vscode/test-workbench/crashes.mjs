// A server that dies: it comes back, the view survives it, and after too many times it is left alone.
import assert from 'node:assert/strict';
import { Driver, LONG } from './driver.mjs';
import { FAST, until } from './workbench.mjs';

/** As `src/server/backoff.ts` has them: starts after a crash. */
const STARTS = 5;

export async function runCrashes(bench, test, pictures) {
  bench.replies({ text: 'I am here.' });
  bench.settings({ 'ds4.model.path': FAST });
  const { page } = await bench.open();
  const driver = new Driver(page, pictures);
  const step = (name, run) => test(name, run, page);

  async function alive(other) {
    const [pid] = await until(
      () => bench.agents().servers.length === 1 && bench.agents().servers[0] !== other && bench.agents().servers,
      LONG,
      'a server',
    );
    return pid;
  }

  await step('Restart Server gives another process and the same conversation', async () => {
    await driver.openView();
    await driver.send('Hello?');
    await driver.item('text', 'I am here.');
    await driver.idle();
    const before = await alive();
    await driver.command('DS4: Restart Server');
    await alive(before);
    await driver.idle();
    await driver.item('text', 'I am here.');
  });

  await step('a killed server comes back each time, and the view keeps what was said', async () => {
    let pid = await alive();
    for (let crash = 1; crash <= STARTS; crash++) {
      process.kill(pid, 'SIGKILL');
      pid = await alive(pid);
      await driver.idle();
      await driver.item('text', 'I am here.');
    }
  });

  await step('after that it is not started again by itself, and leaves no process', async () => {
    const pid = await alive();
    process.kill(pid, 'SIGKILL');
    const toast = driver.toast('keeps ending');
    await toast.waitFor({ timeout: LONG });
    await driver.statusBar('DS4: stopped').waitFor();
    const view = await driver.view();
    await view.getByRole('button', { name: 'Start the server' }).waitFor();
    await driver.item('text', 'I am here.');
    await until(() => bench.agents().engines.length === 0, LONG, 'the end of the engines');
    assert.deepEqual(bench.agents(), { servers: [], engines: [] });
    await toast.getByRole('button', { name: 'Restart' }).click();
    await alive(pid);
    await driver.idle();
    await driver.item('text', 'I am here.');
  });
}
