/** The page of the session view. Nothing is loaded but the extension's own script and style. */

import { randomBytes } from 'node:crypto';

export interface Sources {
  csp: string;
  script: string;
  style: string;
}

export function page({ csp, script, style }: Sources): string {
  const nonce = randomBytes(16).toString('base64url');
  const policy = `default-src 'none'; style-src ${csp}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <meta http-equiv="Content-Security-Policy" content="${policy}">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <link rel="stylesheet" href="${style}">
  <title>DS4</title>
</head>
<body>
  <header id="head">
    <h1 class="title">DS4</h1>
    <span class="state" role="status"></span>
    <meter min="0" max="100" low="60" high="85" optimum="0" value="0"></meter>
    <span class="percent"></span>
  </header>
  <main id="scroll">
    <p id="earlier" hidden>
      <button type="button" class="link" data-action="command" data-command="ds4-lsp.showHistory">Show everything before</button>
    </p>
    <div id="log" role="log" aria-label="Conversation" aria-relevant="additions"></div>
    <div id="help"></div>
  </main>
  <div id="below">
    <div id="approvals" aria-live="assertive"></div>
    <div id="jobs"></div>
    <div id="queue"></div>
  </div>
  <form id="composer">
    <ul id="words" aria-label="Commands"></ul>
    <label class="visually-hidden" for="prompt">Prompt</label>
    <textarea id="prompt" rows="2" placeholder="What should be done?" aria-describedby="words" title="Enter sends, Shift+Enter breaks the line, the arrows bring earlier prompts back"></textarea>
    <button type="submit" class="primary">Send</button>
    <button type="button" id="stop" data-action="command" data-command="ds4-lsp.stop">Stop</button>
  </form>
  <script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
