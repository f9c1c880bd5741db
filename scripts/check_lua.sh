#!/usr/bin/env bash
# Checks the Neovim plugin's Lua: StyLua (format), luacheck (lint), EmmyLua's language server (types).
# `scripts/check_lua.sh --fix` formats instead. What is missing is fetched: from the registries into the user's cache,
# luacheck and Node as system packages where this runs as root.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
plugin=editors/neovim
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ds4-lsp/tools

need() { # COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2" >/dev/null
  else
    echo "check_lua: $1 is missing (on Debian or Ubuntu: sudo apt-get install $2)" >&2
    exit 1
  fi
}

need node nodejs
need npm npm
need luacheck lua-check

stylua=$cache/stylua-$(sha256sum $plugin/tools/package-lock.json | cut -c1-16)
if [ ! -d "$stylua" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp $plugin/tools/package.json $plugin/tools/package-lock.json $plugin/tools/.npmrc "$work"
  (cd "$work" && npm ci --silent)
  mkdir -p "$cache"
  mv -T "$work" "$stylua" 2>/dev/null || [ -d "$stylua" ]
fi

mapfile -t files < <(find $plugin -name '*.lua' | sort)
if [ "${1:-}" = --fix ]; then
  node $plugin/tools/stylua.mjs "$stylua" $plugin/stylua.toml "${files[@]}"
  exit
fi
node $plugin/tools/stylua.mjs --check "$stylua" $plugin/stylua.toml "${files[@]}"
luacheck --quiet --config $plugin/.luacheckrc "${files[@]}"
"$("$python" scripts/neovim.py nvim)" --clean --headless -l $plugin/tools/types.lua "$("$python" scripts/neovim.py emmylua_ls)"
