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
# First by the package of its own: newer versions of gRPC's refuse a program in which CMake's
# module has defined the same targets. Debian 12 has the module only.
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf 3.21 REQUIRED)
endif()
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
  if(pqxx_VERSION VERSION_GREATER_EQUAL 7 AND pqxx_VERSION VERSION_LESS 7.10)
    message(FATAL_ERROR "libpqxx ${pqxx_VERSION} is not supported: 6.4, 7.10 and later are")
  elseif(pqxx_VERSION VERSION_GREATER_EQUAL 8 AND
      (NOT CMAKE_CXX_STANDARD OR CMAKE_CXX_STANDARD LESS 20))
    message(FATAL_ERROR "libpqxx ${pqxx_VERSION} needs C++20: add -DCMAKE_CXX_STANDARD=20")
  endif()
  pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq)
endif()
if(IDEMPOTENCY_BUILD_DAEMON)
  # For its protocol only: 0.14 of Debian 12 has no TLS, and the store brings its own sockets.
  pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET GLOBAL hiredis>=0.14)
  find_package(prometheus-cpp REQUIRED)
  # Its headers: Asio and Beast, for the console.
  find_package(Boost 1.74 REQUIRED)
endif()

# The folder of the protos that users import.
set_property(GLOBAL PROPERTY IDEMPOTENCY_PROTO_ROOT "${PROJECT_SOURCE_DIR}/proto")

if(IDEMPOTENCY_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
