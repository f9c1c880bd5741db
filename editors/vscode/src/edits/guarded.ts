/** `ds4/applyGuardedEdit`: an edit lands only on the text that its author saw, in one undo step, and is saved. */

import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import type { GuardedEditParams, GuardedEditResult } from '../server/connection';
import { decode, hasMixedEndings, splice, type Decoded } from './bytes';
import { fileTag } from './crc32';
import type { EditStore } from './store';

type Guard = GuardedEditParams['guards'][number];

/** A proposed edit, for the user to look at. `before` null: the file is created. */
export interface Proposal {
  uri: vscode.Uri;
  label: string;
  before: string | null;
  after: string;
}

/** Whether the user wants it. */
export type Confirm = (proposal: Proposal, token: vscode.CancellationToken) => Promise<boolean>;

export class GuardedEdits {
  /** Edits of one window are applied one after the other. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly store: EditStore,
    private readonly confirm: Confirm,
  ) {}

  apply(
    client: LanguageClient,
    params: GuardedEditParams,
    token: vscode.CancellationToken,
  ): Promise<GuardedEditResult> {
    const done = this.last
      .then(() => this.applyNow(client, params, token))
      .catch((error: unknown) => refuse(error instanceof Error ? error.message : String(error)));
    this.last = done;
    return done;
  }

  private async applyNow(
    client: LanguageClient,
    params: GuardedEditParams,
    token: vscode.CancellationToken,
  ): Promise<GuardedEditResult> {
    const [guard] = params.guards;
    if (!guard || params.guards.length > 1) return refuse('an edit of one document needs exactly one guard');
    const uri = client.protocol2CodeConverter.asUri(guard.uri);
    const created = guard.fileTag === null;
    if (created && (isOpen(uri) || (await exists(uri)))) return refuse('the file exists already');
    const raw = created || isOpen(uri) || guard.version !== null ? undefined : await mixed(uri);
    const document = created || raw ? undefined : await vscode.workspace.openTextDocument(uri);
    const before = raw?.text ?? document?.getText() ?? null;
    const problem = document ? mismatch(document, guard) : raw && differs(raw.text, guard);
    if (problem) return refuse(problem);
    const after = changed(before ?? '', params);
    if (after === undefined) return refuse('the edit is not one span of one document');
    if (
      needsConfirmation(params) &&
      !(await this.confirm({ uri, label: params.label ?? 'DS4', before, after }, token))
    ) {
      // No reason: that is how the server knows that the user said no.
      return { applied: false };
    }
    if (raw) return this.write(uri, guard, after);
    const edit = await client.protocol2CodeConverter.asWorkspaceEdit(confirmed(params));
    // From here to the call nothing may be awaited: VS Code refuses by itself what is typed after the call.
    const late = document && mismatch(document, guard);
    if (late) return refuse(late);
    if (!(await vscode.workspace.applyEdit(edit))) {
      const why = document && mismatch(document, guard);
      return refuse(why ?? 'the editor refused the edit; the document may be read-only or have changed meanwhile');
    }
    return this.finish(document ?? (await vscode.workspace.openTextDocument(uri)), before, params.save);
  }

  private async finish(
    document: vscode.TextDocument,
    before: string | null,
    save: boolean,
  ): Promise<GuardedEditResult> {
    this.store.note(document.uri, before, document.getText());
    const saved = save && (await document.save());
    return { applied: true, fileTag: fileTag(document.getText()), saved };
  }

  /** A closed file that VS Code would change by opening it is written as bytes. */
  private async write(uri: vscode.Uri, guard: Guard, after: string): Promise<GuardedEditResult> {
    const now = await mixed(uri);
    const problem = now ? differs(now.text, guard) : 'the file changed meanwhile';
    if (!now || problem) return refuse(problem ?? 'the file changed meanwhile');
    await vscode.workspace.fs.writeFile(uri, now.encode(after));
    this.store.note(uri, now.text, after);
    return { applied: true, fileTag: fileTag(after), saved: true };
  }
}

/** What the edit makes of `before`; undefined for an edit of another shape than the server sends. */
function changed(before: string, params: GuardedEditParams): string | undefined {
  const changes = params.edit.documentChanges?.flatMap((change) => ('edits' in change ? change.edits : [])) ?? [];
  const [change] = changes;
  if (!change || !('newText' in change) || changes.length > 1) return undefined;
  return splice(before, change.range.start, change.range.end, change.newText);
}

function needsConfirmation(params: GuardedEditParams): boolean {
  return Object.values(params.edit.changeAnnotations ?? {}).some((one) => one.needsConfirmation);
}

/** The same edit for an editor that need not ask again. */
function confirmed(params: GuardedEditParams): GuardedEditParams['edit'] {
  const annotations = Object.entries(params.edit.changeAnnotations ?? {});
  return {
    ...params.edit,
    changeAnnotations: Object.fromEntries(annotations.map(([id, one]) => [id, { ...one, needsConfirmation: false }])),
  };
}

/** The file as bytes and text, if its line endings are mixed. */
async function mixed(uri: vscode.Uri): Promise<Decoded | undefined> {
  const decoded = decode(await vscode.workspace.fs.readFile(uri));
  return decoded && hasMixedEndings(decoded.text) ? decoded : undefined;
}

export async function saveDocument(uri: vscode.Uri): Promise<boolean> {
  const document = await vscode.workspace.openTextDocument(uri);
  return !document.isDirty || document.save();
}

function mismatch(document: vscode.TextDocument, guard: Guard): string | undefined {
  if (document.isClosed) return 'the document was closed meanwhile';
  if (guard.version !== null && document.version !== guard.version) return 'the document was changed meanwhile';
  return differs(document.getText(), guard);
}

function differs(text: string, guard: Guard): string | undefined {
  const tag = fileTag(text);
  return tag === guard.fileTag ? undefined : `the document has the tag ${tag}, not ${String(guard.fileTag)}`;
}

function refuse(failureReason: string): GuardedEditResult {
  return { applied: false, failureReason };
}

function isOpen(uri: vscode.Uri): boolean {
  return vscode.workspace.textDocuments.some((document) => document.uri.toString() === uri.toString());
}

async function exists(uri: vscode.Uri): Promise<boolean> {
  try {
    await vscode.workspace.fs.stat(uri);
    return true;
  } catch {
    return false;
  }
}
