#!/usr/bin/env bash
# Builds the last commit with the dependencies of a newer Debian, in a chroot, and runs the tests
# of the guard, the client, the daemon, the ledgers and the stores there. Needs root, 5 GB of
# disk, and half an hour for the first time on two cores; the chroot is kept for the next time.
#
#   scripts/newer_dependencies.sh                   sid, with gRPC and protobuf of experimental
#   scripts/newer_dependencies.sh --suite=trixie    Debian 13
#   scripts/newer_dependencies.sh --folder=FOLDER   the chroot (/var/tmp/idempotency-SUITE)
#   scripts/newer_dependencies.sh --only=REGEX      only the tests whose name matches
#   scripts/newer_dependencies.sh --mirror=URL      of Debian (http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."

suite=sid
folder=
mirror=http://deb.debian.org/debian
only='^(core_test|(server_guard|client_interceptor|idempotency_service|embedded_service)_test'
only+='|server_guard_[a-z]+_test|(client_)?session_test|connection_test|retries_test'
only+='|(postgres|sqlite)_(ledger|store)_test|(store|wire|postgres)_conformance_test'
only+='|guard_(streams|surroundings|conditions)_test)$'
for argument in "$@"; do
  case "$argument" in
    --suite=sid | --suite=trixie) suite="${argument#*=}" ;;
    --folder=*) folder="${argument#*=}" ;;
    --only=*) only="${argument#*=}" ;;
    --mirror=*) mirror="${argument#*=}" ;;
    -h | --help)
      sed -n '2,10s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
  esac
done
folder="${folder:-/var/tmp/idempotency-$suite}"

if [ "$(id -u)" != 0 ]; then
  echo "error: a chroot needs root: sudo $0 $*" >&2
  exit 1
fi

step() { printf '\n== %s\n' "$*"; }
inside() { chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

mounted=()
mount_inside() {
  mountpoint -q "$folder/${*: -1}" && return
  mkdir -p "$folder/${*: -1}"
  mount "${@:1:$#-1}" "$folder/${*: -1}"
  mounted=("$folder/${*: -1}" "${mounted[@]}")
}
unmount_all() { [ "${#mounted[@]}" = 0 ] || umount -l "${mounted[@]}"; }
trap unmount_all EXIT

step "Debian $suite in $folder"
if [ ! -e "$folder/etc/debian_version" ] || [ -e "$folder/debootstrap" ]; then
  command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null
  debootstrap --variant=minbase "$suite" "$folder" "$mirror"
fi
mount_inside -t proc proc proc
mount_inside -t sysfs sysfs sys
mount_inside --bind /dev dev
mount_inside --bind /dev/pts dev/pts
mount_inside -t tmpfs tmpfs dev/shm

step "packages"
printf 'deb %s %s main\n' "$mirror" "$suite" >"$folder/etc/apt/sources.list"
rm -f "$folder"/etc/apt/sources.list.d/*
if [ "$suite" = sid ]; then
  printf 'deb %s experimental main\n' "$mirror" >>"$folder/etc/apt/sources.list"
  printf 'Package: src:grpc src:protobuf src:utf8-range\nPin: release a=experimental\n%s\n' \
    'Pin-Priority: 990' >"$folder/etc/apt/preferences.d/grpc"
fi
# Mirrors may be older than the date that their index is valid until.
inside apt-get -qq -o Acquire::Check-Valid-Until=false update
# No cluster on port 5432: the tests start private servers.
mkdir -p "$folder/etc/postgresql-common"
echo 'create_main_cluster = false' >"$folder/etc/postgresql-common/createcluster.conf"
inside apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install \
  ca-certificates g++ cmake ninja-build pkg-config git openssl patch procps python3 \
  python3-protobuf python3-yaml postgresql faketime \
  libgrpc++-dev libgrpc-dev libprotobuf-dev libprotoc-dev protobuf-compiler \
  protobuf-compiler-grpc libabsl-dev libssl-dev libpqxx-dev libpq-dev libsqlite3-dev \
  libhiredis-dev prometheus-cpp-dev libspdlog-dev libboost-dev libgtest-dev libgmock-dev >/dev/null
# shellcheck disable=SC2016  # not the shell's variables
inside dpkg-query -W -f '${Package} ${Version}\n' g++ libgrpc++-dev libprotobuf-dev libabsl-dev \
  libpqxx-dev libssl-dev libsqlite3-dev prometheus-cpp-dev libspdlog-dev

step "the last commit"
tree="$folder/root/grpc-idempotency"
[ -e "$tree/.git" ] || git init -q "$tree"
# Unchanged files keep their time, so that only what has changed is built again.
git -C "$tree" fetch -q --no-tags "$PWD" HEAD
git -C "$tree" checkout -q --detach FETCH_HEAD
git -C "$tree" log -1 --format='%h %s'

step "build"
# libpqxx 8 needs C++20. Warnings of newer compilers and libraries are not errors here.
standard=17
inside pkg-config --atleast-version=8 libpqxx && standard=20
build=(cd /root/grpc-idempotency '&&')
inside bash -c "${build[*]} cmake -S . -B build/newer -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG='-O0 -g1' -DCMAKE_CXX_STANDARD=$standard" >"$folder/root/configure.log" ||
  { cat "$folder/root/configure.log" >&2; exit 1; }
mapfile -t tests < <(inside bash -c "${build[*]} ctest --test-dir build/newer -N -R '$only'" |
  sed -n 's/^ *Test *#[0-9]*: //p')
if [ "${#tests[@]}" = 0 ]; then
  echo "no test matches $only" >&2
  exit 2
fi
# With the programs that the tests start.
mapfile -t targets < <(
  printf '%s\n' "${tests[@]}"
  for test in "${tests[@]}"; do
    cat "$tree/build/newer/bin/$test.programs" 2>/dev/null || true
  done | tr ' ;' '\n' | sed '/^$/d'
)
inside bash -c "${build[*]} cmake --build build/newer --target $(printf '%s\n' "${targets[@]}" |
  sort -u | tr '\n' ' ') -- -k 0"

step "test"
inside bash -c "${build[*]} ctest --test-dir build/newer --output-on-failure \
  --parallel $(nproc) -R '$only'"
