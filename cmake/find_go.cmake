# Sets IDEMPOTENCY_GO to a go that fetches the toolchain which a module requires (1.21 or newer), if
# there is one.
find_program(IDEMPOTENCY_GO_PROGRAM go)
if(IDEMPOTENCY_GO_PROGRAM AND NOT DEFINED IDEMPOTENCY_GO)
  execute_process(COMMAND "${IDEMPOTENCY_GO_PROGRAM}" env GOVERSION
    OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REGEX REPLACE "^go" "" version "${version}")
  if(version VERSION_GREATER_EQUAL 1.21)
    set(IDEMPOTENCY_GO "${IDEMPOTENCY_GO_PROGRAM}" CACHE FILEPATH "go, 1.21 or newer")
  endif()
endif()
