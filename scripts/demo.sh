#!/usr/bin/env bash
# Demonstrates the promises of grpc-idempotency with real processes: builds
# idempotencyd and the payments example, starts them on free ports of this machine,
# and runs a scene for each promise: retries, duplicates, kill -9. Cleans up after itself.
#
#   scripts/demo.sh                          records in SQLite
#   scripts/demo.sh --store=postgres         in a private Postgres that it starts and removes
#   scripts/demo.sh --store=postgresql://... in an existing Postgres
#   scripts/demo.sh --store=sqlite:PATH      in that file
#   scripts/demo.sh --envoy                  the payments service is in Python and has no line of this
#                                            project: Envoy and idempotencyd guard it
#   scripts/demo.sh --serve                  leaves the processes running afterwards, until Ctrl-C
#   scripts/demo.sh --preset=PRESET          a build other than release
#   scripts/demo.sh --no-build               with the existing build of that preset
#   scripts/demo.sh --keep                   keeps the folder with logs and databases
#
# Exit status: 0 if every scene went as promised, 1 if not, 2 for a bad argument.
set -euo pipefail
called_from="$PWD"
cd "$(dirname "$0")/.."

usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; }

store=""
envoy=0
serve=0
keep=0
build=1
preset=release
for argument in "$@"; do
  case "$argument" in
    --store=sqlite:?* | --store=postgresql://* | --store=postgres://* | --store=postgres)
      store="${argument#*=}"
      ;;
    --envoy) envoy=1 ;;
    --serve) serve=1 ;;
    --keep) keep=1 ;;
    --no-build) build=0 ;;
    --preset=?*) preset="${argument#*=}" ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
  esac
done

# gRPC sends calls to a proxy of the environment, also those to this machine.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}"
export NO_PROXY=$no_proxy

bin="build/$preset/bin"
# How long a crashed attempt keeps its key: short, so that the demo does not wait long.
lease_seconds=2
# The limit of every wait, in seconds.
limit_seconds=20

step() { printf '\n== %s\n' "$*"; }

die() {
  echo "error: $*" >&2
  exit 1
}

# --- Processes: started in the background, ended by their own ids -----------

declare -A pid_of=()
started=()
folder=""

is_running() { [ -n "${pid_of[$1]:-}" ] && kill -0 "${pid_of[$1]}" 2>/dev/null; }

# start NAME COMMAND...: stdout to NAME.out (fresh), stderr added to NAME.log.
start() {
  local name="$1"
  shift
  # Emptied here and not only by the child, so that the output of an earlier
  # process of that name is not read.
  : >"$folder/$name.out"
  "$@" >"$folder/$name.out" 2>>"$folder/$name.log" </dev/null &
  pid_of[$name]=$!
  started+=("$name")
}

# end NAME SIGNAL: sends it and waits; a process that does not exit is killed.
end() {
  local name="$1" signal="$2" pid="${pid_of[$1]:-}" deadline=$((SECONDS + limit_seconds))
  [ -n "$pid" ] || return 0
  if [ "$signal" != KILL ]; then
    kill -s "$signal" "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do sleep 0.05; done
  fi
  kill -s KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  pid_of[$name]=""
}

# until_true COMMAND...: polls for at most `limit_seconds`.
until_true() {
  local deadline=$((SECONDS + limit_seconds))
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.05
  done
}

said() { grep -q "$2" "$folder/$1" 2>/dev/null; }
said_or_ended() { said "$1.out" "$2" || ! is_running "$1"; }

# await_ready NAME PATTERN: waits for its line on stdout.
await_ready() {
  if ! until_true said_or_ended "$1" "$2" || ! said "$1.out" "$2"; then
    tail -n 20 "$folder/$1.log" >&2 || true
    die "$1 did not start"
  fi
}

cleanup() {
  local status=$? index pid
  # Bounded in time, and not interrupted by a second Ctrl-C.
  trap - EXIT
  trap '' INT TERM
  set +e
  # The last one started ends first, so that no process loses its dependencies.
  for ((index = ${#started[@]} - 1; index >= 0; index--)); do
    if [ "${started[index]}" = postgres ]; then end postgres INT; else end "${started[index]}" TERM; fi
  done
  # A process that was starting when Ctrl-C came is in no list yet.
  for pid in $(jobs -pr); do kill -s KILL "$pid" 2>/dev/null; done
  if [ -n "$folder" ]; then
    if [ "$keep" = 1 ]; then echo "kept: $folder"; else rm -rf "$folder"; fi
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- The stage ---------------------------------------------------------------

build() {
  step "packages"
  scripts/install-dependencies.sh build
  if [ "$store" = postgres ]; then scripts/install-dependencies.sh postgres; fi
  if [ "$envoy" = 1 ]; then scripts/install-dependencies.sh envoy; fi
  echo "all there"

  step "build ($preset)"
  if [ ! -f "build/$preset/build.ninja" ]; then
    # Without the tests: they need packages that the demo does not need.
    cmake --preset "$preset" -DIDEMPOTENCY_BUILD_TESTS=OFF
  fi
  local targets=(idempotencyd payments_server payments_client)
  if [ "$envoy" = 1 ]; then targets=(idempotencyd idempotencyctl payments_client); fi
  cmake --build --preset "$preset" --target "${targets[@]}"
}

# Postgres refuses to run as root: then it runs as the user that its package created.
as_postgres() {
  if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"
  else
    exec "$@"
  fi
}

# A private cluster, reachable only through a socket in the demo's folder.
start_postgres() {
  local bindir data="$folder/pg"
  bindir="$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)"
  [ -n "$bindir" ] || die "no Postgres under /usr/lib/postgresql"
  chmod 711 "$folder"
  mkdir -m 700 "$data"
  if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$data"; fi
  (cd "$data" && as_postgres "$bindir/initdb" -D "$data/cluster" -U postgres --auth=trust \
    --encoding=UTF8 --locale=C) >"$folder/initdb.log" 2>&1 || {
    cat "$folder/initdb.log" >&2
    die "initdb failed"
  }
  start postgres as_postgres "$bindir/postgres" -D "$data/cluster" -k "$data" -c listen_addresses=
  until_true "$bindir/pg_isready" -q -h "$data" -U postgres || {
    tail -n 20 "$folder/postgres.log" >&2
    die "Postgres did not start"
  }
  store="postgresql://postgres@/postgres?host=$data"
}

# After a crash idempotencyd restarts at the same address: a unix socket, since another
# process may take a free port meanwhile; with --serve a port, for manual calls.
idempotencyd_at=127.0.0.1:0
# With Envoy: the processor's configuration and port.
processor_flags=()
start_idempotencyd() {
  start idempotencyd "$bin/idempotencyd" serve "--listen=$idempotencyd_at" "--store=$store" \
    --metrics=127.0.0.1:0 ${processor_flags[@]+"${processor_flags[@]}"}
  await_ready idempotencyd '^idempotencyd: serving on '
  idempotencyd_at="$(sed -n 's/^idempotencyd: serving on \([^,]*\).*/\1/p' "$folder/idempotencyd.out")"
}

payments_at=""
# start_payments [FLAG...]: on another port each time.
# Without the guard's replay cache: the scenes show the store's records.
start_payments() {
  if [ "$envoy" = 1 ]; then
    start_plain_payments "$@"
    return
  fi
  start payments "$bin/payments_server" "--listen=127.0.0.1:0" "--idempotencyd=$idempotencyd_at" \
    "--database=$folder/payments.sqlite" "--lease=${lease_seconds}s" \
    --replay_cache_bytes=0 "$@"
  await_ready payments '^payments: serving on '
  payments_at="$(sed -n 's/^payments: serving on //p' "$folder/payments.out")"
}

# --- With Envoy ---------------------------------------------------------------

# free_port: prints a port that was free a moment ago. Envoy has a file that names the others.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

plain_at=""
# The service in Python: grpcio, and what protoc generates from its proto.
start_plain_payments() {
  PYTHONPATH="$folder/stubs" PYTHONDONTWRITEBYTECODE=1 start payments /usr/bin/python3 \
    examples/envoy/payments_server.py "--listen=$plain_at" "--database=$folder/payments.sqlite" "$@"
  await_ready payments '^payments: serving on '
}

generate_stubs() {
  mkdir "$folder/stubs"
  protoc -Iexamples/payments -Iproto "--python_out=$folder/stubs" "--grpc_out=$folder/stubs" \
    "--plugin=protoc-gen-grpc=$(command -v grpc_python_plugin)" \
    payments.proto idempotency/v1/options.proto idempotency/v1/record.proto
  protoc -Iexamples/payments -Iproto --include_imports \
    "--descriptor_set_out=$folder/payments.binpb" payments.proto
}

# The service's descriptors for idempotencyd, which have the policies, and here a
# short lease.
configure_processor() {
  local processor_at
  processor_at="127.0.0.1:$(free_port)"
  cat >"$folder/idempotencyd.textproto" <<CONFIG
external_processor {
  namespace: "payments"
  descriptor_sets: "payments.binpb"
  scope { shared: "everyone" }
  grpc_methods {
    name: "payments.v1.Payments/Charge"
    policy {
      in_flight: IN_FLIGHT_WAIT
      max_wait { seconds: 2 }
      on_lease_expiry: LEASE_EXPIRY_TAKE_OVER
      lease { seconds: $lease_seconds }
    }
  }
}
identities { name: "operator" local: true }
rules { identity: "operator" namespaces: "payments" permissions: [READ, READ_CONTENT] }
CONFIG
  processor_flags=("--ext_proc=$processor_at" "--config=$folder/idempotencyd.textproto")
  "$bin/idempotencyctl" envoy-config "--descriptors=$folder/payments.binpb" "--upstream=$plain_at" \
    "--processor=$processor_at" "--listen=127.0.0.1:$(free_port)" --admin=127.0.0.1:0 \
    >"$folder/envoy.yaml"
}

start_envoy() {
  start envoy "$(command -v envoy-1.40.0 || command -v envoy)" -c "$folder/envoy.yaml" \
    --use-dynamic-base-id --concurrency 1 --log-level warning --component-log-level main:info
  until_true said envoy.log 'starting main dispatch loop' || {
    tail -n 20 "$folder/envoy.log" >&2
    die "Envoy did not start"
  }
  payments_at="$(sed -n '/listeners:/,$s/.*address: "\(.*\)", port_value: \([0-9]*\).*/\1:\2/p' \
    "$folder/envoy.yaml" | head -n 1)"
}

set_the_envoy_stage() {
  plain_at="127.0.0.1:$(free_port)"
  generate_stubs
  configure_processor
  start_idempotencyd
  start_payments
  start_envoy
  echo "idempotencyd serves on $idempotencyd_at; payments, in Python, on $plain_at; Envoy in front" \
    "of it on $payments_at"
}

set_the_stage() {
  folder="$(mktemp -d "${TMPDIR:-/tmp}/idempotency-demo.XXXXXX")"
  if [ "$serve" = 0 ]; then idempotencyd_at="unix:$folder/idempotencyd.sock"; fi
  case "$store" in
    "") store="sqlite:$folder/records.sqlite" ;;
    sqlite:/*) ;;
    sqlite:*) store="sqlite:$called_from/${store#sqlite:}" ;;
    postgres) start_postgres ;;
  esac
  if [[ "$store" == postgres* ]]; then timeout 60 "$bin/idempotencyd" migrate "--store=$store"; fi
  if [ "$envoy" = 1 ]; then
    set_the_envoy_stage
    return
  fi
  start_idempotencyd
  start_payments
  echo "idempotencyd serves on $idempotencyd_at, payments on $payments_at"
}

# --- Words for the scenes ----------------------------------------------------

scenes=0
kept_promises=0
scene_ok=1
# Keys of one run; the next run uses other keys, so that a persistent store can be
# used again.
run="$(date +%s)-$$"

scene() {
  scene_ok=1
  scenes=$((scenes + 1))
  printf '\n%d. %s\n' "$scenes" "$1"
}
say() { printf '   %s\n' "$*"; }

scene_end() {
  if [ "$scene_ok" = 1 ]; then
    kept_promises=$((kept_promises + 1))
    say "-> as promised"
  else
    say "-> NOT as promised"
  fi
}

# client COMMAND FLAG...: the answer's last line is in $answer. Shown as typed.
answer=""
client() {
  say "\$ payments_client $*"
  client_silently "$@"
  say "  $answer"
}
client_silently() {
  answer="$(timeout 60 "$bin/payments_client" "--server=$payments_at" "$@" 2>&1 | tail -n 1)" || true
}

# field NAME LINE: the value of NAME=value.
field() {
  if [[ " $2 " =~ \ $1=([^\ ]*)\  ]]; then echo "${BASH_REMATCH[1]}"; fi
}

balance() {
  client_silently balance "--account=$1"
  field balance_cents "$answer"
}

# expect WHAT PATTERN [TEXT]: TEXT (or the last answer) begins with the shell
# pattern.
expect() {
  local text="${3-$answer}"
  # shellcheck disable=SC2053  # PATTERN is a shell pattern
  if [[ "$text" != $2* ]]; then
    scene_ok=0
    say "!! $1: expected \"$2\", got \"$text\""
  fi
}

expect_same() {
  if [ -z "$2" ] || [ "$2" != "$3" ]; then
    scene_ok=0
    say "!! $1: expected \"$2\", got \"$3\""
  fi
}

# expect_balance ACCOUNT CENTS
expect_balance() {
  local now
  now="$(balance "$1")"
  say "$1 has ${now:-?} cents"
  expect_same "the balance of $1" "$2" "$now"
}

# until_ok COMMAND FLAG...: repeats the call with its key until it is OK, as a
# client with retries does; a disk may stall for longer than the guard waits.
until_ok() {
  client "$@"
  local deadline=$((SECONDS + limit_seconds))
  while [[ "$answer" != OK* ]] && [ "$SECONDS" -lt "$deadline" ]; do
    sleep 0.2
    client_silently "$@"
    if [[ "$answer" == OK* ]]; then say "  ... $answer"; fi
  done
}

# --- The scenes --------------------------------------------------------------

the_choice() {
  scene "The handling of a crash or an unclear failure is chosen first"
  say "declare it repeatable (TAKE_OVER)   a second execution is acceptable"
  say "completion ledger                   the effects are in your database"
  say "recover (REQUIRE_RECOVERY)          nothing runs again until the outcome is determined"
  say "A guard without one of them does not start. Charges are declared repeatable here: the"
  say "payments ledger uses the record id as a key, and moves money once for each. At start-up"
  say "the guard logs:"
  answer="$(sed -n 's|.*/payments.v1.Payments/Charge: .*; \(after a crash .*\)$|\1|p' \
    "$folder/payments.log" | tail -n 1)"
  say "  $answer"
  expect "the start-up line" "after a crash it runs again when the lease is over (${lease_seconds}s); after a failure "
  scene_end
}

a_call_without_a_key() {
  scene "A charge without a key never reaches the handler"
  local before
  before="$(balance alice)"
  client charge --account=alice --amount=500 --no_key
  expect "the refusal" "INVALID_ARGUMENT KEY_MISSING "
  expect_balance alice "$before"
  scene_end
}

a_charge_and_its_retry() {
  scene "A charge with a key runs"
  local before first
  before="$(balance alice)"
  until_ok charge --account=alice --amount=500 "--key=rent-$run"
  first="$answer"
  expect "the charge" "OK *replayed=false record="
  expect_balance alice $((before - 500))
  scene_end

  scene "Its retry gets the same reply, and no money moves"
  client charge --account=alice --amount=500 "--key=rent-$run"
  expect "the retry" "OK *replayed=true record="
  expect_same "the same charge" "$(field charge_id "$first")" "$(field charge_id "$answer")"
  expect_same "the same balance in the reply" "$((before - 500))" "$(field balance_cents "$answer")"
  expect_balance alice $((before - 500))
  scene_end
}

fifty_duplicates() {
  scene "Fifty duplicates at once: one charge"
  local before
  before="$(balance alice)"
  client charge --account=alice --amount=700 "--key=crowd-$run" --concurrency=50 --retries
  expect "one charge" "calls=50 ok=50 replayed=49 distinct_replies=1 distinct_charge_ids=1 "
  expect_balance alice $((before - 700))
  scene_end
}

a_key_used_twice() {
  scene "The same key with another amount is refused, and never runs"
  local before
  before="$(balance alice)"
  client charge --account=alice --amount=501 "--key=rent-$run"
  expect "the refusal" "FAILED_PRECONDITION KEY_REUSED "
  expect_balance alice "$before"
  scene_end
}

a_declined_charge() {
  scene "A declined charge stays declined: deterministic failures are replayed too"
  local before
  before="$(balance bob)"
  client charge --account=bob --amount=999999 "--key=yacht-$run"
  expect "the first answer" "FAILED_PRECONDITION replayed=false "
  client charge --account=bob --amount=999999 "--key=yacht-$run"
  expect "the replay" "FAILED_PRECONDITION replayed=true "
  expect_balance bob "$before"
  scene_end
}

a_read() {
  scene "A method marked NO_SIDE_EFFECTS needs no key"
  client balance --account=alice --no_key
  expect "the balance" "OK balance_cents="
  scene_end
}

kill_payments() {
  scene "kill -9 of the payments service in the middle of a charge"
  local before record
  before="$(balance alice)"
  say "(the payments service restarts, with a slow handler)"
  end payments TERM
  : >"$folder/payments.log"
  start_payments --charge_delay=60s
  say "\$ payments_client charge --account=alice --amount=900 --key=killed-$run  (in the background)"
  start client "$bin/payments_client" "--server=$payments_at" charge --account=alice --amount=900 \
    "--key=killed-$run" --deadline=60s
  until_true said payments.log 'charge begins: ' || expect "the handler" "started" "not started"
  record="$(sed -n 's/.*charge begins: record=\([^ ]*\).*/\1/p' "$folder/payments.log")"
  say "the handler runs; kill -9 ${pid_of[payments]}"
  end payments KILL
  wait "${pid_of[client]}" || true
  pid_of[client]=""
  say "the client got: $(cat "$folder/client.out")"
  expect "the client's answer" "UNAVAILABLE" "$(cat "$folder/client.out")"

  start_payments
  expect_balance alice "$before"
  say "the crashed attempt keeps the key for its lease of $lease_seconds s; then the retry runs"
  until_ok charge --account=alice --amount=900 "--key=killed-$run"
  expect "the second attempt" "OK *replayed=false record=$record"
  expect_balance alice $((before - 900))
  say "idempotencyd on that record:"
  client record "--idempotencyd=$idempotencyd_at" "--record=$record"
  expect "attempt 2" "OK *state=RECORD_STATE_COMPLETED attempt=2 "
  local moved
  moved="$("$bin/payments_client" "--server=$payments_at" entries --account=alice | grep -F "record=$record" || true)"
  say "the ledger on that record:"
  say "  $moved"
  expect "one entry, of attempt 2" "entry=* attempt=2 " "$moved"
  expect_same "one entry only" 1 "$(printf '%s\n' "$moved" | grep -c '^entry=' || true)"
  scene_end
}

# The record and the attempt are in idempotencyd; the service has neither.
kill_plain_payments() {
  scene "kill -9 of the payments service in the middle of a charge"
  local before
  before="$(balance alice)"
  say "(the payments service restarts, with a slow bank)"
  end payments TERM
  start_payments --charge_delay=60
  say "\$ payments_client charge --account=alice --amount=900 --key=killed-$run  (in the background)"
  start client "$bin/payments_client" "--server=$payments_at" charge --account=alice --amount=900 \
    "--key=killed-$run" --deadline=60s
  until_true said payments.out 'charge begins: ' || expect "the handler" "started" "not started"
  say "the handler runs; kill -9 ${pid_of[payments]}"
  end payments KILL
  wait "${pid_of[client]}" || true
  pid_of[client]=""
  say "the client got: $(cat "$folder/client.out")"
  expect "the client's answer" "UNAVAILABLE" "$(cat "$folder/client.out")"

  start_payments
  expect_balance alice "$before"
  say "Nobody knows whether the bank was reached. The proto of Charge permits a second attempt"
  say "(TAKE_OVER), after a pause:"
  until_ok charge --account=alice --amount=900 "--key=killed-$run"
  expect "the second attempt" "OK *replayed=false record="
  expect_balance alice $((before - 900))
  say "idempotencyd on that record:"
  client record "--idempotencyd=$idempotencyd_at" "--record=$(field record "$answer")"
  expect "attempt 2" "OK *state=RECORD_STATE_COMPLETED attempt=2 "
  scene_end
}

kill_idempotencyd() {
  scene "kill -9 of idempotencyd between two calls: acknowledged records are kept"
  local before first
  before="$(balance alice)"
  until_ok charge --account=alice --amount=1100 "--key=before-$run"
  first="$answer"
  expect "the charge" "OK *replayed=false "
  say "kill -9 ${pid_of[idempotencyd]}"
  end idempotencyd KILL
  say "while it is down nothing runs:"
  client charge --account=alice --amount=1200 "--key=while-$run"
  # Envoy itself has no reason to give.
  if [ "$envoy" = 1 ]; then expect "the refusal" "UNAVAILABLE"; else
    expect "the refusal" "UNAVAILABLE STORE_UNAVAILABLE "
  fi
  say "idempotencyd restarts"
  start_idempotencyd
  until_ok charge --account=alice --amount=1100 "--key=before-$run"
  expect "the replay" "OK *replayed=true "
  expect_same "the same charge" "$(field charge_id "$first")" "$(field charge_id "$answer")"
  expect_balance alice $((before - 1100))
  scene_end
}

# Prints the command of the tool; fails if there is no such tool.
lookup_tool() {
  if command -v grpcurl >/dev/null; then
    echo grpcurl
  elif [ -x "$bin/reflection_client" ]; then
    echo "$bin/reflection_client"
  else
    return 1
  fi
}

a_lookup() {
  scene "A support ticket quotes the record id: look it up"
  client charge --account=alice --amount=500 "--key=rent-$run"
  local record tool
  record="$(field record "$answer")"
  if tool="$(lookup_tool)"; then
    say "\$ $tool -plaintext -d '{\"record_id\": \"$record\"}' $idempotencyd_at \\"
    say "    idempotency.v1.IdempotencyService/Get"
    answer="$(timeout 30 "$tool" -plaintext -d "{\"record_id\": \"$record\"}" "$idempotencyd_at" \
      idempotency.v1.IdempotencyService/Get 2>&1)" || true
    printf '%s\n' "$answer" | sed 's/^/     /'
    expect "the record" "*RECORD_STATE_COMPLETED"
  else
    client record "--idempotencyd=$idempotencyd_at" "--record=$record"
    expect "the record" "OK record=$record state=RECORD_STATE_COMPLETED attempt=1 "
  fi
  scene_end
}

play() {
  step "scenes"
  if [ "$envoy" = 0 ]; then the_choice; fi
  a_call_without_a_key
  a_charge_and_its_retry
  fifty_duplicates
  a_key_used_twice
  a_declined_charge
  a_read
  if [ "$envoy" = 1 ]; then kill_plain_payments; else kill_payments; fi
  kill_idempotencyd
  a_lookup
}

# Runs until Ctrl-C, or until one of the two processes exits.
serve_until_stopped() {
  step "running until Ctrl-C"
  # The service in Python has no reflection.
  local protoset=""
  if [ "$envoy" = 1 ]; then protoset=" -protoset $folder/payments.binpb"; fi
  cat <<TRY
idempotencyd on $idempotencyd_at, payments on $payments_at, logs in $folder. Commands to try:

  $bin/payments_client --server=$payments_at charge --account=alice --amount=500 --key=order-1001
  $bin/payments_client --server=$payments_at charge --account=alice --amount=500 --key=order-1001
  $bin/payments_client --server=$payments_at charge --amount=500 --concurrency=50 --retries
  $bin/payments_client --server=$payments_at entries --account=alice
  $bin/payments_client record --idempotencyd=$idempotencyd_at --record=RECORD_ID
  grpcurl -plaintext$protoset -H 'idempotency-key: order-1002' \\
    -d '{"account": "alice", "amount_cents": 500}' -v $payments_at payments.v1.Payments/Charge
  grpcurl -plaintext -d '{"record_id": "RECORD_ID"}' $idempotencyd_at \\
    idempotency.v1.IdempotencyService/Get
TRY
  local stopped=0
  trap 'stopped=1' INT TERM
  wait -n "${pid_of[idempotencyd]}" "${pid_of[payments]}" || true
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if [ "$stopped" = 0 ]; then die "a process exited unexpectedly; its log is in $folder"; fi
  echo
  echo "stopping"
}

if [ "$build" = 1 ]; then build; fi
step "processes"
set_the_stage
play
if [ "$kept_promises" != "$scenes" ]; then
  for name in idempotencyd payments; do
    printf '\n-- the end of the log of %s\n' "$name"
    tail -n 15 "$folder/$name.log" || true
  done
fi
result="demo: $kept_promises of $scenes scenes as promised"
if [ "$serve" = 1 ]; then
  printf '\n%s\n' "$result"
  serve_until_stopped
fi
printf '\n%s\n' "$result"
[ "$kept_promises" = "$scenes" ]
