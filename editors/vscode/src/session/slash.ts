/** Which prompts the server takes as commands: they run no turn, their answer is text. Mirrors the server's rule. */

const PLAIN = new Set(['list', 'save', 'help']);
const WITH_REST = new Set(['compact', 'new', 'switch', 'history']);

export function isSlash(text: string): boolean {
  const match = /^\/(\w+)(?: +(\S[^]*))?$/.exec(text.trim());
  if (!match) return false;
  const [, name = '', rest] = match;
  if (name === 'history' && rest !== undefined) return /^\d+$/.test(rest);
  return WITH_REST.has(name) || (PLAIN.has(name) && rest === undefined);
}
