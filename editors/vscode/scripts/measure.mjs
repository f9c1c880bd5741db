// Prints the sizes of what the extension loads: `node scripts/measure.mjs`, after a production build.
import fs from 'node:fs';
import zlib from 'node:zlib';

for (const name of ['extension.js', 'webview.js', 'webview.css']) {
  const bytes = fs.readFileSync(new URL(`../dist/${name}`, import.meta.url));
  console.log(`${name} ${bytes.length} bytes, ${zlib.gzipSync(bytes).length} compressed`);
}
