# How this project makes targets: one place for warnings, sanitizers, coverage
# and test labels.

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(IDEMPOTENCY_CCACHE ccache)
if(IDEMPOTENCY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that another checkout hits the same cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${IDEMPOTENCY_CCACHE}")
endif()

# Applies to our own code, not to generated code.
add_library(idempotency_flags INTERFACE)
target_compile_features(idempotency_flags INTERFACE cxx_std_17)
target_compile_options(idempotency_flags INTERFACE -Wall -Wextra -Wpedantic
  -Wnon-virtual-dtor -Woverloaded-virtual -Wshadow=local)
if(IDEMPOTENCY_WERROR)
  target_compile_options(idempotency_flags INTERFACE -Werror)
endif()

if(IDEMPOTENCY_COVERAGE)
  # Atomic counters: most of what is counted runs on several threads.
  target_compile_options(idempotency_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(idempotency_flags INTERFACE --coverage)
endif()
# By how much a test may take longer.
set(IDEMPOTENCY_TEST_PATIENCE 1)
if(IDEMPOTENCY_SANITIZE)
  set(IDEMPOTENCY_TEST_PATIENCE 3)
  add_compile_options(-fsanitize=${IDEMPOTENCY_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IDEMPOTENCY_SANITIZE})
  if(IDEMPOTENCY_SANITIZE MATCHES "thread")
    add_compile_options(-include "${PROJECT_SOURCE_DIR}/cmake/protobuf_under_tsan.h")
  endif()
endif()

# The headers of others, read once: half of what clang has to do for a file of ours.
if(IDEMPOTENCY_PRECOMPILE)
  file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
  add_library(idempotency_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cc")
  target_precompile_headers(idempotency_precompiled PRIVATE
    "${PROJECT_SOURCE_DIR}/cmake/precompiled.h")
  # A date in it would be another header for the compiler cache.
  target_compile_options(idempotency_precompiled PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_link_libraries(idempotency_precompiled PRIVATE idempotency::proto idempotency_flags
    GTest::gmock PkgConfig::pqxx SQLite::SQLite3 absl::flags absl::random_random gRPC::grpc++
    spdlog::spdlog)
  # It is taken by files with the same threads only.
  target_compile_options(idempotency_flags INTERFACE -pthread)
endif()

# idempotency_precompiled_headers(TARGET): uses them, where they are.
function(idempotency_precompiled_headers target)
  if(IDEMPOTENCY_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM idempotency_precompiled)
  endif()
endfunction()

# idempotency_library(NAME SOURCES ... PUBLIC targets ... PRIVATE targets ...)
# makes idempotency_NAME and its alias idempotency::NAME.
function(idempotency_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(idempotency_${name} STATIC ${arg_SOURCES})
  add_library(idempotency::${name} ALIAS idempotency_${name})
  target_include_directories(idempotency_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(idempotency_${name}
    PUBLIC ${arg_PUBLIC}
    PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:idempotency_flags>)
  idempotency_precompiled_headers(idempotency_${name})
endfunction()

# idempotency_binary(NAME SOURCES ... LINK targets ...)
function(idempotency_binary name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} idempotency_flags)
  idempotency_precompiled_headers(${name})
endfunction()

# Everything with the label tsan: all that the preset of that name builds.
add_custom_target(tsan_tests)
# All that the preset fuzz builds.
add_custom_target(fuzzers)

# idempotency_test(NAME LABEL label... SOURCES ... LINK targets ...
#                  [TIMEOUT seconds] [GMOCK_MAIN OFF])
# One binary, one ctest entry. Labels: unit, conformance, integration,
# antipattern, tsan (runs clean under ThreadSanitizer: does not go through
# gRPC's transport, which is not instrumented). TIMEOUT is for a build without
# sanitizers.
function(idempotency_test name)
  cmake_parse_arguments(arg "NO_MAIN" "TIMEOUT" "LABELS;SOURCES;LINK" ${ARGN})
  if(NOT IDEMPOTENCY_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  set(main GTest::gmock_main)
  if(arg_NO_MAIN)
    set(main GTest::gmock)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} ${main} idempotency_flags)
  idempotency_precompiled_headers(${name})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${IDEMPOTENCY_TEST_PATIENCE}")
  # A client that makes no call looks at its connections every 5 s unless it is
  # told otherwise, and a server that drains waits for it.
  set(environment GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS=100)
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}")
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
endfunction()
