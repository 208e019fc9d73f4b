#!/usr/bin/env bash
# Compares what `olmes bench` calls the limit with llama.cpp's own llama-bench:
# both on one thread, at four depths, in turns, so that what else the machine
# does hits both. Prints tokens per second of every turn and, for each depth,
# the medians and their ratio.
#   bench/limit.sh MODEL.gguf [TURNS]
set -euo pipefail
model=$(realpath "${1:?give a .gguf file}")
turns=${2:-6}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -C "$here/../engine/llamacpp" -c -o "$work/test" .

bench() { "$here/llama-bench.sh" "$model" -r 2 -d "$1" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)[-1]["avg_ts"])'; }
limit() {
  (cd "$here/../engine/llamacpp" && OLMES_BENCH_MODEL=$model "$work/test" -test.run '^$' -test.bench "BenchmarkLimit/depth=$1\$" -test.benchtime 2x) |
    awk '/tokens\/s/ { print $(NF-1) }'
}
for ((turn = 0; turn < turns; turn++)); do
  for depth in 0 512 1024 1536; do
    if ((turn % 2)); then
      a=$(bench $depth) b=$(limit $depth)
    else
      b=$(limit $depth) a=$(bench $depth)
    fi
    echo "$depth $a $b" | tee -a "$work/turns"
  done
done
python3 - "$work/turns" <<'END'
import collections, statistics, sys
turns = collections.defaultdict(list)
for line in open(sys.argv[1]):
    depth, a, b = line.split()
    turns[int(depth)].append((float(a), float(b)))
print("| depth | llama-bench | limit | ratio | of single turns |\n|--:|--:|--:|--:|--:|")
for depth, pairs in turns.items():
    a, b = (statistics.median(x) for x in zip(*pairs))
    ratios = sorted(y / x for x, y in pairs)
    print(f"| {depth} | {a:.0f} | {b:.0f} | {b / a:.3f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |")
ratios = [b / a for pairs in turns.values() for a, b in pairs]
print(f"median of all {len(ratios)} turns' ratios: {statistics.median(ratios):.3f}")
END
