/** The section `ds4` as the server gets it: without what belongs to the extension alone. Pure. */

const OWN = new Set(['server', 'trace']);

export function serverSection(section: unknown): Record<string, unknown> {
  if (typeof section !== 'object' || section === null) return {};
  return Object.fromEntries(Object.entries(section).filter(([key]) => !OWN.has(key)));
}
