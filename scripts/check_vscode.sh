#!/usr/bin/env bash
# Checks the VS Code extension: types, lint, format, and what is generated from the server's models. Its packages are
# installed first where they are not what the lock file has.
set -euo pipefail
cd "$(dirname "$0")/../editors/vscode"
python=${PYTHON:-../../.venv/bin/python}
command -v npm >/dev/null || { echo "check_vscode: npm is missing: install Node.js 20 or newer" >&2; exit 1; }
if ! cmp -s package-lock.json node_modules/.stamp-lock; then
  npm ci --ignore-scripts --no-audit --no-fund --silent
  cp package-lock.json node_modules/.stamp-lock
fi
"$python" scripts/generate.py --check
npm run --silent check
