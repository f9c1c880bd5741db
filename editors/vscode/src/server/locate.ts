/** Where `ds4-lsp` may be: the setting, the active Python environment, the PATH, in that order. */

import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import * as path from 'node:path';

export interface Places {
  /** The setting `ds4.server.path`. */
  setting: string;
  /** The active Python: an interpreter or the folder of an environment. */
  python: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
  home: string;
  platform: NodeJS.Platform;
}

export interface Candidate {
  source: 'setting' | 'python' | 'path';
  path: string;
}

export type Located = { path: string; source: Candidate['source'] } | { missing: string };

/** Every place to look at. A setting is the only one: a wrong one is told, not worked around. */
export function candidates(places: Places): Candidate[] {
  const setting = places.setting.trim();
  if (setting) return [{ source: 'setting', path: setting.replace(/^~(?=$|[\\/])/, places.home) }];
  const windows = places.platform === 'win32';
  const name = windows ? 'ds4-lsp.exe' : 'ds4-lsp';
  const inside = (environment: string): string => path.join(environment, windows ? 'Scripts' : 'bin', name);
  const found: Candidate[] = [];
  if (places.python) {
    found.push({ source: 'python', path: path.join(path.dirname(places.python), name) });
    found.push({ source: 'python', path: inside(places.python) });
  }
  for (const environment of [places.env['VIRTUAL_ENV'], places.env['CONDA_PREFIX']]) {
    if (environment) found.push({ source: 'python', path: inside(environment) });
  }
  for (const folder of (places.env['PATH'] ?? '').split(path.delimiter)) {
    if (path.isAbsolute(folder)) found.push({ source: 'path', path: path.join(folder, name) });
  }
  return found;
}

/** The first candidate that can be executed, or what to tell the user. */
export async function locate(places: Places): Promise<Located> {
  const all = candidates(places);
  for (const candidate of all) {
    if (await isExecutable(candidate.path)) return { path: candidate.path, source: candidate.source };
  }
  const first = all[0];
  if (first?.source === 'setting') {
    return { missing: `The setting ds4.server.path names ${first.path}, which is not an executable file.` };
  }
  return {
    missing: 'The DS4 server (ds4-lsp) was not found in the active Python environment or on the PATH.',
  };
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
