#!/bin/sh
# Runs a compiler. Beside a precompiled header it writes a checksum of the preprocessed text, in
# FILE.sum, which ccache uses in place of the header (CCACHE_PCH_EXTSUM): the header contains the
# checkout's path, so objects of one checkout would otherwise be of no use to another one.
#
#   checksum_precompiled.sh ROOT COMMAND...
set -eu
root=$1
shift
"$@"

output=
preprocess=
previous=
for argument in "$@"; do
  case "$previous" in -o) output=$argument ;; esac
  previous=$argument
done
case "$output" in *.pch) ;; *) exit 0 ;; esac

skip=0
while [ "$#" -gt 0 ]; do
  if [ "$skip" = 1 ]; then
    skip=0
  elif [ "$1" = -Xclang ] && [ "${2:-}" = -emit-pch ]; then
    skip=1
  elif [ "$1" = -o ] || [ "$1" = -MT ] || [ "$1" = -MF ]; then
    skip=1
  elif [ "$1" != -MD ]; then
    preprocess="$preprocess '$1'"
  fi
  shift
done
eval "$preprocess -E -P -o -" | sed "s,$root,,g" | sha256sum >"$output.sum"
