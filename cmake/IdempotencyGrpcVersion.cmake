# interceptors/server/grpc_internals uses parts of gRPC that may change without notice. These
# are the versions, as MAJOR.MINOR, with which its tests have passed: CheckLayout() checks the
# layout in each program when it starts, and guard_surroundings_test checks the rest.
# 1.83: scripts/newer_dependencies.sh.
set(IDEMPOTENCY_GRPC_VERSIONS 1.51 1.83)
option(IDEMPOTENCY_ALLOW_OTHER_GRPC
  "Build the guard with a gRPC version that it was not checked against" OFF)

if(gRPC_VERSION MATCHES "^([0-9]+\\.[0-9]+)" AND
   NOT CMAKE_MATCH_1 IN_LIST IDEMPOTENCY_GRPC_VERSIONS AND NOT IDEMPOTENCY_ALLOW_OTHER_GRPC)
  list(JOIN IDEMPOTENCY_GRPC_VERSIONS ", " checked)
  message(FATAL_ERROR
    "The server guard was checked against gRPC ${checked}, and this is ${gRPC_VERSION}. It uses "
    "parts of gRPC that may change with every version. Build with one of these versions; or, "
    "without the guard, -DIDEMPOTENCY_BUILD_GUARD=OFF; or, after the tests have passed with "
    "yours, -DIDEMPOTENCY_ALLOW_OTHER_GRPC=ON.")
endif()
