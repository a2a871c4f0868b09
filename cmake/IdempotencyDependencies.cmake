# Every dependency comes from the system. Debian 12's packages are the baseline; newer ones are
# found the same way. The dependencies of a part are required only if it is built.
#
# A project that includes this one links its libraries outside this folder: their own
# dependencies must be visible there too.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC REQUIRED)
if(IDEMPOTENCY_BUILD_GUARD)
  include(IdempotencyGrpcVersion)
endif()
find_package(spdlog REQUIRED)
if(IDEMPOTENCY_SQLITE)
  find_package(SQLite3 REQUIRED)
endif()
if(IDEMPOTENCY_POSTGRES)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(pqxx REQUIRED IMPORTED_TARGET GLOBAL libpqxx>=6.4)
  pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq)
endif()
if(IDEMPOTENCY_BUILD_DAEMON)
  find_package(prometheus-cpp REQUIRED)
endif()

# The folder of the protos that users import.
set_property(GLOBAL PROPERTY IDEMPOTENCY_PROTO_ROOT "${PROJECT_SOURCE_DIR}/proto")

if(IDEMPOTENCY_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
