#!/usr/bin/env bash
# Runs the Postgres store on records that Citus distributes: a coordinator and two workers on this
# machine, built from a source tree of Citus 12 (docs/scaling.md). The conformance suite; then a
# load during which a worker is killed and started again, and after which every acknowledged
# completion must be there, and no transaction in doubt.
#
#   scripts/distributed.sh SOURCE_TREE
#   scripts/distributed.sh --no-conformance SOURCE_TREE    only the load
#
# SOURCE_TREE is not written to, nor is the installed Postgres: both are copied to a temporary
# folder, which is removed at the end. IDEMPOTENCY_DISTRIBUTED_BUILD names one that is kept, so that
# another run need not build Citus again; IDEMPOTENCY_DISTRIBUTED_BINARIES, a folder with the programs
# of another build of this project. Needs postgresql-server-dev-15, libkrb5-dev, libzstd-dev, autoconf
# and flex.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

conformance=1
if [ "${1:-}" = --no-conformance ]; then
  conformance=0
  shift
fi
if [ "$#" != 1 ] || [ "${1#-}" != "$1" ] || [ ! -f "$1/src/backend/distributed/citus.control" ]; then
  sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
source_tree="$(cd "$1" && pwd)"

readonly seconds=45 kill_after=15 start_after=30
folder="$(mktemp -d)"
kept="${IDEMPOTENCY_DISTRIBUTED_BUILD:-$folder/build}"
nodes=(coordinator worker1 worker2)
# Postgres does not run as root.
as_server() {
  if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}
stop() {
  local node
  for node in "${nodes[@]}"; do
    [ ! -f "$folder/$node/postmaster.pid" ] ||
      as_server "$bin/pg_ctl" stop --pgdata="$folder/$node" --mode=immediate --silent || true
  done
  rm -rf "$folder"
}
bin="$kept/root/usr/lib/postgresql/15/bin"
trap stop EXIT

if [ ! -f "$kept/root/usr/lib/postgresql/15/lib/citus.so" ]; then
  echo "== Citus"
  mkdir -p "$kept/root/usr/lib/postgresql" "$kept/root/usr/share/postgresql"
  # A copy of Postgres finds its files beside itself.
  cp -a /usr/lib/postgresql/15 "$kept/root/usr/lib/postgresql/"
  cp -a /usr/share/postgresql/15 "$kept/root/usr/share/postgresql/"
  mkdir -p "$kept/citus"
  cp -a "$source_tree/." "$kept/citus/"
  (
    cd "$kept/citus"
    ./configure PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config \
      --without-libcurl --without-lz4 --without-zstd
    make -j"$(nproc)"
    make install DESTDIR="$kept/root"
  ) >"$kept/citus.log" 2>&1 || {
    tail -n 30 "$kept/citus.log" >&2
    exit 1
  }
fi

build="${IDEMPOTENCY_DISTRIBUTED_BINARIES:-build/release/bin}"
if [ -z "${IDEMPOTENCY_DISTRIBUTED_BINARIES:-}" ]; then
  echo "== build (release)"
  configure release -D IDEMPOTENCY_BUILD_TESTS=ON
  cmake --build --preset release --target idempotencyd distributed_conformance worker_loss
fi

echo "== a coordinator and two workers"
chmod 755 "$folder"
declare -A port
for node in "${nodes[@]}"; do
  port[$node]="$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
  install -d -m 700 "$folder/$node"
  [ "$(id -u)" != 0 ] || chown postgres "$folder/$node"
  as_server "$bin/initdb" --pgdata="$folder/$node" --username=postgres --auth=trust \
    --encoding=UTF8 --no-sync >"$folder/initdb.log"
  as_server tee -a "$folder/$node/postgresql.conf" >"$folder/settings.log" <<EOF
shared_preload_libraries = 'citus'
listen_addresses = '127.0.0.1'
port = ${port[$node]}
unix_socket_directories = ''
max_prepared_transactions = 100
citus.shard_count = 8
citus.node_conninfo = 'sslmode=prefer'
EOF
done
start() {
  as_server "$bin/pg_ctl" start --wait --silent --pgdata="$folder/$1" --log="$folder/$1/log"
}
query() {
  local node="$1"
  shift
  "$bin/psql" --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 \
    "postgresql://postgres@127.0.0.1:${port[$node]}/${database:-postgres}" --command="$*"
}
for node in "${nodes[@]}"; do
  start "$node"
  query "$node" 'CREATE DATABASE records'
done
database=records
for node in "${nodes[@]}"; do query "$node" 'CREATE EXTENSION citus'; done
query coordinator "SELECT citus_set_coordinator_host('127.0.0.1', ${port[coordinator]})" >/dev/null
for worker in worker1 worker2; do
  query coordinator "SELECT citus_add_node('127.0.0.1', ${port[$worker]})" >/dev/null
done
query coordinator 'SELECT citus_version()' | cut -d' ' -f1,2
url="postgresql://postgres@127.0.0.1:${port[coordinator]}/records"

if [ "$conformance" = 1 ]; then
  echo "== the conformance suite, distributed"
  IDEMPOTENCY_TEST_POSTGRES="$url" "$build/distributed_conformance" --gtest_brief=1
fi

echo "== a worker killed after $kill_after s of $seconds s of load, started again after $start_after s"
"$build/idempotencyd" migrate --store="$url" --distribute
"$build/worker_loss" "$url" "$seconds" 2>"$folder/load.log" &
load=$!
sleep "$kill_after"
kill -9 "$(head -n1 "$folder/worker2/postmaster.pid")"
echo "-- worker2 is killed"
sleep "$((start_after - kill_after))"
# The children of a killed server end by themselves, and let go of its files then.
for _ in $(seq 100); do
  start worker2 2>>"$folder/start.log" && break
  sleep 0.2
done
echo "-- worker2 is started"
wait "$load" || {
  tail -n 20 "$folder/load.log" >&2
  exit 1
}
for worker in worker1 worker2; do
  in_doubt="$(query "$worker" 'SELECT count(*) FROM pg_prepared_xacts')"
  echo "$worker: $in_doubt transactions in doubt"
  [ "$in_doubt" = 0 ]
done

echo "== one Postgres on the same machine, for comparison"
query coordinator 'CREATE DATABASE alone' 2>>"$folder/start.log"
alone="postgresql://postgres@127.0.0.1:${port[coordinator]}/alone"
"$build/idempotencyd" migrate --store="$alone"
for mode in batched single-row; do
  echo "-- $mode"
  "$build/worker_loss" "$alone" 10 "$mode" | tail -n 1
done
