// An engine that dies: the user is told in three lines, once, with one thing to do.
import assert from 'node:assert/strict';
import { Driver } from './driver.mjs';
import { FAST } from './workbench.mjs';

export async function runDeaths(bench, test, pictures) {
  bench.replies({ text: 'Never.' });
  bench.settings({ 'ds4.model.path': FAST });
  bench.variable('DS4_LSP_FAULT', 'decode:ill');
  const { page } = await bench.open();
  const driver = new Driver(page, pictures);

  await test(
    'an engine that dies of an illegal instruction is told in three lines',
    async () => {
      await driver.watchToasts();
      await driver.openView();
      await driver.send('Hello?');
      const item = await driver.item('error', 'SIGILL');
      const lines = (await item.innerText()).trim().split('\n');
      assert.equal(lines.length, 3, lines.join('\n'));
      assert.match(lines[0], /^The engine was ended by an illegal instruction \(SIGILL\)/);
      assert.match(lines[1], /install LLAMA_CPP_NATIVE=off$/);
      assert.match(lines[2], /^The next prompt starts a new engine\. Its log: /);
      await driver.idle();
      const view = await driver.view();
      assert.equal(await view.locator('#log > *', { hasText: 'SIGILL' }).count(), 1);
      assert.equal(await driver.toast('SIGILL').count(), 0);
    },
    page,
  );
}
