#!/usr/bin/env bash
# Builds the daemons that a chaos run rolls to and from, once, and keeps them in
# build/previous/:
#
#   other/     the first one that has every migration as it is now
#   earlier/   the last one from before the newest migration was added
#
# Both are of this repository's history. If a shallow clone lacks it, `other` is this source
# without optimisation, and there is no `earlier`.
set -euo pipefail
cd "$(dirname "$0")/../.."

previous="$PWD/build/previous"

# Builds the daemon of the source in $2, for build/previous/$1, unless that is $3 already.
build() {
  local name="$1" source="$2" what="$3" work="$previous/$1.work"
  shift 3
  mkdir -p "$work"
  {
    cmake -S "$source" -B "$work" -G Ninja -D CMAKE_BUILD_TYPE=Release \
      -D IDEMPOTENCY_BUILD_TESTS=OFF -D IDEMPOTENCY_BUILD_EXAMPLES=OFF \
      -D IDEMPOTENCY_BUILD_BENCH=OFF "$@" &&
    cmake --build "$work" --target idempotencyd
  } >"$previous/$name.log" 2>&1 || {
    tail -n 20 "$previous/$name.log" >&2
    return 1
  }
  rm -rf "${previous:?}/$name"
  mkdir -p "$previous/$name/bin"
  cp "$work/bin/idempotencyd" "$previous/$name/bin/"
  echo "$what" >"$previous/$name/what"
  rm -rf "$work" "$previous/$name.log"
}

has() { grep -qsxF "$2" "$previous/$1/what"; }

# $2 is a commit.
build_commit() {
  local name="$1" source="$previous/$1.source" what
  what="commit $(git log -1 --format='%h of %cs' "$2")"
  ! has "$name" "$what" || return 0
  echo "== the daemon of $what (once)"
  rm -rf "$source"
  mkdir -p "$source"
  git archive "$2" | tar -x -C "$source"
  build "$name" "$source" "$what"
  rm -rf "$source"
}

build_same_source() {
  local what
  what="this source, not optimised: $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  rm -rf "$previous/earlier"
  ! has other "$what" || return 0
  echo "== the daemon without optimisation (once)"
  build other "$PWD" "$what" -D CMAKE_CXX_FLAGS_RELEASE=-O0
}

# The first commit of the main line that has $1: it was built and tested as it is.
first_with() {
  local commit
  for commit in $(git rev-list --first-parent --reverse HEAD); do
    if git merge-base --is-ancestor "$1" "$commit"; then
      echo "$commit"
      return
    fi
  done
}

has_history() {
  git rev-parse --is-inside-work-tree >/dev/null 2>&1 &&
    [ "$(git rev-parse --is-shallow-repository)" = false ]
}

mkdir -p "$previous"
if ! has_history; then
  build_same_source
  exit
fi
migrations=(migrations/*.up.sql)
changed="$(git log -1 --format=%H -- "${migrations[@]}")"
added="$(git log --diff-filter=A --format=%H -- "${migrations[-1]}" | tail -n 1)"
build_commit other "$(first_with "$changed")"
build_commit earlier "$(first_with "$added")^"
