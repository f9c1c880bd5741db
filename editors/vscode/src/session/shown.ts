/** Values as the view shows them. Pure. */

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
