# How this project makes targets: one place for warnings, sanitizers, coverage
# and test labels.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

find_program(IDEMPOTENCY_CCACHE ccache)
if(PROJECT_IS_TOP_LEVEL AND IDEMPOTENCY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that another checkout hits the same cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;CCACHE_PCH_EXTSUM=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${IDEMPOTENCY_CCACHE}")
endif()

# Applies to the project's own code, not to generated code.
add_library(idempotency_flags INTERFACE)
target_compile_features(idempotency_flags INTERFACE cxx_std_17)
target_compile_options(idempotency_flags INTERFACE -Wall -Wextra -Wpedantic
  -Wnon-virtual-dtor -Woverloaded-virtual -Wshadow=local)
if(IDEMPOTENCY_WERROR)
  target_compile_options(idempotency_flags INTERFACE -Werror)
endif()

if(IDEMPOTENCY_COVERAGE)
  # Atomic counters: most of the counted code runs on several threads.
  target_compile_options(idempotency_flags INTERFACE --coverage)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Not as an option of the driver: ccache would treat it as one that it cannot cache.
    target_compile_options(idempotency_flags INTERFACE "SHELL:-Xclang -fprofile-update=atomic")
  else()
    target_compile_options(idempotency_flags INTERFACE -fprofile-update=atomic)
  endif()
  target_link_options(idempotency_flags INTERFACE --coverage)
endif()
# The factor by which a test may take longer.
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

# Third-party headers, read once: half of clang's work for a file of this project.
if(IDEMPOTENCY_PRECOMPILE)
  # As CMake's own options, without a path that ccache cannot make relative.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
  file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
  add_library(idempotency_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cc")
  target_precompile_headers(idempotency_precompiled PRIVATE
    "${PROJECT_SOURCE_DIR}/cmake/precompiled.h")
  # A date in it would be a different header for the compiler cache.
  target_compile_options(idempotency_precompiled PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  set_target_properties(idempotency_precompiled PROPERTIES CXX_COMPILER_LAUNCHER
    "${PROJECT_SOURCE_DIR}/cmake/checksum_precompiled.sh;${PROJECT_SOURCE_DIR};${CMAKE_CXX_COMPILER_LAUNCHER}")
  target_link_libraries(idempotency_precompiled PRIVATE idempotency::proto idempotency_flags
    GTest::gmock PkgConfig::pqxx SQLite::SQLite3 absl::flags absl::random_random gRPC::grpc++
    spdlog::spdlog)
  # It is used by files with the same threads only.
  target_compile_options(idempotency_flags INTERFACE -pthread)
endif()

# idempotency_precompiled_headers(TARGET): uses them, if they exist.
function(idempotency_precompiled_headers target)
  if(IDEMPOTENCY_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM idempotency_precompiled)
  endif()
endfunction()

# idempotency_library(NAME SOURCES ... PUBLIC targets ... PRIVATE targets ... [COMPONENT name])
# makes idempotency_NAME and its alias idempotency::NAME, which is installed with COMPONENT.
function(idempotency_library name)
  cmake_parse_arguments(arg "" "COMPONENT" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(idempotency_${name} ${arg_SOURCES})
  add_library(idempotency::${name} ALIAS idempotency_${name})
  # Public headers are below include/; the others are by their path from the project's root.
  target_include_directories(idempotency_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(idempotency_${name}
    PUBLIC ${arg_PUBLIC}
    PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:idempotency_flags>)
  idempotency_precompiled_headers(idempotency_${name})
  if(arg_COMPONENT)
    idempotency_install_library(idempotency_${name} ${name} ${arg_COMPONENT})
  endif()
endfunction()

# idempotency_binary(NAME SOURCES ... LINK targets ...)
function(idempotency_binary name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} idempotency_flags)
  idempotency_precompiled_headers(${name})
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  # Everything with the label tsan: all that the preset of that name builds.
  add_custom_target(tsan_tests)
  # All that the preset fuzz builds.
  add_custom_target(fuzzers)
endif()

# The programs that a test of that name starts are built before it. Their names are in a list
# beside the test's program, which tests/support/programs.h reads: a test starts no other
# program of this build.
function(idempotency_programs name)
  set(names "")
  foreach(program IN LISTS ARGN)
    add_dependencies(${name} ${program})
    string(APPEND names "$<TARGET_FILE_NAME:${program}>\n")
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}.programs" CONTENT "${names}")
endfunction()

# idempotency_test(NAME LABEL label... SOURCES ... LINK targets ...
#                  [PROGRAMS targets...] [TIMEOUT seconds] [NO_MAIN])
# One binary, one ctest entry. Labels: unit, conformance, integration,
# antipattern, tsan (runs clean under ThreadSanitizer: does not go through
# gRPC's transport, which is not instrumented). PROGRAMS are what the test starts.
# TIMEOUT is for a build without sanitizers. With NO_MAIN a test has a main() of its own, which
# calls RunUnderSubreaper() before the test starts a process.
function(idempotency_test name)
  cmake_parse_arguments(arg "NO_MAIN" "TIMEOUT" "LABELS;SOURCES;LINK;PROGRAMS" ${ARGN})
  if(NOT IDEMPOTENCY_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  set(main idempotency::test_main)
  if(arg_NO_MAIN)
    set(main GTest::gmock)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} ${main} idempotency_flags)
  idempotency_precompiled_headers(${name})
  idempotency_programs(${name} ${arg_PROGRAMS})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${IDEMPOTENCY_TEST_PATIENCE}")
  # A client that makes no call checks its connections every 5 s by default, and a server that
  # drains waits for it.
  set(environment GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS=100)
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}")
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
endfunction()

# idempotency_script_test(NAME LABEL label... COMMAND command... [PROGRAMS targets...]
#                         [TIMEOUT seconds] [WORKING_DIRECTORY folder])
# One ctest entry for a script that starts other programs: processes that it leaves running end
# with it. A target of the name builds PROGRAMS.
function(idempotency_script_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;WORKING_DIRECTORY" "LABELS;COMMAND;PROGRAMS" ${ARGN})
  if(NOT IDEMPOTENCY_BUILD_TESTS)
    return()
  endif()
  add_custom_target(${name})
  idempotency_programs(${name} ${arg_PROGRAMS})
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  add_test(NAME ${name}
    COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/support/subreaper.py" ${arg_COMMAND}
    WORKING_DIRECTORY "${arg_WORKING_DIRECTORY}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
