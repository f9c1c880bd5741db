// How long the extension takes to activate, beside one that VS Code brings along and that is a language client, too.
const vscode = require('vscode');

const PEER = 'vscode.css-language-features';

async function activation(id) {
  const extension = vscode.extensions.getExtension(id);
  if (extension.isActive) throw new Error(`${id} is active already`);
  const began = performance.now();
  await extension.activate();
  return performance.now() - began;
}

exports.run = async () => {
  const ours = await activation('ds4-lsp.ds4-lsp');
  const peer = await activation(PEER);
  console.log(`host: activation ${ours.toFixed(1)} ms, ${(ours / peer).toFixed(2)} times that of ${PEER}`);
};
