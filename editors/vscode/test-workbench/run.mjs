// node test-workbench/run.mjs [--screenshots DIR] [--only host|starts|several|ui|panels|crashes|deaths|measure]
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runCrashes } from './crashes.mjs';
import { runDeaths } from './deaths.mjs';
import { runPanels } from './panels.mjs';
import { runUi } from './ui.mjs';
import { FAST, MODEL, SERVER, Workbench } from './workbench.mjs';

const { values } = parseArgs({ options: { screenshots: { type: 'string' }, only: { type: 'string' } } });
const out = path.resolve(import.meta.dirname, 'out');
fs.rmSync(out, { recursive: true, force: true });
for (const needed of [SERVER, MODEL, FAST]) {
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

/** A module inside the extension host, in a window of its own. `prepare` gives the options for that window. */
async function inside(name, module, prepare) {
  const bench = new Workbench(path.join(out, name));
  try {
    bench.replies({ text: 'Hello **there**.\n\n```python\nprint(1)\n```\n' });
    const options = prepare?.(bench) ?? {};
    await bench.start();
    const { page, done } = await bench.open({ tests: path.resolve(import.meta.dirname, module), ...options });
    await test(
      `the suite ${path.basename(module, '.cjs')} inside the extension host`,
      async () => {
        const late = new Promise((_, reject) =>
          setTimeout(() => reject(new Error('no answer in 300 s')), 300_000).unref(),
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

const host = () => inside('host', 'host/index.cjs');

const starts = () => inside('starts', 'host/starts.cjs', (bench) => bench.settings({ 'ds4.model.path': FAST }));

const measure = () => inside('measure', 'host/measure.cjs');

const several = () =>
  inside('several', 'host/multiroot.cjs', (bench) => {
    bench.settings({ 'ds4.server.path': '', 'ds4.model.path': FAST });
    bench.variable('PATH', `${path.dirname(SERVER)}:$PATH`);
    bench.variable('VIRTUAL_ENV', path.dirname(path.dirname(SERVER)));
    return { several: bench.folders('one', 'two') };
  });

/** A user's session in a window of its own. */
async function driven(name, run) {
  const bench = new Workbench(path.join(out, name));
  const pictures = values.screenshots ? path.resolve(values.screenshots) : path.join(out, 'pictures');
  fs.mkdirSync(pictures, { recursive: true });
  try {
    await bench.start();
    await run(bench, test, pictures);
  } finally {
    await bench.close();
  }
}

const ui = () => driven('ui', runUi);

const panels = () => driven('panels', runPanels);

const crashes = () => driven('crashes', runCrashes);

const deaths = () => driven('deaths', runDeaths);

// What `--only` names; measuring proves nothing.
const suites = { host, starts, several, ui, panels, crashes, deaths };
const chosen = values.only
  ? Object.entries({ ...suites, measure }).filter(([name]) => name === values.only)
  : Object.entries(suites);
for (const [name, suite] of chosen) {
  await suite().catch((error) => {
    if (error.message !== 'the suite ends here') {
      failures.push(name);
      console.log(`FAIL ${name}\n${error.stack}`);
    }
  });
  console.log(`${name}: ${elapsed()}`);
}
console.log(`${passed} passed, ${failures.length} failed in ${elapsed()}`);
process.exit(failures.length ? 1 : 0);
