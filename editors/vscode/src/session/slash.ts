/** Which prompts the server takes as commands: they run no turn, their answer is text. */

import { SLASH_WORDS } from '../generated/protocol';

export type SlashWord = (typeof SLASH_WORDS)[number];

/** Whether a text is meant as a command; what the server refuses of these runs no turn either. */
export function isSlash(text: string): boolean {
  const name = /^\/([A-Za-z][A-Za-z-]*)(?=\s|$)/.exec(text)?.[1];
  if (name === undefined) return false;
  return SLASH_WORDS.some((word) => word.name === name) || !text.trim().includes('\n');
}

/** The words that a text may become: it is the beginning of one, and nothing else yet. */
export function candidates(text: string): SlashWord[] {
  const begun = /^\/([a-z-]*)$/.exec(text)?.[1];
  return begun === undefined ? [] : SLASH_WORDS.filter((word) => word.name.startsWith(begun));
}
