#!/usr/bin/env bash
# Installs the workbench that the tests drive, once, outside the checkout; prints the path of its server-main.js.
#
# code-server's npm package holds the real VS Code workbench and extension host. No install script is run, so no compiler
# and nothing from outside the registry is needed.
set -euo pipefail
version=4.100.3
target=${XDG_CACHE_HOME:-$HOME/.cache}/ds4-lsp/tools/code-server-$version
main=$target/node_modules/code-server/lib/vscode/out/server-main.js
if [ ! -e "$target/.installed" ]; then
  # A directory of its own per attempt: two test runs may install at the same time.
  mkdir -p "$(dirname "$target")"
  draft=$(mktemp -d "$target.XXXXXX")
  trap 'rm -rf "$draft"' EXIT
  quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
  echo '{"private":true}' > "$draft/package.json"
  (cd "$draft" && npm install "${quiet[@]}" "code-server@$version") >&2
  vscode=$draft/node_modules/code-server/lib/vscode
  (cd "$vscode" && npm install --omit=dev "${quiet[@]}") >&2
  (cd "$vscode/extensions" && npm install --omit=dev "${quiet[@]}") >&2
  ln -sfn node_modules "$vscode/node_modules.asar"
  touch "$draft/.installed"
  rm -rf "$target"
  mv -T "$draft" "$target" 2>/dev/null || [ -e "$target/.installed" ]
fi
echo "$main"
