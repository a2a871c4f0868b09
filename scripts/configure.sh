# shellcheck shell=bash
# For other scripts to source.

# configure PRESET [CMAKE_ARGUMENT...]: what CMake says is shown only if it fails.
configure() {
  local said
  said="$(cmake --preset "$@" 2>&1)" || {
    printf '%s\n' "$said" >&2
    return 1
  }
}
