#!/usr/bin/env bash
# Runs all tests. The end-to-end ones wait more than they work, so two of their programs run side by side; those that bring up
# nodes or have to do with time run last, one by one. `make test` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The longest first, so that none is left to run alone at the end.
crowd="groups vcenters vim25 shells lifecycle infos front parts"
quiet="node shells_on_a_node operators infos_at_rest demo"
side_by_side=${TEST_JOBS:-2}

logs=$(mktemp -d "${TMPDIR:-/tmp}/drover-test.XXXXXX")
trap 'rm -rf "$logs"' EXIT

echo "make: building the tests; the first time takes about 4 minutes"
cargo test --workspace --locked --no-run --quiet
# Each program of tests: its name, the folder of its crate, and its path.
cargo test --workspace --locked --no-run --quiet --message-format=json |
  sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\2 \1 \3|p' >"$logs/programs"

# Runs the tests of one program, and shows what came of it when it has ended.
run() {
  local name=$1 dir=$2 path=$3 began=$SECONDS outcome=ok
  (cd "$dir" && "$path") >"$logs/$name.log" 2>&1 || outcome=FAILED
  printf 'test program %s ... %s, %d s\n' "$name" "$outcome" $((SECONDS - began))
  [ $outcome = ok ] || { cat "$logs/$name.log"; touch "$logs/failed"; }
}

# Runs programs of the end-to-end tests, so many at a time.
run_all() {
  local jobs=$1 name program
  shift
  for name in "$@"; do
    program=$(grep "^$name .*/crates/e2e " "$logs/programs") || { echo "hack/test.sh: there is no program $name" >&2; exit 1; }
    while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    # shellcheck disable=SC2086
    run $program &
  done
  wait
}

while read -r name dir path; do
  if [[ $dir != */crates/e2e ]]; then
    run "$name" "$dir" "$path"
  elif [[ " $crowd $quiet drover_e2e " != *" $name "* ]]; then
    echo "hack/test.sh: $name is in no list of programs" >&2
    exit 1
  fi
done <"$logs/programs"
cargo test --workspace --locked --doc --quiet >"$logs/examples.log" 2>&1 || { cat "$logs/examples.log"; touch "$logs/failed"; }
# shellcheck disable=SC2086
run_all "$side_by_side" $crowd
# shellcheck disable=SC2086
run_all 1 $quiet

awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     END { printf "test result: %d passed; %d failed; %d ignored\n", passed, failed, ignored }' "$logs"/*.log
[ ! -e "$logs/failed" ]
