// What the view shows beside the conversation, what its commands do, and all of it without a mouse.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Driver } from './driver.mjs'; const LONG = 25000;
import { call } from './replies.mjs';
import { FAST, until } from './workbench.mjs';

const NOTES = 'one\ntwo\n';
/** CRC-32 of NOTES, as the server's `file_tag`. */
const NOTES_TAG = '12ba0be6';
const SETTINGS = { 'ds4.model.path': FAST, 'terminal.integrated.gpuAcceleration': 'off' };

const REPLIES = [{ text: 'They are even. You said no.' } ];

export async function runPanels(bench, test, pictures) {
  const notes = bench.file('notes.txt', NOTES);
  bench.replies(...REPLIES);
  bench.settings({ ...SETTINGS, 'ds4.permissions.bash': 'allow' });
  const { page } = await bench.open();
  const driver = new Driver(page, pictures);
  const step = (name, run) => test(name, run, page);
  const keys = page.keyboard;

  await step('the view has roles and names for a screen reader, and works by keyboard', async () => {
    await driver.watchToasts();
    await driver.openView();
    const view = await driver.view();
    await driver.idle();
    await view.getByRole('status').filter({ hasText: 'Ready' }).waitFor();
    await view.getByRole('heading', { level: 1 }).waitFor();
    await view.getByRole('textbox', { name: 'Prompt' }).focus();
    await keys.type('Which are even?');
    await keys.press('Enter');
    await driver.item('text', 'They are even');
    await driver.idle();
    await view.getByRole('log', { name: 'Conversation' }).waitFor();
    await view.getByRole('meter', { name: /^Context: \d+ of 8192 tokens, \d+ %$/ }).waitFor();
    assert.deepEqual(await nameless(view), []);
    await keys.press('Tab');
    assert.equal(await view.evaluate(() => document.activeElement.textContent), 'Send');
  });

  await step('a session is forked, exported, shown and deleted', async () => {
    const view = await driver.view();
    const count = await view.locator('.item').count();
    await driver.command('DS4: Fork Session');
    await driver.command('DS4: Switch Session');
    await until(async () => (await driver.rows()).length === 2, LONG, 'two sessions');
    await keys.press('Escape');
    await until(async () => (await view.locator('.item').count()) >= count - 2, LONG, 'the conversation of the copy');
    await driver.item('text', 'You said no.');
    await driver.command('DS4: Export Session');
    await driver.choose('Markdown');
    await until(async () => (await driver.editorText()).includes('Session'), LONG, 'the exported session');
    await driver.command('DS4: Delete Session');
    await driver.row(/./).nth(1).click({ timeout: LONG });
    await driver.answer('Delete');
    await driver.command('DS4: Switch Session');
    await until(async () => (await driver.rows()).length === 1, LONG, 'one session');
    await keys.press('Escape');
  });

  await step('the status bar leads to the facts and to every action', async () => {
    await driver.statusBar('DS4: idle').click();
    const rows = (await driver.rows()).join('\n');
    for (const part of [/Model/, /of 8192 tokens/, /0 prompts/, /Stop/, /Load model/]) assert.match(rows, part);
    await keys.press('Escape');
    await driver.command('DS4: Load Model');
    await driver.choose('Load the configured model again');
    await until(async () => /loading the model/.test(await driver.seenToasts()), LONG, 'the progress of the load');
    await driver.idle();
    await driver.command('DS4: Open Logs');
    // The channel is shown; its file is empty here, since this workbench has no native logger.
    const channel = page.locator('.part.panel select');
    await until(
      async () => (await channel.evaluateAll((all) => all.map((one) => one.selectedOptions[0]?.text))).includes('DS4'),
      LONG,
      'the log',
    );
    await driver.command('DS4: Run Doctor');
    await page.locator('.xterm-rows', { hasText: /llama/ }).first().waitFor({ timeout: LONG });
    await driver.command('DS4: Show History');
    await page.locator('.tab', { hasText: 'Preview' }).waitFor({ timeout: LONG });
  });
}

/** What could be operated and has no name to be called by. */
async function nameless(view) {
  return view.locator('button, textarea, input, meter, summary, [role]').evaluateAll((all) =>
    all
      .filter((one) => !(one.textContent || one.getAttribute('aria-label') || one.labels?.length))
      .map((one) => one.outerHTML)
      .filter((html) => !html.includes('role="status"')),
  );
}

import { Workbench } from './workbench.mjs';
const bench = new Workbench('/tmp/E/scratch');
try { await bench.start(); await runPanels(bench, async (name, run, page) => { try { await run(); console.log('ok', name); } catch (e) { console.log('FAIL', name, e.stack.slice(0,900)); await page.screenshot({ path: '/tmp/E/scratch/fail-'+name.slice(0,10)+'.png' }); await page.keyboard.press('Escape'); } }, '/tmp/E/scratch'); } finally { await bench.close(); }
process.exit(0);
