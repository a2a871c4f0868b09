# Which symbols the shared libraries export, and under which version
# (docs/adr/0031-symbols-and-packages.md). The patterns are of mangled names: those begin with the
# namespace of what they name, while a demangled name may have it anywhere in its arguments.
set(IDEMPOTENCY_SYMBOL_VERSION
  "GRPC_IDEMPOTENCY_${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

# idempotency_symbols_of(RESULT namespaces...): patterns for what is in the namespaces, which are
# mangled, such as 11idempotency8internal.
function(idempotency_symbols_of result)
  set(patterns "")
  foreach(namespace IN LISTS ARGN)
    list(APPEND patterns
      # Functions and variables; with const, & and && members.
      "_ZN${namespace}*" "_ZN[KRO]${namespace}*" "_ZNK[RO]${namespace}*"
      # Virtual tables, type information, thread-local variables; guards and temporaries.
      "_ZT[VTCISWH]N${namespace}*" "_ZG[VR]N${namespace}*"
      # What protobuf generates for messages, in a namespace of its own.
      "_ZN6google8protobuf5Arena18CreateMaybeMessageIN${namespace}*")
    # Virtual functions of a second or a virtual base.
    foreach(offset IN ITEMS hn[0-9] hn[0-9][0-9] hn[0-9][0-9][0-9]
        v0_n[0-9][0-9] v0_n[0-9][0-9][0-9])
      list(APPEND patterns "_ZT${offset}_N${namespace}*" "_ZT${offset}_NK${namespace}*")
    endforeach()
  endforeach()
  list(JOIN patterns ";\n    " patterns)
  set(${result} "    ${patterns};" PARENT_SCOPE)
endfunction()

idempotency_symbols_of(public 11idempotency)
# idempotency::wire, grpc.health, google.rpc, envoy and opentelemetry are messages that no public
# header has.
idempotency_symbols_of(private
  11idempotency8internal 11idempotency4wire 4grpc6health 6google3rpc 5envoy 13opentelemetry)
set(IDEMPOTENCY_SYMBOLS "${PROJECT_BINARY_DIR}/symbols.map")
configure_file("${PROJECT_SOURCE_DIR}/cmake/symbols.map.in" "${IDEMPOTENCY_SYMBOLS}" @ONLY)

include(CheckCXXSourceCompiles)
block()
  set(CMAKE_REQUIRED_LINK_OPTIONS "-Wl,--version-script=${IDEMPOTENCY_SYMBOLS}")
  check_cxx_source_compiles("int main() { return 0; }" IDEMPOTENCY_LINKER_VERSIONS_SYMBOLS)
endblock()

# Sanitizers need symbols of their own, and compare what else would be one object. If gRPC is
# an archive, each library holds a part of it, and the parts must find each other.
get_target_property(_grpc_type gRPC::grpc++ TYPE)
if(IDEMPOTENCY_LINKER_VERSIONS_SYMBOLS AND _grpc_type STREQUAL "SHARED_LIBRARY"
    AND NOT IDEMPOTENCY_SANITIZE)
  set(IDEMPOTENCY_VERSIONED_SYMBOLS ON)
else()
  set(IDEMPOTENCY_VERSIONED_SYMBOLS OFF)
endif()

# idempotency_version_symbols(targets...): of libraries, where they are shared.
function(idempotency_version_symbols)
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    if(IDEMPOTENCY_VERSIONED_SYMBOLS AND type STREQUAL "SHARED_LIBRARY")
      target_link_options(${target} PRIVATE "LINKER:--version-script=${IDEMPOTENCY_SYMBOLS}")
      set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${IDEMPOTENCY_SYMBOLS}")
    endif()
  endforeach()
endfunction()
