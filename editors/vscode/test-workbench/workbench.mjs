// The real workbench: the VS Code server, a workspace of its own, and headless Chromium in front of it.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const EXTENSION = path.resolve(import.meta.dirname, '..');
const CACHE = path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'ds4-lsp');
export const SERVER = process.env.DS4_TEST_SERVER || path.resolve(EXTENSION, '../../.venv/bin/ds4-lsp');
export const MODEL = process.env.DS4_TEST_MODEL || path.join(CACHE, 'models/smollm2-135m-q4_0.gguf');
/** One that need not make sense: for replies that are all scripted. */
export const FAST = process.env.DS4_TEST_FAST_MODEL || MODEL;
const PROMPTS = path.join(CACHE, 'tools/vscode-prompts');

const SETTINGS = {
  'ds4.server.path': SERVER,
  'ds4.model.path': MODEL,
  'ds4.model.contextSize': 8192,
  'ds4.model.threads': 1,
  'ds4.sampling.temperature': 0,
  'workbench.colorTheme': 'Default Dark Modern',
  'workbench.startupEditor': 'none',
  'workbench.enableExperiments': false,
  'workbench.tips.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'extensions.autoUpdate': false,
  'extensions.autoCheckUpdates': false,
  'update.mode': 'none',
  'chat.commandCenter.enabled': false,
  'files.simpleDialog.enable': true,
  'editor.accessibilitySupport': 'off',
  'editor.suggest.showWords': false,
  'editor.autoClosingBrackets': 'never',
};

export class Workbench {
  constructor(out) {
    this.out = out;
    this.home = fs.mkdtempSync(path.join(os.tmpdir(), 'ds4-vscode-'));
    this.workspace = path.join(this.home, 'ws');
    this.script = path.join(this.home, 'script.jsonl');
    this.prompts = path.join(this.home, '.state/ds4-lsp/sessions/sysprompt');
    this.refused = new Set();
    fs.mkdirSync(this.workspace);
    fs.mkdirSync(out, { recursive: true });
    this.replies();
    this.settings();
  }

  /** The machine's settings, in force at once. */
  settings(overrides = {}) {
    const folder = path.join(this.home, 'data/Machine');
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, 'settings.json'), JSON.stringify({ ...SETTINGS, ...overrides }));
  }

  /** What the model says, from the next start of the server on. */
  replies(...entries) {
    const lines = entries.map((entry) => JSON.stringify({ purpose: 'turn', ...entry }));
    fs.writeFileSync(this.script, lines.map((line) => `${line}\n`).join(''));
  }

  file(name, text) {
    const file = path.join(this.workspace, name);
    fs.writeFileSync(file, text);
    return file;
  }

  /** A variable of the user's; extensions see what a login shell makes of it. */
  variable(name, value) {
    fs.appendFileSync(path.join(this.home, '.bash_profile'), `export ${name}="${value}"\n`);
  }

  /** A workspace of several folders; its file. */
  folders(...names) {
    for (const name of names) fs.mkdirSync(path.join(this.home, name), { recursive: true });
    const file = path.join(this.home, 'several.code-workspace');
    fs.writeFileSync(file, JSON.stringify({ folders: names.map((name) => ({ path: name })) }));
    return file;
  }

  /** Snapshots of the evaluated system prompt: it takes longest of all, and is the same in every run. */
  share(source, target) {
    if (!fs.existsSync(source)) return;
    fs.rmSync(target, { recursive: true, force: true });
    fs.cpSync(source, target, { recursive: true });
    fs.chmodSync(target, 0o700);
  }

  async start() {
    this.share(PROMPTS, this.prompts);
    const main = execFileSync(path.join(EXTENSION, 'scripts/install-code-server.sh'), {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.port = await freePort();
    const data = path.join(this.home, 'data');
    const env = {
      ...process.env,
      HOME: this.home,
      XDG_CONFIG_HOME: path.join(this.home, '.config'),
      XDG_DATA_HOME: path.join(this.home, '.local'),
      XDG_STATE_HOME: path.join(this.home, '.state'),
      EXTENSIONS_GALLERY: '{}',
      GOMP_SPINCOUNT: '1000',
      DS4_LSP_SCRIPT: this.script,
      DS4_MODEL: '',
      VIRTUAL_ENV: '',
    };
    delete env.VSCODE_IPC_HOOK_CLI;
    const args = [
      main.toString().trim(),
      '--host',
      '127.0.0.1',
      '--port',
      String(this.port),
      '--without-connection-token',
    ];
    args.push('--accept-server-license-terms', '--telemetry-level', 'off', '--disable-workspace-trust');
    args.push('--server-data-dir', data, '--user-data-dir', data);
    args.push('--extensions-dir', path.join(this.home, 'extensions'));
    this.server = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = fs.createWriteStream(path.join(this.out, 'workbench.log'));
    this.server.stdout.pipe(log);
    this.server.stderr.pipe(log);
    await until(
      () =>
        fetch(`http://127.0.0.1:${this.port}/version`).then(
          () => true,
          () => false,
        ),
      60_000,
      'the workbench',
    );
    this.browser = await chromium.launch({
      executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
    });
  }

  /** A window on the workspace. `tests`: a module to run inside the extension host; `several`: a workspace file. */
  async open({ tests, several } = {}) {
    this.context ??= await this.browser.newContext({ viewport: { width: 1360, height: 860 } });
    const page = await this.context.newPage();
    page.on('requestfailed', (request) => {
      const { host } = new URL(request.url());
      if (host && !host.startsWith('127.')) this.refused.add(host);
    });
    page.on('console', (message) => {
      fs.appendFileSync(path.join(this.out, 'console.log'), `${message.type()}: ${message.text()}\n`);
    });
    const remote = (file) => `vscode-remote://127.0.0.1:${this.port}${file}`;
    const payload = [['extensionDevelopmentPath', remote(EXTENSION)]];
    let done;
    if (tests) {
      payload.push(['extensionTestsPath', remote(tests)]);
      done = new Promise((resolve) => page.exposeFunction('codeAutomationExit', (code) => resolve(code)));
      await page.exposeFunction('codeAutomationLog', (_type, args) => {
        const text = [args].flat().map(String).join(' ').replace(/^"|"$/g, '');
        // The workbench has much to say, too.
        if (/^(ok {3}|FAIL |host: )/.test(text)) console.log(text);
      });
    }
    const what = several ? `workspace=${several}` : `folder=${this.workspace}`;
    const query = `${what}&payload=${encodeURIComponent(JSON.stringify(payload))}`;
    await page.goto(`http://127.0.0.1:${this.port}/?${query}`);
    await page.locator('.monaco-workbench').waitFor({ timeout: 90_000 });
    return { page, done };
  }

  /** Process ids of what the extension started: servers, and the engines below them. */
  agents() {
    const commands = this.pids().map((pid) => [pid, about(pid, 'cmdline').split('\0').join(' ')]);
    const of = (text) => commands.filter(([, command]) => command.includes(text)).map(([pid]) => Number(pid));
    return { servers: of('bin/ds4-lsp'), engines: of('ds4_lsp.engine') };
  }

  /** Every process that descends from this workbench, by its environment. */
  processes() {
    return this.pids().map((pid) => `${pid} ${about(pid, 'comm').trim()}`);
  }

  pids() {
    const ours = (pid) => about(pid, 'environ').includes(`HOME=${this.home}\0`);
    return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && ours(name));
  }

  async close() {
    await this.browser?.close();
    if (this.server && this.server.exitCode === null) {
      const ended = new Promise((resolve) => this.server.once('exit', resolve));
      this.server.kill('SIGTERM');
      await ended;
    }
    this.share(this.prompts, PROMPTS);
    await until(() => this.processes().length === 0, 30_000, `the end of ${this.processes().join('; ')}`);
    fs.rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/** What the kernel says of a process; nothing of one that has ended meanwhile. */
function about(pid, what) {
  try {
    return fs.readFileSync(`/proc/${pid}/${what}`, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES'].includes(error.code)) return '';
    throw error;
  }
}

export async function until(check, timeout, what) {
  const end = performance.now() + timeout;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (performance.now() > end) throw new Error(`waited ${timeout} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
