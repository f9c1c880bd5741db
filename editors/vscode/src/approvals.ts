/** Questions of the agent, shown in full in the session view. Whatever is not a clear yes is a no. */

import * as vscode from 'vscode';
import type { MessageActionItem, ShowMessageRequestParams } from 'vscode-languageclient';
import type { ViewEvent } from './session/wire';

/** Milliseconds that the view has to appear before a notification points to the question. */
const PATIENCE = 3000;

interface Waiting {
  id: number;
  title: string;
  detail: string;
  answers: string[];
  resolve: (answer: string | undefined) => void;
}

export class Approvals {
  private readonly waiting = new Map<number, Waiting>();
  private count = 0;

  constructor(
    private readonly tell: (event: ViewEvent) => void,
    private readonly reveal: () => Promise<boolean>,
  ) {}

  async ask(params: ShowMessageRequestParams, token: vscode.CancellationToken): Promise<MessageActionItem | null> {
    const answers = (params.actions ?? []).map((action) => action.title);
    if (!answers.includes('Deny')) {
      const chosen = await vscode.window.showInformationMessage(params.message, ...answers);
      return chosen === undefined ? null : { title: chosen };
    }
    const [title = '', ...detail] = params.message.split('\n');
    const chosen = await this.question(title, detail.join('\n'), answers, token);
    return chosen === undefined ? null : { title: chosen };
  }

  /** From the view. */
  answer(id: number, answer: string): void {
    const question = this.waiting.get(id);
    if (question?.answers.includes(answer)) question.resolve(answer);
  }

  /** For keyboards and screen readers: the oldest question as a dialog. */
  async answerInDialog(): Promise<void> {
    const [question] = this.waiting.values();
    if (!question) return;
    const options = { modal: true, detail: question.detail };
    // The no comes last; a slip of the finger takes the first.
    const ordered = [...question.answers.slice(-1), ...question.answers.slice(0, -1)];
    const chosen = await vscode.window.showWarningMessage(question.title, options, ...ordered);
    if (chosen !== undefined) question.resolve(chosen);
  }

  /** The server that asked is gone. */
  clear(): void {
    for (const question of this.waiting.values()) question.resolve(undefined);
  }

  /** Ask, and wait; undefined: nobody answered, or the question was withdrawn. */
  async question(
    title: string,
    detail: string,
    answers: string[],
    token: vscode.CancellationToken,
  ): Promise<string | undefined> {
    const id = ++this.count;
    const answered = new Promise<string | undefined>((resolve) => {
      this.waiting.set(id, { id, title, detail, answers, resolve });
      token.onCancellationRequested(() => resolve(undefined));
    });
    this.tell({ kind: 'local.ask', id, title, detail, answers });
    void this.changed();
    void this.point(id);
    const answer = await answered;
    this.waiting.delete(id);
    this.tell({ kind: 'local.answered', id });
    void this.changed();
    return answer;
  }

  private async point(id: number): Promise<void> {
    const late = new Promise<false>((resolve) => setTimeout(resolve, PATIENCE, false));
    if ((await Promise.race([this.reveal(), late])) || !this.waiting.has(id)) return;
    const chosen = await vscode.window.showWarningMessage('DS4 waits for your answer.', 'Show the Question');
    if (chosen !== undefined) await this.answerInDialog();
  }

  private async changed(): Promise<void> {
    await vscode.commands.executeCommand('setContext', 'ds4-lsp.asking', this.waiting.size > 0);
  }
}
