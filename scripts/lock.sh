#!/usr/bin/env bash
# Writes requirements.lock and requirements-build.lock: versions and hashes, no addresses.
# The user's own pip settings (mirrors, constraints, find-links) must not leak into the files, so they are set aside.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pip-tools==7.6.2

for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
  [ "$name" = PIP_CERT ] || unset "$name"
done
export PIP_CONFIG_FILE=/dev/null

compile() {
  "$work/venv/bin/pip-compile" --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options --no-annotate --no-header --strip-extras --allow-unsafe "$@"
}

compile --extra dev --build-deps-for editable --output-file requirements.lock pyproject.toml
compile --output-file requirements-build.lock scripts/requirements-build.in
for file in requirements.lock requirements-build.lock; do
  # shellcheck disable=SC2016
  { echo '# Versions and hashes of every package that `make install` uses; `make lock` writes this file. No addresses.'
    cat "$file"; } >"$work/lock"
  cp "$work/lock" "$file"
done
