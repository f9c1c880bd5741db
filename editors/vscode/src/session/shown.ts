/** Values as the view shows them. Pure. */

import type { StoppedItem } from './state';

/** UTF-16 units of a tool's result that are shown. */
export const MAX_RESULT = 20_000;

export function clip(text: string): string {
  return text.length <= MAX_RESULT ? text : `${text.slice(0, MAX_RESULT)}\n… ${text.length - MAX_RESULT} more`;
}

/** Arguments as text, one per parameter. */
export function shown(values: unknown): Record<string, string> {
  if (typeof values !== 'object' || values === null) return {};
  const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, text(value)]));
}

/** Why a turn ended early. Two limits end it: that of the answer, and the context's, of which a notice tells. */
export function endText({ reason, explained }: Pick<StoppedItem, 'reason' | 'explained'>): string {
  if (reason === 'cancelled') return 'Stopped.';
  return explained ? 'Ended: no room for more tokens.' : 'Ended: no room for more tokens (ds4.sampling.maxTokens).';
}

/** What is in the input after `text` came back to it: nothing that was typed meanwhile is lost. */
export function putBack(text: string, typed: string): string {
  return typed.trim() ? `${text}\n${typed}` : text;
}
