#!/bin/sh
# From a script inside a container to a task that a deputy and a human approved, that ran, and that is in the
# audit log. Takes the directory of the programs (default: those in PATH); leaves nothing behind.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 0 ] || PATH=$1:$PATH
export PATH
root=$(mktemp -d)
export SALLYPORT_CONFIG="$root/sallyport.toml" SALLYPORT_STATE_DIR="$root/state" SALLYPORT_RUNTIME_DIR="$root/run"
clean_up() {
  sallyport down >/dev/null 2>&1 || true
  rm -rf "$root"
}
trap clean_up EXIT

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'approval-flow: %s\n' "$*" >&2
  exit 1
}
# Prints what a command prints once that is not empty; gives up after two minutes.
eventually() {
  for _ in $(seq 600); do
    found=$("$@") && [ -n "$found" ] && { printf '%s\n' "$found"; return; }
    sleep 0.2
  done
  fail "nothing came of: $*"
}

say "the host's own: a profile whose scheduled tasks need a deputy and a human"
mkdir -p "$root/profiles" "$root/work"
cp "$here/worker.toml" "$root/profiles/"
cp "$here/agent.sh" "$here/ask.sh" "$root/work/"
cat "$here/worker.toml"
sallyport up

say "a script inside a container asks for a task"
container=$(sallyport container create --profile worker --workspace "$root/work" --name asker)
sallyport container exec "$container" -- sh ask.sh >"$root/answer" 2>&1 &
asking=$!

say "the built-in deputy has no objection; a human sees everything that will run"
question() { sallyport approvals ls --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p'; }
id=$(eventually question)
sallyport approvals show "$id"
sallyport approvals approve "$id"
wait "$asking" || fail "the container was refused: $(cat "$root/answer")"
cat "$root/answer"

say "the task runs at its time, in a fresh container of the same profile"
finished() { sallyport schedule ls --json | grep -o '"last_outcome":"[a-z]*"'; }
outcome=$(eventually finished)
[ "$outcome" = '"last_outcome":"done"' ] || fail "the task ended with $outcome"
sallyport schedule ls
cat "$root/work/report"
grep -q "water the plants" "$root/work/report" || fail "the agent did not get its prompt"

say "all of it is in the audit log, which verifies"
sallyport audit query --json | grep -o '"method":"[a-z_.]*"' | sort | uniq -c
for method in schedule_task schedule.add schedule.run schedule.finished; do
  sallyport audit query --method "$method" --json | grep -q "\"$method\"" || fail "$method is not in the audit log"
done
sallyport audit verify
