/** Texts before and after each edit, for its diff; kept with the workspace, so that links work after a reload. */

import { createHash } from 'node:crypto';
import * as vscode from 'vscode';
import type { EditMark, ServerEvent } from '../session/wire';
import { fileTag } from './crc32';

export const SCHEME = 'ds4-edit';
/** Edits kept; older ones lose their diff. */
const KEPT = 200;
const KEY = 'ds4.edits';

interface Kept extends EditMark {
  sessionId: string;
  /** Names of the texts; null: the edit created the file. */
  before: string | null;
  after: string;
}

interface Noted {
  uri: string;
  tag: string;
  before: string | null;
  after: string;
}

export class EditStore implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private noted: Noted[] = [];

  constructor(
    private readonly memory: vscode.Memento,
    private readonly folder: vscode.Uri | undefined,
  ) {}

  /** An edit was applied here. The server tells later which turn it belongs to. */
  note(uri: vscode.Uri, before: string | null, after: string): void {
    const names = { before: before === null ? null : this.put(before), after: this.put(after) };
    this.noted = [...this.noted.slice(-KEPT), { uri: uri.toString(), tag: fileTag(after), ...names }];
  }

  /** `event`: an `edit` of the server. */
  async bind(event: ServerEvent): Promise<void> {
    const uri = String(event['uri']);
    const found = this.noted.findLast((one) => same(one.uri, uri) && one.tag === event['fileTag']);
    if (!found) return;
    const edit: Kept = {
      sessionId: event.sessionId,
      seq: event.seq ?? 0,
      turn: event.turn,
      uri,
      fileTag: found.tag,
      startLine: Number(event['startLine'] ?? 1),
      endLine: Number(event['endLine'] ?? 1),
      before: found.before,
      after: found.after,
    };
    const kept = [...this.kept(), edit];
    const dropped = kept.splice(0, Math.max(0, kept.length - KEPT));
    await this.memory.update(KEY, kept);
    await Promise.all([found.before, found.after].map((name) => this.write(name)));
    const used = new Set(kept.flatMap((one) => [one.before, one.after]));
    const unused = dropped.flatMap((one) => [one.before, one.after]).filter((name) => !used.has(name));
    await Promise.all(unused.map((name) => this.remove(name)));
  }

  marks(sessionId: string | undefined): EditMark[] {
    return this.kept().filter((edit) => edit.sessionId === sessionId);
  }

  /** Open the diff of an edit; where its texts are gone, the file. */
  async show(uri: vscode.Uri, tag: string, startLine: number): Promise<void> {
    const found = this.kept().findLast((edit) => same(edit.uri, uri.toString()) && edit.fileTag === tag);
    const line = new vscode.Range(startLine - 1, 0, startLine - 1, 0);
    if (!found || (await this.read(found.after)) === undefined) {
      await vscode.window.showTextDocument(uri, { selection: line });
      return;
    }
    const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
    // The live file where it still has that text, so that the diff can be edited.
    const live = open !== undefined && fileTag(open.getText()) === tag;
    const after = live ? uri : this.address(uri, found.after);
    const title = `${vscode.workspace.asRelativePath(uri)} (DS4, turn ${found.turn})`;
    const options: vscode.TextDocumentShowOptions = { selection: line };
    await vscode.commands.executeCommand(
      'vscode.diff',
      this.address(uri, found.before ?? 'empty'),
      after,
      title,
      options,
    );
  }

  /** Show what an edit would do; the function that is returned closes it again. */
  async preview(uri: vscode.Uri, before: string | null, after: string): Promise<() => Thenable<unknown>> {
    const left = this.address(uri, before === null ? 'empty' : this.put(before));
    const right = this.address(uri, this.put(after));
    const title = `${vscode.workspace.asRelativePath(uri)} (DS4 proposes)`;
    await vscode.commands.executeCommand('vscode.diff', left, right, title, { preserveFocus: true });
    return () => {
      const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
      const ours = tabs.filter(
        ({ input }) => input instanceof vscode.TabInputTextDiff && input.modified.toString() === right.toString(),
      );
      return vscode.window.tabGroups.close(ours, true);
    };
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    return uri.query === 'empty' ? '' : ((await this.read(uri.query)) ?? '');
  }

  private address(uri: vscode.Uri, name: string): vscode.Uri {
    return uri.with({ scheme: SCHEME, query: name });
  }

  private kept(): Kept[] {
    return this.memory.get<Kept[]>(KEY, []);
  }

  private put(text: string): string {
    const name = createHash('sha256').update(text).digest('hex');
    this.texts.set(name, text);
    if (this.texts.size > 2 * KEPT) this.texts.delete(this.texts.keys().next().value ?? '');
    return name;
  }

  private file(name: string): vscode.Uri | undefined {
    return this.folder && vscode.Uri.joinPath(this.folder, 'edits', name);
  }

  private async write(name: string | null): Promise<void> {
    const text = name === null ? undefined : this.texts.get(name);
    const file = name === null ? undefined : this.file(name);
    if (file && text !== undefined) await vscode.workspace.fs.writeFile(file, new TextEncoder().encode(text));
  }

  private async read(name: string): Promise<string | undefined> {
    const known = this.texts.get(name);
    const file = this.file(name);
    if (known !== undefined || !file) return known;
    try {
      return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await vscode.workspace.fs.readFile(file));
    } catch {
      return undefined;
    }
  }

  private async remove(name: string | null): Promise<void> {
    const file = name === null ? undefined : this.file(name);
    // It may be gone already.
    if (file) await Promise.resolve(vscode.workspace.fs.delete(file)).catch(() => undefined);
  }
}

function same(one: string, other: string): boolean {
  return one === other || vscode.Uri.parse(one).toString() === vscode.Uri.parse(other).toString();
}
