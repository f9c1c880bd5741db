// Hands and eyes for the workbench's window.
import path from 'node:path';
import { until } from './workbench.mjs';

/** Milliseconds that the slowest step may take on a busy machine. */
export const LONG = 120_000;

export class Driver {
  constructor(page, pictures) {
    this.page = page;
    this.pictures = pictures;
  }

  async openView() {
    await this.page.locator('.activitybar .action-item a[aria-label^="DS4"]').click({ timeout: LONG });
    await this.view();
  }

  /** The document inside the session view. */
  async view() {
    return until(
      async () => {
        for (const frame of this.page.frames()) {
          if (
            await frame
              .locator('#composer')
              .count()
              .catch(() => 0)
          )
            return frame;
        }
        return undefined;
      },
      LONG,
      'the session view',
    );
  }

  async send(text) {
    const box = (await this.view()).locator('#prompt');
    await box.fill(text);
    await box.press('Enter');
  }

  /** The newest item of a kind, once there is one with that text. */
  async item(kind, hasText, timeout = LONG) {
    const found = (await this.view()).locator(`.item.${kind}`, { hasText }).last();
    await found.waitFor({ timeout });
    return found;
  }

  async idle() {
    await (await this.view()).locator('.state', { hasText: 'Ready' }).waitFor({ timeout: LONG });
  }

  /** Run a command of the palette. */
  async command(title) {
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget input[type="text"]').first();
    await input.waitFor();
    await input.fill(`>${title}`);
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: title }).first().click();
    // The palette has to be gone before the next key: it would go there.
    await until(async () => !(await input.isVisible()) || !(await input.inputValue()).startsWith('>'), LONG, title);
  }

  /** A row of the list that a command shows. */
  row(hasText) {
    return this.page.locator('.quick-input-list .monaco-list-row', { hasText });
  }

  async rows() {
    await this.row(/./).first().waitFor({ timeout: LONG });
    return this.row(/./).allInnerTexts();
  }

  async choose(hasText) {
    await this.row(hasText).first().click({ timeout: LONG });
  }

  /** Answer a dialog. */
  async answer(label) {
    const dialog = this.page.locator('.monaco-dialog-box');
    await dialog.getByRole('button', { name: label, exact: true }).click({ timeout: LONG });
    await dialog.waitFor({ state: 'detached' });
  }

  statusBar(hasText) {
    return this.page.locator('.statusbar-item', { hasText });
  }

  async reload() {
    const gone = this.page.waitForEvent('framenavigated', { predicate: (frame) => frame === this.page.mainFrame() });
    await this.command('Developer: Reload Window');
    await gone;
    await this.page.locator('.monaco-workbench').waitFor({ timeout: LONG });
  }

  toast(hasText) {
    return this.page.locator('.notification-toast', { hasText });
  }

  async openFile(name) {
    await this.page.locator('.activitybar .action-item a[aria-label^="Explorer"]').click();
    await this.page.locator('.explorer-folders-view .monaco-list-row', { hasText: name }).dblclick();
    await this.page.locator('.editor-instance .view-lines').waitFor();
  }

  async editorText() {
    const text = await this.page.locator('.editor-instance .view-lines').first().innerText();
    return text.replaceAll('\u00a0', ' ');
  }

  /** Remember the text of every notification, also of those that are gone before anybody looks. */
  async watchToasts() {
    await this.page.evaluate(() => {
      globalThis.seenToasts = new Set();
      const look = () => {
        for (const toast of document.querySelectorAll('.notification-toast'))
          globalThis.seenToasts.add(toast.textContent);
      };
      new globalThis.MutationObserver(look).observe(document.body, {
        childList: true,
        subtree: true,
        characterData: true,
      });
    });
  }

  async seenToasts() {
    return this.page.evaluate(() => [...globalThis.seenToasts].join('\n'));
  }

  async picture(name) {
    await this.page.mouse.move(700, 600);
    await this.page.screenshot({ path: path.join(this.pictures, `${name}.png`) });
  }
}
