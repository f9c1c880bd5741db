// A user's session in the real workbench, from a missing server to a session that survives a reload.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Driver, LONG } from './driver.mjs';
import { CALC, COMMAND, REPLIES } from './replies.mjs';
import { SERVER, until } from './workbench.mjs';

const SETTINGS = { 'ds4.compaction.tailPercent': 1, 'ds4.permissions.bash': 'ask' };

export async function runUi(bench, test, pictures) {
  const calc = bench.file('calc.py', CALC);
  bench.replies(...REPLIES);
  bench.settings({ ...SETTINGS, 'ds4.server.path': '/nowhere/ds4-lsp' });
  const { page } = await bench.open();
  const driver = new Driver(page, pictures);
  const step = (name, run) => test(name, run, page);

  await step('a missing server is told, with what can be done', async () => {
    await driver.watchToasts();
    await driver.openView();
    const toast = driver.toast('/nowhere/ds4-lsp, which is not an executable file');
    await toast.waitFor({ timeout: LONG });
    await toast.getByRole('button', { name: 'Install…' }).waitFor();
    const view = await driver.view();
    await view.getByRole('button', { name: 'Install or choose it…' }).waitFor();
    await page.locator('.statusbar-item', { hasText: 'no server' }).waitFor();
    await driver.picture('missing');
    await driver.send('Is anybody there?');
    await driver.item('error', 'Not sent: The setting ds4.server.path');
    const box = view.locator('#prompt');
    await until(async () => (await box.inputValue()) === 'Is anybody there?', LONG, 'the prompt to come back');
    await box.fill('');
    await toast.getByRole('button', { name: 'Install…' }).click();
    await page.locator('.quick-input-list .monaco-list-row', { hasText: 'Choose the executable' }).waitFor();
    await page.keyboard.press('Escape');
  });

  await step('the server starts by itself once the setting is right', async () => {
    bench.settings({ ...SETTINGS, 'ds4.server.path': SERVER });
    await driver.idle();
    await page.locator('.statusbar-item', { hasText: 'DS4: idle' }).waitFor({ timeout: LONG });
    assert.match(await driver.seenToasts(), /Loading model/);
  });

  await step('a prompt streams an answer', async () => {
    await driver.openFile('calc.py');
    await driver.openView();
    await driver.send('What is wrong in calc.py?');
    const text = await driver.item('text', 'The bug is in');
    assert.equal(await text.getAttribute('aria-busy'), 'true', 'the answer came at once');
    await text.locator('pre code', { hasText: 'return a - b' }).waitFor({ timeout: LONG });
    await driver.idle();
    assert.equal(await text.locator('strong').innerText(), 'adds');
    assert.equal(await text.locator('ol > li').count(), 2);
    await driver.picture('answer');
  });

  await step('an edit lands while the user types in the same file', async () => {
    await driver.send('Fix it.');
    await (await driver.item('tool', 'read')).locator('text=done').waitFor({ timeout: LONG });
    await page.locator('.editor-instance .view-line', { hasText: 'A small calculator' }).click();
    await page.keyboard.press('End');
    const typed = ' Its author types this line while the agent edits another one.';
    await page.keyboard.type(typed, { delay: 45 });
    await (await driver.item('tool', 'edit')).locator('text=done').waitFor({ timeout: LONG });
    await driver.item('text', 'subtracts now');
    await page.keyboard.press('Control+S');
    const expected = CALC.replace('calculator.', `calculator.${typed}`).replace(
      /(subtract\(a, b\):\n {4}return a) \+/,
      '$1 -',
    );
    await until(() => fs.readFileSync(calc, 'utf8') === expected, 10_000, `the file to be\n${expected}`);
    await (await driver.item('edit', 'calc.py')).getByRole('button').click();
    await page.locator('.tab', { hasText: 'DS4, turn 2' }).waitFor();
    await page.locator('.diff-editor, .monaco-diff-editor').first().waitFor();
    await driver.picture('edit');
  });

  await step('a command is shown in full, and denied', async () => {
    await driver.send('Clean up.');
    const view = await driver.view();
    const card = view.locator('.approval');
    await card.waitFor({ timeout: LONG });
    assert.ok((await card.locator('pre').textContent()).includes(COMMAND));
    await page.locator('.statusbar-item', { hasText: 'waits for you' }).waitFor();
    await driver.picture('approval');
    await card.getByRole('button', { name: 'Deny' }).click();
    await driver.item('text', 'I may not run it');
    await (await driver.item('tool', 'bash')).locator('text=failed').waitFor();
    assert.equal(await card.count(), 0);
    assert.equal(fs.existsSync(path.join(bench.workspace, 'cleaned.txt')), false);
    await driver.idle();
  });

  await step('Stop ends an answer and keeps what was said', async () => {
    await driver.send('Tell me everything.');
    await driver.item('text', 'This answer goes on and on. This answer');
    await (await driver.view()).getByRole('button', { name: 'Stop', exact: true }).click();
    await driver.item('stopped', 'Stopped.');
    await driver.idle();
    const said = await (await driver.item('text', 'goes on and on')).innerText();
    assert.ok(said.length < 1500, 'it was not stopped');
  });

  await step('a compaction shows its progress, and Cancel leaves everything as it was', async () => {
    await driver.send('/compact');
    const marker = await driver.item('compaction', 'COMPACTING');
    await marker.locator('text=nobody waits').waitFor({ timeout: LONG });
    const toast = driver.toast('COMPACTING');
    await toast.waitFor();
    await driver.picture('compacting');
    await toast.getByRole('button', { name: 'Cancel' }).click();
    await driver.item('compaction', 'NOT COMPACTED');
    await driver.idle();
  });

  await step('a compaction completes, and shows what it stands for', async () => {
    await driver.command('DS4: Compact the Session');
    const marker = await driver.item('compaction', /^COMPACTED/);
    await marker.locator('text=line 11 is fixed').waitFor();
    assert.match(await driver.seenToasts(), /COMPACTING[^]*tokens/);
    await marker.getByRole('button', { name: 'Show what it stands for' }).waitFor();
    await driver.idle();
  });

  await step('sessions survive a reload and can be switched; what the model writes is inert', async () => {
    await driver.command('DS4: New Session');
    await until(async () => (await (await driver.view()).locator('.item').count()) === 0, LONG, 'an empty session');
    await driver.send('Hello again.');
    await driver.item('text', 'the web');
    await driver.idle();
    await inert(await driver.item('text', 'the web'));
    await (await driver.view()).locator('#prompt').fill('a draft');
    await driver.reload();
    await driver.idle();
    await inert(await driver.item('text', 'Here is a second session'));
    const view = await driver.view();
    assert.equal(await view.locator('#prompt').inputValue(), 'a draft');
    await view.locator('#prompt').fill('');
    await view.locator('#prompt').press('ArrowUp');
    assert.equal(await view.locator('#prompt').inputValue(), 'Hello again.');
    await view.locator('#prompt').fill('');
    await driver.command('DS4: Switch Session');
    await page.locator('.quick-input-list .monaco-list-row', { hasText: 'What is wrong' }).click({ timeout: LONG });
    await driver.item('user', 'What is wrong in calc.py?');
    await driver.item('compaction', /^COMPACTED/);
    await (await driver.item('edit', 'calc.py')).waitFor();
    await driver.idle();
  });

  await step('nothing outside was asked for', async () => {
    assert.deepEqual([...bench.refused], []);
  });
}

/** The model's HTML and its commands are text, and only its link to the web is a link. */
async function inert(item) {
  const text = await item.innerText();
  assert.match(text, /<img src="x" onerror/);
  assert.match(text, /\[run me\]\(command:workbench/);
  assert.match(text, /\[open me\]\(file:/);
  assert.equal(await item.locator('img, script').count(), 0);
  assert.deepEqual(await item.locator('a').evaluateAll((links) => links.map((link) => link.href)), [
    'https://example.com/a',
  ]);
  assert.equal(await item.evaluate(() => document.body.dataset.owned), undefined);
}
