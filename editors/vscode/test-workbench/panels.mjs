// What the view shows beside the conversation, what its commands do, and all of it without a mouse.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Driver, LONG } from './driver.mjs';
import { call } from './replies.mjs';
import { FAST, until } from './workbench.mjs';

const NOTES = 'one\ntwo\n';
/** CRC-32 of NOTES, as the server's `file_tag`. */
const NOTES_TAG = '12ba0be6';
const SETTINGS = { 'ds4.model.path': FAST, 'terminal.integrated.gpuAcceleration': 'off' };

const REPLIES = [
  { text: '<think>Two numbers,\nthen.</think>They are **even**.' },
  { text: call('bash', { command: 'exec sleep 4321', timeout_sec: 9000, refresh_sec: 0 }) },
  { text: 'It runs.' },
  { text: 'This answer goes on and on. '.repeat(60), delay_ms: 80 },
  { text: 'The second answer.' },
  { text: 'The third answer.' },
  { text: call('read', { path: 'notes.txt' }) },
  { text: call('edit', { path: 'notes.txt', file_tag: NOTES_TAG, line: 2, new: 'TWO' }) },
  { text: 'Changed.' },
  { text: call('bash', { command: 'touch asked' }) },
  { text: 'You said no.' },
];

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

  await step(
    'thinking is folded, opens by keyboard, and is there after a reload, as is the context meter',
    async () => {
      for (const again of [false, true]) {
        // The server of the window that is reloaded reads the script anew.
        if (again) bench.replies(...REPLIES.slice(1));
        if (again) await driver.reload();
        await driver.idle();
        const thought = await driver.item('thinking', 'Thought');
        const body = thought.locator('.body');
        assert.equal(await body.isVisible(), false);
        await thought.locator('summary').focus();
        await keys.press('Enter');
        await body.filter({ hasText: 'Two numbers,' }).waitFor();
        const view = await driver.view();
        await until(async () => (await view.locator('meter').evaluate((meter) => meter.value)) > 0, LONG, 'the meter');
        await driver.statusBar(/DS4: idle.* · \d+ %/).waitFor({ timeout: LONG });
      }
      await driver.watchToasts();
    },
  );

  await step('a running command is listed, and stopped', async () => {
    await driver.send('Run it.');
    await driver.item('text', 'It runs.');
    const view = await driver.view();
    const jobs = view.locator('#jobs');
    await jobs.locator('code', { hasText: 'exec sleep 4321' }).waitFor({ timeout: LONG });
    await view.getByRole('button', { name: 'Stop job 1' }).click();
    await until(async () => (await jobs.locator('*').count()) === 0, LONG, 'the end of the job');
    assert.deepEqual(
      bench.processes().filter((name) => name.endsWith(' sleep')),
      [],
    );
  });

  await step('what is queued is listed, changed, taken back, and sent at once when the user wants that', async () => {
    await driver.send('First.');
    await driver.item('text', 'goes on and on');
    await driver.send('Second.');
    await driver.send('Unwanted.');
    await driver.send('Third.');
    const view = await driver.view();
    const queue = view.locator('#queue');
    const waits = async (...texts) => {
      const shown = async () => JSON.stringify(await queue.locator('.queued').allInnerTexts());
      await until(async () => (await shown()) === JSON.stringify(texts), LONG, texts.join(', '));
    };
    await waits('Second.', 'Unwanted.', 'Third.');
    await queue.getByRole('button', { name: 'Remove: Unwanted.' }).click();
    await waits('Second.', 'Third.');
    await queue.getByRole('button', { name: 'Edit: Third.' }).click();
    await page.locator('.quick-input-widget input[type="text"]').first().fill('Third, changed.');
    await keys.press('Enter');
    await waits('Second.', 'Third, changed.');
    await queue.getByRole('button', { name: 'Stop, and send these' }).click();
    await driver.item('stopped', 'Stopped.');
    await driver.item('text', 'The second answer.');
    await driver.item('text', 'The third answer.');
    assert.equal(await queue.locator('*').count(), 0);
    await driver.idle();
  });

  await step('the arrows bring earlier prompts back, and the draft again', async () => {
    const box = (await driver.view()).locator('#prompt');
    await box.fill('a draft');
    await keys.press('Home');
    const seen = [];
    for (const key of ['ArrowUp', 'ArrowUp', 'ArrowDown', 'ArrowDown']) {
      if (key === 'ArrowDown') await keys.press('End');
      await keys.press(key);
      seen.push(await box.inputValue());
    }
    assert.deepEqual(seen, ['Third.', 'Unwanted.', 'Third.', 'a draft']);
    await box.fill('');
  });

  await step('Undo Last Turn restores what it changed', async () => {
    await driver.send('Change it.');
    await driver.item('text', 'Changed.');
    assert.equal(fs.readFileSync(notes, 'utf8'), 'one\nTWO\n');
    await driver.idle();
    await driver.command('DS4: Undo Last Turn');
    await driver.toast('restored notes.txt').waitFor({ timeout: LONG });
    assert.equal(fs.readFileSync(notes, 'utf8'), NOTES);
  });

  await step('a question is answered by keyboard alone', async () => {
    // The title shows that the window has taken the settings.
    bench.settings({ ...SETTINGS, 'ds4.permissions.bash': 'ask', 'window.title': 'asks' });
    await until(async () => (await page.title()).includes('asks'), LONG, 'the settings');
    await driver.send('Touch it.');
    const view = await driver.view();
    const card = view.getByRole('alertdialog', { name: 'Run this command?' });
    await card.waitFor({ timeout: LONG });
    assert.match(await card.locator('pre').innerText(), /touch asked/);
    await keys.press('Control+Alt+Enter');
    await page.locator('.monaco-dialog-box', { hasText: 'touch asked' }).waitFor({ timeout: LONG });
    // What a slip of the finger takes.
    await keys.press('Enter');
    await driver.item('text', 'You said no.');
    assert.equal(fs.existsSync(path.join(bench.workspace, 'asked')), false);
    await driver.idle();
  });

  await step('a session is forked, exported, shown and deleted', async () => {
    const view = await driver.view();
    const asked = await view.locator('.item.user').allInnerTexts();
    await driver.command('DS4: Fork Session');
    await driver.command('DS4: Switch Session');
    await until(async () => (await driver.rows()).length === 2, LONG, 'two sessions');
    await keys.press('Escape');
    // The copy has no links of edits, and so shows none.
    await until(async () => (await view.locator('.item.edit').count()) === 0, LONG, 'the conversation of the copy');
    assert.deepEqual(await view.locator('.item.user').allInnerTexts(), asked);
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
    await driver.command('DS4: Run Doctor');
    // The task is started; it has no output here, since this workbench has no native terminal either.
    await page.locator('.xterm-rows', { hasText: 'ds4-lsp doctor' }).first().waitFor({ timeout: LONG });
    await driver.command('DS4: Open Logs');
    // The channel is shown; its file is empty here, since this workbench has no native logger.
    const channel = page.locator('.part.panel select');
    await until(
      async () => (await channel.evaluateAll((all) => all.map((one) => one.selectedOptions[0]?.text))).includes('DS4'),
      LONG,
      'the log',
    );
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
