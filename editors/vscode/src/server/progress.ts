/** The server's progress as notifications with a Cancel that works. */

import * as vscode from 'vscode';
import { WorkDoneProgress, WorkDoneProgressCancelNotification } from 'vscode-languageclient';
import type { LanguageClient, ProgressToken } from 'vscode-languageclient/node';

/** Milliseconds that reading a prompt may take before it is worth a notification. */
const PATIENCE = 800;
const READING = /(\d+)\/(\d+) tokens/;

export function followProgress(client: LanguageClient, token: ProgressToken): void {
  const cancel = (): void => void client.sendNotification(WorkDoneProgressCancelNotification.type, { token });
  // A turn shows itself in the session view; only the time in which it shows nothing, prefill, needs a notification.
  const ofTurn = String(token).startsWith('ds4/turn/');
  const bar = ofTurn ? new PrefillBar(cancel) : new Bar(cancel);
  const listening = client.onProgress(WorkDoneProgress.type, token, (value) => {
    if (value.kind === 'begin') bar.begin(value.title);
    if (value.kind === 'end') {
      bar.end();
      listening.dispose();
    } else {
      bar.report(value.percentage, value.message);
    }
  });
}

class Bar {
  private progress: vscode.Progress<{ message?: string; increment?: number }> | undefined;
  private close: (() => void) | undefined;
  private shown = 0;

  constructor(private readonly cancel: () => void) {}

  begin(title: string): void {
    this.shown = 0;
    const open = new Promise<void>((resolve) => (this.close = resolve));
    const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    void vscode.window.withProgress(options, (progress, token) => {
      this.progress = progress;
      token.onCancellationRequested(this.cancel);
      return open;
    });
  }

  report(percentage: number | undefined, message: string | undefined): void {
    const increment = Math.max(0, (percentage ?? 0) - this.shown);
    this.shown += increment;
    this.progress?.report({ ...(message ? { message } : {}), ...(increment ? { increment } : {}) });
  }

  end(): void {
    this.close?.();
    this.close = undefined;
    this.progress = undefined;
  }

  protected get isOpen(): boolean {
    return this.close !== undefined;
  }
}

/** Visible while a long prompt is read, and not during the rest of the turn. */
class PrefillBar extends Bar {
  private since: number | undefined;

  override begin(): void {
    // Opens by itself once reading has taken a while.
  }

  override report(_percentage: number | undefined, message: string | undefined): void {
    const numbers = READING.exec(message ?? '');
    if (!numbers) {
      this.since = undefined;
      this.end();
      return;
    }
    this.since ??= performance.now();
    if (!this.isOpen && performance.now() - this.since < PATIENCE) return;
    if (!this.isOpen) super.begin('DS4');
    super.report((100 * Number(numbers[1])) / Math.max(1, Number(numbers[2])), message);
  }
}
