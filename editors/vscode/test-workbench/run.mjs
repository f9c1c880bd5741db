// node test-workbench/run.mjs [--screenshots DIR] [--only host|ui]
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runUi } from './ui.mjs';
import { MODEL, SERVER, Workbench } from './workbench.mjs';

const { values } = parseArgs({ options: { screenshots: { type: 'string' }, only: { type: 'string' } } });
const out = path.resolve(import.meta.dirname, 'out');
fs.rmSync(out, { recursive: true, force: true });
for (const needed of [SERVER, MODEL]) {
  if (!fs.existsSync(needed)) throw new Error(`${needed} is missing: set DS4_TEST_SERVER and DS4_TEST_MODEL`);
}

const failures = [];
let passed = 0;
const began = performance.now();
const elapsed = () => `${((performance.now() - began) / 1000).toFixed(1)} s`;

/** One named test; a failure leaves a picture and ends its suite, whose later tests build on it. */
export async function test(name, run, page) {
  const start = performance.now();
  try {
    await run();
    passed++;
    console.log(`ok   ${name} (${Math.round(performance.now() - start)} ms)`);
  } catch (error) {
    failures.push(name);
    console.log(`FAIL ${name}\n${error.stack}`);
    await page?.screenshot({ path: path.join(out, 'failure.png') }).catch(() => undefined);
    throw new Error('the suite ends here', { cause: error });
  }
}

async function host() {
  const bench = new Workbench(path.join(out, 'host'));
  try {
    bench.replies({ text: 'Hello **there**.\n\n```python\nprint(1)\n```\n' });
    await bench.start();
    const { page, done } = await bench.open(path.resolve(import.meta.dirname, 'host/index.cjs'));
    await test(
      'the suite inside the extension host',
      async () => {
        const late = new Promise((_, reject) =>
          setTimeout(() => reject(new Error('no answer in 120 s')), 120_000).unref(),
        );
        const code = await Promise.race([done, late]);
        if (code !== 0) throw new Error(`exit code ${code}`);
      },
      page,
    );
  } finally {
    await bench.close();
  }
}

async function ui() {
  const bench = new Workbench(path.join(out, 'ui'));
  const pictures = values.screenshots ? path.resolve(values.screenshots) : path.join(out, 'pictures');
  fs.mkdirSync(pictures, { recursive: true });
  try {
    await bench.start();
    await runUi(bench, test, pictures);
  } finally {
    await bench.close();
  }
}

for (const suite of [host, ui].filter((one) => !values.only || one.name === values.only)) {
  await suite().catch((error) => {
    if (error.message !== 'the suite ends here') {
      failures.push(suite.name);
      console.log(`FAIL ${suite.name}\n${error.stack}`);
    }
  });
  console.log(`${suite.name}: ${elapsed()}`);
}
console.log(`${passed} passed, ${failures.length} failed in ${elapsed()}`);
process.exit(failures.length ? 1 : 0);
