# The libraries of Debian 12 in place of Conan's packages (scripts/install-dependencies.sh build).
[platform_requires]
abseil/20220623.1
boost/1.74.0
grpc/1.51.1
hiredis/0.14.1
libpq/15.0
libpqxx/6.4.5
openssl/3.0.0
prometheus-cpp/1.0.1
protobuf/3.21.12
spdlog/1.10.0
sqlite3/3.40.1

[platform_tool_requires]
grpc/1.51.1
protobuf/3.21.12

[conf]
# Not in the source tree.
tools.cmake.cmake_layout:test_folder=$TMP
