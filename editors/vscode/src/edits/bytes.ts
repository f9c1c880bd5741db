/**
 * Files as bytes, for edits of files that VS Code would not keep as they are: opening one with mixed line endings makes
 * them all alike. Pure.
 */

export interface Decoded {
  text: string;
  encode: (text: string) => Uint8Array;
}

/** Text and its way back, for UTF-8 and for UTF-16 with a BOM; undefined for anything else. */
export function decode(bytes: Uint8Array): Decoded | undefined {
  const [first, second, third] = bytes;
  try {
    if (first === 0xff && second === 0xfe) return utf16(bytes, 'utf-16le', true);
    if (first === 0xfe && second === 0xff) return utf16(bytes, 'utf-16be', false);
    const mark = first === 0xef && second === 0xbb && third === 0xbf;
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.subarray(mark ? 3 : 0));
    const head = mark ? [0xef, 0xbb, 0xbf] : [];
    return { text, encode: (changed) => Uint8Array.from([...head, ...new TextEncoder().encode(changed)]) };
  } catch {
    return undefined;
  }
}

function utf16(bytes: Uint8Array, encoding: string, little: boolean): Decoded {
  const text = new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(bytes.subarray(2));
  const encode = (changed: string): Uint8Array => {
    const view = new DataView(new ArrayBuffer(2 + 2 * changed.length));
    view.setUint16(0, 0xfeff, little);
    for (let unit = 0; unit < changed.length; unit++) view.setUint16(2 + 2 * unit, changed.charCodeAt(unit), little);
    return new Uint8Array(view.buffer);
  };
  return { text, encode };
}

/** Whether lines end in more than one way. */
export function hasMixedEndings(text: string): boolean {
  const kinds = new Set(text.match(/\r\n|\n|\r/g));
  return kinds.size > 1 || kinds.has('\r');
}

export interface Place {
  line: number;
  character: number;
}

/** `text` with the span between two positions (UTF-16 units) replaced. Only LF, CRLF and CR end a line. */
export function splice(text: string, start: Place, end: Place, replacement: string): string {
  const starts = [0, ...[...text.matchAll(/\r\n|\n|\r/g)].map((match) => match.index + match[0].length)];
  const offset = (place: Place): number => (starts[place.line] ?? text.length) + place.character;
  return text.slice(0, offset(start)) + replacement + text.slice(offset(end));
}
