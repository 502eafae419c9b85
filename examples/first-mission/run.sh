#!/usr/bin/env bash
# The first mission: a sample repository with a real bug, mended by an agent whose words are scripted.
# Usage: run.sh [--keep DIR]   REGIE: the binary. Without --keep everything is put in a new directory.
# MODEL says another wire (openai/scripted, local/scripted); MODEL_URL and MODEL_KEY name a server that runs
# already and has these words, such as a translator in front of them.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
regie=${REGIE:?set REGIE to the regie binary}
root=${1:-}
if [ "$root" = "--keep" ]; then root=$2; mkdir -p "$root"; else root=$(mktemp -d "${TMPDIR:-/tmp}/regie-first-XXXXXX"); fi
export REGIE_HOME="$root/home"

server_pid=
cleanup() {
  "$regie" serve --stop >/dev/null 2>&1 || true
  if [ -n "$server_pid" ]; then kill "$server_pid" 2>/dev/null || true; wait "$server_pid" 2>/dev/null || true; fi
}
trap cleanup EXIT

sample="$root/cart"
if [ ! -d "$sample/.git" ]; then
  cp -R "$here/sample" "$sample"
  git -C "$sample" init --quiet --initial-branch=main
  git -C "$sample" add --all
  git -C "$sample" -c user.name="Sample Owner" -c user.email=owner@example.com commit --quiet --message "Add the cart"
fi

echo "The sample repository is $sample. Its tests fail:"
(cd "$sample" && node --test 2>&1 || true) | grep -E '^(# (pass|fail)|ℹ (pass|fail))' | sed 's/^/    /'
echo
model=${MODEL:-scripted}
case "$model" in
  openai/*) vendor=OPENAI wire="OpenAI Responses" ;;
  local/*) vendor=REGIE_LOCAL wire="chat completions" ;;
  *) vendor=ANTHROPIC wire=Anthropic ;;
esac
echo "The model is SCRIPTED: its turns come from examples/first-mission/scenario.toml, served on"
echo "loopback over the $wire wire. No vendor is called and nothing is spent. All else is real."
echo

url=${MODEL_URL:-}
if [ -z "$url" ]; then
  "$regie" model-script "$here/scenario.toml" --port-file "$root/port" --ledger "$root/ledger.jsonl" &
  server_pid=$!
  for _ in $(seq 100); do [ -s "$root/port" ] && break; sleep 0.1; done
  [ -s "$root/port" ] || { echo "error: the scripted model did not start" >&2; exit 1; }
  url="http://127.0.0.1:$(cat "$root/port")"
fi

export "${vendor}_API_KEY=${MODEL_KEY:-scripted}" "${vendor}_BASE_URL=$url"
yes=
[ -t 0 ] && [ -t 1 ] || yes=--yes
"$regie" run "Make the failing test pass" --project "$sample" --done "node --test" --model "$model" $yes

echo
echo "The tests on the merged main:"
(cd "$sample" && node --test 2>&1) | grep -E '^(# (pass|fail)|ℹ (pass|fail))' | sed 's/^/    /'
echo
"$regie" show last
echo
echo "Everything is in $root; the home is REGIE_HOME=$REGIE_HOME."
