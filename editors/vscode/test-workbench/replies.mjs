// What the model says in the workbench tests, and the file that it edits.

export const CALC = `# A small calculator.
#
# It adds, and it is to subtract.


def add(a, b):
    return a + b


def subtract(a, b):
    return a + b


print(subtract(5, 3))
`;

/** CRC-32 of CALC, as the server's \`file_tag\`. */
export const CALC_TAG = 'a353d7a4';

export const COMMAND =
  'rm -rf build \\\n  && find . -name "*.pyc" -delete \\\n  && echo "everything is clean" > cleaned.txt';

const HOSTILE = [
  '<img src="x" onerror="document.body.dataset.owned = 1"><script>document.body.dataset.owned = 1</script>',
  '[run me](command:workbench.action.terminal.new) and [open me](file:///etc/passwd) and [the web](https://example.com/a)',
].join('\n\n');

export function call(name, parameters) {
  const rows = Object.entries(parameters).map(([key, value]) => {
    const raw = typeof value === 'string';
    return `<｜DSML｜parameter name="${key}" string="${raw}">${raw ? value : JSON.stringify(value)}</｜DSML｜parameter>`;
  });
  return [
    '<｜DSML｜tool_calls>',
    `<｜DSML｜invoke name="${name}">`,
    ...rows,
    '</｜DSML｜invoke>',
    '</｜DSML｜tool_calls>',
  ].join('\n');
}

const EXPLANATION = `The bug is in \`subtract\`: it **adds**.

1. \`add\` is right.
2. \`subtract\` uses the same operator.

\`\`\`python
def subtract(a, b):
    return a - b
\`\`\`
`;

export const REPLIES = [
  { text: EXPLANATION, delay_ms: 30 },
  { text: `I read the file first.\n\n${call('read', { path: 'calc.py' })}` },
  {
    text: `Now I change line 11.\n\n${call('edit', { path: 'calc.py', file_tag: CALC_TAG, line: 11, new: '    return a - b' })}`,
    delay_ms: 25,
  },
  { text: 'Done: `subtract` subtracts now.' },
  { text: `I clean up.\n\n${call('bash', { command: COMMAND })}` },
  { text: 'I may not run it, so nothing was cleaned.' },
  { text: 'This answer goes on and on. '.repeat(60), delay_ms: 80 },
  { purpose: 'summary', text: 'A summary that nobody waits for. '.repeat(40), delay_ms: 80 },
  {
    purpose: 'summary',
    text: '## Intent\n\nFix `subtract` in calc.py.\n\n## Files\n\n- calc.py: line 11 is fixed.\n\n## Next step\n\nRun it.\n',
    delay_ms: 15,
  },
  { text: `Here is a second session.\n\n${HOSTILE}\n` },
];
