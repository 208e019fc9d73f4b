#!/usr/bin/env bash
# Measures olmes beside other ways to score the same requests with the same
# weights; see bench/README.md. One command: it installs what it compares with.
set -euo pipefail
exec python3 -B "$(dirname "$0")/peers/main.py" "$@"
