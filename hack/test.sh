#!/usr/bin/env bash
# Runs all tests. The end-to-end ones wait more than they work, so some programs of tests run side by side. `make test` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

# These take longest, so they begin first: none is left to run alone at the end. The very first waits for leases to run out,
# and takes no place from the others.
long="operators bad_days unseen figures infos vcenters groups neighbours node shells shells_on_a_node lifecycle"
side_by_side=${TEST_JOBS:-3}

logs=$(mktemp -d "${TMPDIR:-/tmp}/drover-test.XXXXXX")
trap 'rm -rf "$logs"' EXIT

echo "make: building the tests; the first time takes about 5 minutes"
# Each of the two builds leaves a core idle now and then, so they run side by side.
"${MAKE:-make}" sandbox/bin/sandbox &
cargo test --workspace --locked --no-run --quiet &
for _ in 1 2; do
  wait -n || { code=$?; jobs -p | xargs -r kill; exit $code; }
done
# The version before, for the test of the upgrade. Without the project's history there is none, and that test says so.
hack/before.sh >/dev/null || [ $? = 3 ]
# Each program of tests: its path, and the folder of its crate.
cargo test --workspace --locked --no-run --quiet --message-format=json |
  sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\2 \1|p' >"$logs/programs"

# Runs a program in a folder, and shows what came of it when it has ended.
run() {
  local name=$1 dir=$2 log=$logs/$1.log began=$SECONDS outcome=ok
  (cd "$dir" && "${@:3}") >"$log" 2>&1 || outcome=FAILED
  printf 'test program %s ... %s, %d s\n' "$name" "$outcome" $((SECONDS - began))
  [ $outcome = ok ] || { cat "$log"; touch "$logs/failed"; }
}

# Runs it beside others, once there is room.
begin() {
  while [ "$(jobs -pr | grep -vxc "${first:-none}")" -ge "$side_by_side" ]; do wait -n || true; done
  run "$@" &
  : "${first:=$!}"
}

for name in $long; do
  grep "/$name-[0-9a-f]* " "$logs/programs" || { echo "hack/test.sh: there is no program $name" >&2; exit 1; }
done >"$logs/order"
grep -vxFf "$logs/order" "$logs/programs" >>"$logs/order"
while read -r path dir; do
  begin "$(basename "$path")" "$dir" "$path"
done <"$logs/order"
# Those in the documentation. Asked for by name, and not with --doc, which would have Cargo build half of all anew.
begin examples . cargo test --workspace --locked --quiet -- '(line '
# Those of the simulated vCenter's front, in Go. `make lint` vets them.
begin front-in-go sandbox go test -vet=off ${GO_FLAGS-} ./vcenter
wait

hack/summary.sh "$logs" || touch "$logs/failed"
[ ! -e "$logs/failed" ]
