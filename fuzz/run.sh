#!/bin/sh
# Runs one fuzz target, or all one after the other, each for some seconds: fuzz/run.sh TARGET|all SECONDS
set -eu
cd "$(dirname "$0")"
case "${1-}" in
all) targets=$(ls fuzz_targets | sed 's/\.rs$//') ;;
?*) targets=$1 ;;
*) echo "usage: fuzz/run.sh TARGET|all SECONDS" >&2; exit 2 ;;
esac
seconds=${2:-60}

# Files of the targets are kept in memory.
TMPDIR=$(mktemp -d "$(if [ -d /dev/shm ]; then echo /dev/shm; else echo "${TMPDIR:-/tmp}"; fi)/ergometer-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

for target in $targets; do
    cargo +nightly fuzz run "$target" -- \
        "-max_total_time=$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1
done
