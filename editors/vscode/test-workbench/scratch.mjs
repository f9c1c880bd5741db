import { Driver, LONG } from './driver.mjs';
import { call } from './replies.mjs';
import { FAST, Workbench, until } from './workbench.mjs';
const bench = new Workbench('/tmp/E/scratch');
try {
  bench.replies({ text: call('bash', { command: 'touch asked' }) }, { text: 'You said no.' });
  bench.settings({ 'ds4.model.path': FAST });
  await bench.start();
  const { page } = await bench.open();
  const driver = new Driver(page, '/tmp/E/scratch');
  await driver.openView();
  await driver.send('Touch it.');
  const view = await driver.view();
  await view.getByRole('alertdialog', { name: 'Run this command?' }).waitFor({ timeout: LONG });
  await driver.statusBar('waits for you').waitFor();
  for (const where of ['webview', 'activity', 'status']) {
    if (where === 'activity') await page.locator('.activitybar .action-item a[aria-label^="Explorer"]').focus();
    if (where !== 'status') await page.keyboard.press('Control+Alt+Enter');
    else await driver.statusBar('waits for you').click();
    const shown = await page.locator('.monaco-dialog-box').waitFor({ timeout: 6000 }).then(() => true, () => false);
    console.log(where, shown);
    await page.screenshot({ path: `/tmp/E/scratch/${where}.png` });
    if (shown) { console.log(await page.locator('.monaco-dialog-box').innerText()); console.log(await page.locator('.monaco-dialog-box').getByRole('button').allInnerTexts()); break; }
  }
} finally { await bench.close(); }
process.exit(0);
