# shellcheck shell=bash
# For other scripts to source.

# configure PRESET [CMAKE_ARGUMENT...]: prints CMake's output only if it fails.
configure() {
  local said
  said="$(cmake --preset "$@" 2>&1)" || {
    printf '%s\n' "$said" >&2
    return 1
  }
}
