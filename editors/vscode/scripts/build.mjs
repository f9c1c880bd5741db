// Bundles the extension and its webview: `node scripts/build.mjs [--production] [--watch]`.
import { build, context } from 'esbuild';

const production = process.argv.includes('--production');
const common = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : 'linked',
  outdir: 'dist',
  logLevel: 'warning',
};
const targets = [
  {
    ...common,
    entryPoints: ['src/extension.ts'],
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    external: ['vscode'],
  },
  {
    ...common,
    entryPoints: { webview: 'src/webview/main.ts' },
    platform: 'browser',
    format: 'iife',
    target: 'es2022',
  },
];

if (process.argv.includes('--watch')) {
  for (const target of targets) await (await context(target)).watch();
} else {
  await Promise.all(targets.map((target) => build(target)));
}
