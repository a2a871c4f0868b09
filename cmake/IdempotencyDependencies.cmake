# Everything comes from the system. Debian 12's packages are the baseline;
# newer ones are found the same way.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pqxx REQUIRED IMPORTED_TARGET libpqxx>=6.4)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET libpq)

# Debian ships gRPC's reflection library beside its main one.
find_program(IDEMPOTENCY_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

if(IDEMPOTENCY_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
