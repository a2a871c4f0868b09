# Sets IDEMPOTENCY_MAVEN to a mvn whose Java is a JDK of 17 or newer, if there is one.
find_program(IDEMPOTENCY_MAVEN_PROGRAM mvn)
if(IDEMPOTENCY_MAVEN_PROGRAM AND NOT DEFINED IDEMPOTENCY_MAVEN)
  execute_process(COMMAND "${IDEMPOTENCY_MAVEN_PROGRAM}" --batch-mode --version
    OUTPUT_VARIABLE described ERROR_QUIET)
  if(described MATCHES "Java version: ([0-9.]+).*runtime: ([^\n\r]+)"
      AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 17)
    find_program(IDEMPOTENCY_JAVAC_PROGRAM javac PATHS "${CMAKE_MATCH_2}/bin" NO_DEFAULT_PATH)
    if(IDEMPOTENCY_JAVAC_PROGRAM)
      set(IDEMPOTENCY_MAVEN "${IDEMPOTENCY_MAVEN_PROGRAM}" CACHE FILEPATH "mvn, of a JDK 17 or newer")
    endif()
  endif()
endif()
