#!/usr/bin/env bash
# Measures olmes on a vLLM server beside lm-eval's client of completions APIs on
# the same server; see bench/README.md. One command: it installs what it needs.
set -euo pipefail
exec python3 -B "$(dirname "$0")/peers/servers.py" "$@"
