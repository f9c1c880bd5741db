/** The Python that the user works with, as the Python extension knows it. */

import * as vscode from 'vscode';

interface PythonApi {
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    onDidChangeActiveEnvironmentPath?: vscode.Event<unknown>;
  };
}

/** Milliseconds that the Python extension has to activate; a server that starts without it is better than none. */
const PATIENCE = 5000;

/** Path of the interpreter or of its environment's folder; undefined without the Python extension. */
export async function activePython(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>('ms-python.python');
  if (!extension) return undefined;
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, PATIENCE, undefined));
  try {
    const api = await Promise.race([extension.activate(), late]);
    return api?.environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri).path;
  } catch {
    return undefined;
  }
}
