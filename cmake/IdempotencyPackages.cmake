# Debian packages, by CPack: `idempotencyd`, `idempotencyctl`, and `libgrpc-idempotency-dev` with
# headers and static libraries (docs/adr/0036-packages-chart-and-test-server.md). scripts/packages.sh builds them, of
# the preset `package`. The sources of Conan's recipe have no deploy/.
if(NOT IDEMPOTENCY_INSTALL OR NOT PROJECT_IS_TOP_LEVEL OR NOT IDEMPOTENCY_BUILD_DAEMON
    OR NOT EXISTS "${PROJECT_SOURCE_DIR}/deploy")
  return()
endif()

# Files beside the program, at Debian's places; no part of `cmake --install` without a component.
function(_idempotency_package_files)
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/idempotencyd.service"
    "${PROJECT_SOURCE_DIR}/deploy/idempotencyd@.service"
    "${PROJECT_SOURCE_DIR}/deploy/idempotencyd-migrate.service"
    DESTINATION /lib/systemd/system COMPONENT daemon_package EXCLUDE_FROM_ALL)
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/debian/idempotencyd.default"
    DESTINATION /etc/default RENAME idempotencyd COMPONENT daemon_package EXCLUDE_FROM_ALL)
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/debian/idempotencyd.textproto"
    DESTINATION /etc/idempotency COMPONENT daemon_package EXCLUDE_FROM_ALL)
  # All of them: the units, the settings, the help and the errors name pages, and pages name others.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/"
    DESTINATION /usr/share/doc/idempotencyd COMPONENT daemon_package EXCLUDE_FROM_ALL
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
  # For Prometheus and Grafana, on this machine or copied to another.
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/prometheus/idempotencyd.rules.yaml"
    DESTINATION /usr/share/idempotencyd/prometheus COMPONENT daemon_package EXCLUDE_FROM_ALL)
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/grafana/idempotencyd.json"
    DESTINATION /usr/share/idempotencyd/grafana COMPONENT daemon_package EXCLUDE_FROM_ALL)
  install(DIRECTORY DESTINATION /etc/idempotency/credentials COMPONENT daemon_package
    DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE EXCLUDE_FROM_ALL)
endfunction()

# The payments example, as a project that is built with the installed libraries.
function(_idempotency_package_example)
  set(destination /usr/share/grpc-idempotency/examples)
  install(FILES "${PROJECT_SOURCE_DIR}/examples/installed/CMakeLists.txt"
    DESTINATION "${destination}" COMPONENT dev_package EXCLUDE_FROM_ALL)
  foreach(name IN ITEMS ledger.cc ledger.h outcome.cc outcome.h payments.proto payments_client.cc
      payments_guard.cc payments_guard.h payments_server.cc payments_service.cc payments_service.h
      server_setup.cc server_setup.h)
    install(FILES "${PROJECT_SOURCE_DIR}/examples/payments/${name}"
      DESTINATION "${destination}/payments" COMPONENT dev_package EXCLUDE_FROM_ALL)
  endforeach()
endfunction()

# dpkg compares changelog.Debian.gz; gzip -n leaves the date out, so that two builds are equal.
function(_idempotency_package_documents package component)
  set(folder "${PROJECT_BINARY_DIR}/debian/${package}")
  configure_file("${PROJECT_SOURCE_DIR}/deploy/debian/changelog.in" "${folder}/changelog.Debian"
    @ONLY)
  configure_file("${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${folder}/changelog" COPYONLY)
  execute_process(COMMAND gzip -9nf changelog changelog.Debian WORKING_DIRECTORY "${folder}"
    COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${folder}/changelog.gz" "${folder}/changelog.Debian.gz"
    "${PROJECT_SOURCE_DIR}/deploy/debian/copyright"
    DESTINATION "/usr/share/doc/${package}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

set(_manual_page "${PROJECT_BINARY_DIR}/debian/idempotencyd.1")
configure_file("${PROJECT_SOURCE_DIR}/deploy/idempotencyd.1" "${_manual_page}" COPYONLY)
execute_process(COMMAND gzip -9nfk "${_manual_page}" COMMAND_ERROR_IS_FATAL ANY)
install(FILES "${_manual_page}.gz" DESTINATION /usr/share/man/man1 COMPONENT daemon_package
  EXCLUDE_FROM_ALL)

# Overridden with `cpack -D CPACK_DEBIAN_PACKAGE_RELEASE=2` for the same sources, packaged again.
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# The date of the changelog, as of the last commit: no file of a package depends on the time of its build.
execute_process(COMMAND git log -1 --format=%cD WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  OUTPUT_VARIABLE IDEMPOTENCY_PACKAGE_DATE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT IDEMPOTENCY_PACKAGE_DATE)
  set(IDEMPOTENCY_PACKAGE_DATE "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
set(CPACK_PACKAGE_CONTACT "The grpc-idempotency authors <maintainers@grpc-idempotency.dev>")
_idempotency_package_files()
_idempotency_package_example()
_idempotency_package_documents(idempotencyd daemon_package)
_idempotency_package_documents(idempotencyctl ctl_package)
_idempotency_package_documents(libgrpc-idempotency-dev dev_package)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME grpc-idempotency)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_SET_DESTDIR OFF)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# Debug information of archives is four fifths of them, and nobody debugs them by it.
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/strip_archives.cmake")

set(CPACK_COMPONENTS_ALL daemon daemon_package ctl ctl_package dev_package)
foreach(component IN LISTS IDEMPOTENCY_COMPONENTS)
  get_property(_libraries GLOBAL PROPERTY IDEMPOTENCY_LIBRARIES_OF_${component})
  if(_libraries)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    string(TOUPPER "${component}" _upper)
    set(CPACK_COMPONENT_${_upper}_GROUP dev)
  endif()
endforeach()
set(CPACK_COMPONENT_DEV_PACKAGE_GROUP dev)
set(CPACK_COMPONENT_CTL_GROUP ctl)
set(CPACK_COMPONENT_CTL_PACKAGE_GROUP ctl)
set(CPACK_COMPONENT_DAEMON_GROUP daemon)
set(CPACK_COMPONENT_DAEMON_PACKAGE_GROUP daemon)

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME idempotencyd)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION net)
set(CPACK_DEBIAN_DAEMON_DESCRIPTION "idempotency records for gRPC services
A gRPC service that makes operations run once: for every idempotency key it
records whether the operation is running or has completed, and its reply. It
keeps its records in a SQLite file, in Postgres, or in Redis.
.
The service listens on 127.0.0.1:7411 after the installation.")
# Its scripts.
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54~)")
set(_scripts "${PROJECT_SOURCE_DIR}/deploy/debian/idempotencyd")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${_scripts}/conffiles;${_scripts}/postinst;${_scripts}/postrm;${_scripts}/prerm")

set(CPACK_DEBIAN_CTL_PACKAGE_NAME idempotencyctl)
set(CPACK_DEBIAN_CTL_PACKAGE_SECTION net)
set(CPACK_DEBIAN_CTL_DESCRIPTION "command line for idempotencyd's operators
Shows idempotency records and their stories, settles those whose outcome is
unknown, forgets records, reads the audit log, and makes key rings. It calls an
idempotencyd on this or another machine.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgrpc-idempotency-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "gRPC calls that run once, headers and libraries
The server guard, which records the replies of a gRPC server's methods under
the keys of their calls; the client interceptor, which puts keys on calls; the
completion ledgers; and the service inside another program. Headers, static
libraries, CMake and pkg-config files, and the protos.")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
# What a program that links the archives is linked with. The guard uses parts of gRPC that change
# with its versions (cmake/IdempotencyGrpcVersion.cmake).
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" _grpc "${gRPC_VERSION}")
math(EXPR _next_grpc "${CMAKE_MATCH_2} + 1")
list(JOIN CMAKE_MATCH_1 "" _grpc_major)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libgrpc++-dev (>= ${_grpc}~), \
libgrpc++-dev (<< ${_grpc_major}.${_next_grpc}~), libprotobuf-dev, libabsl-dev, libssl-dev, \
libspdlog-dev, libsqlite3-dev, libpqxx-dev, libpq-dev, libhiredis-dev, prometheus-cpp-dev, protobuf-compiler, \
protobuf-compiler-grpc, pkg-config")

include(CPack)
cpack_add_component_group(ctl)
cpack_add_component_group(daemon)
cpack_add_component_group(dev)
