# The installed files, in components. Each has a CMake package component of its name, a
# pkg-config file, and the public headers of its folder.

set(_installed_headers "${CMAKE_INSTALL_INCLUDEDIR}/grpc_idempotency")
set(_installed_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/grpc-idempotency")

# The components, each after those that it needs.
set(IDEMPOTENCY_COMPONENTS core error_reflection postgres otlp client key_store_sqlite
  client_interceptor server_guard guard_tracing ledger_postgres ledger_sqlite embedded)
set(IDEMPOTENCY_NEEDS_error_reflection core)
set(IDEMPOTENCY_NEEDS_postgres core)
set(IDEMPOTENCY_NEEDS_otlp core)
set(IDEMPOTENCY_NEEDS_client core)
set(IDEMPOTENCY_NEEDS_key_store_sqlite core)
set(IDEMPOTENCY_NEEDS_client_interceptor client)
set(IDEMPOTENCY_NEEDS_server_guard client)
set(IDEMPOTENCY_NEEDS_guard_tracing server_guard otlp)
set(IDEMPOTENCY_NEEDS_ledger_postgres server_guard postgres)
set(IDEMPOTENCY_NEEDS_ledger_sqlite server_guard)
set(IDEMPOTENCY_NEEDS_embedded client postgres)

# idempotency_install_library(TARGET NAME COMPONENT): as idempotency::NAME.
function(idempotency_install_library target name component)
  # Below 1.0 any minor version may change the libraries' interface.
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "\$ORIGIN")
  idempotency_version_symbols(${target})
  if(NOT IDEMPOTENCY_INSTALL)
    return()
  endif()
  install(TARGETS ${target} EXPORT grpc-idempotency-${component}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component}
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  set_property(GLOBAL APPEND PROPERTY IDEMPOTENCY_LIBRARIES_OF_${component} ${target})
endfunction()

# idempotency_install_program(TARGET COMPONENT)
function(idempotency_install_program target component)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  if(IDEMPOTENCY_INSTALL)
    install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${component})
  endif()
endfunction()

# idempotency_install_parts(COMPONENT targets...): libraries that only its program links, if
# they are files of their own.
function(idempotency_install_parts component)
  idempotency_version_symbols(${ARGN})
  if(IDEMPOTENCY_INSTALL AND BUILD_SHARED_LIBS)
    set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH "\$ORIGIN")
    install(TARGETS ${ARGN} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component})
  endif()
endfunction()

# Public headers, by the component that they belong to.
function(idempotency_install_headers)
  set(root "${PROJECT_SOURCE_DIR}/include/grpc_idempotency")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${root}" "${root}/*.h")
  foreach(header IN LISTS headers)
    get_filename_component(component "${header}" DIRECTORY)
    get_filename_component(name "${header}" NAME_WE)
    set(own_component sqlite_key_store:key_store_sqlite postgres_ledger:ledger_postgres
      sqlite_ledger:ledger_sqlite error_reflection:error_reflection)
    set(folder "${component}")
    if(component STREQUAL "")
      set(component core)
    elseif(component STREQUAL "ledger")
      set(component server_guard)
    endif()
    foreach(entry IN LISTS own_component)
      if(entry MATCHES "^${name}:(.*)$")
        set(component "${CMAKE_MATCH_1}")
      endif()
    endforeach()
    get_property(libraries GLOBAL PROPERTY IDEMPOTENCY_LIBRARIES_OF_${component})
    if(libraries)
      install(FILES "${root}/${header}" DESTINATION "${_installed_headers}/${folder}"
        COMPONENT ${component})
    endif()
  endforeach()
endfunction()

# pkg-config's name of a target of another project; "" for none.
function(idempotency_pkg_config_name target result)
  set(known gRPC::grpc++=grpc++ protobuf::libprotobuf=protobuf OpenSSL::Crypto=libcrypto
    spdlog::spdlog=spdlog SQLite::SQLite3=sqlite3 PkgConfig::pqxx=libpqxx PkgConfig::libpq=libpq
    PkgConfig::hiredis=hiredis OpenSSL::SSL=libssl
    prometheus-cpp::core=prometheus-cpp-core)
  set(name "")
  if(target MATCHES "^absl::(.*)$")
    set(name "absl_${CMAKE_MATCH_1}")
  endif()
  foreach(entry IN LISTS known)
    string(REPLACE "=" ";" entry "${entry}")
    list(GET entry 0 of)
    if(of STREQUAL target)
      list(GET entry 1 name)
    endif()
  endforeach()
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

# grpc-idempotency-COMPONENT.pc. Everything that its libraries link is required: they are static
# unless the build sets otherwise, and then their users link it.
function(idempotency_install_pkg_config component libraries)
  set(requires "")
  foreach(needed IN LISTS IDEMPOTENCY_NEEDS_${component})
    list(APPEND requires "grpc-idempotency-${needed} = ${PROJECT_VERSION}")
  endforeach()
  set(libs "")
  foreach(library IN LISTS libraries)
    list(PREPEND libs "-l${library}")
    get_target_property(linked ${library} LINK_LIBRARIES)
    foreach(other IN LISTS linked)
      idempotency_pkg_config_name("${other}" name)
      list(APPEND requires ${name})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES requires)
  list(JOIN requires ", " requires)
  list(JOIN libs " " libs)
  file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/grpc-idempotency.pc.in"
    "${PROJECT_BINARY_DIR}/grpc-idempotency-${component}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/grpc-idempotency-${component}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT ${component})
endfunction()

# After all libraries: the files by which they are found.
function(idempotency_install_package)
  if(NOT IDEMPOTENCY_INSTALL)
    return()
  endif()
  include(CMakePackageConfigHelpers)
  idempotency_install_headers()
  set(package_needs "")
  foreach(component IN LISTS IDEMPOTENCY_COMPONENTS)
    string(APPEND package_needs
      "set(_idempotency_needs_${component} ${IDEMPOTENCY_NEEDS_${component}})\n")
    get_property(libraries GLOBAL PROPERTY IDEMPOTENCY_LIBRARIES_OF_${component})
    if(libraries)
      install(EXPORT grpc-idempotency-${component} NAMESPACE idempotency::
        FILE grpc-idempotency-${component}-targets.cmake
        DESTINATION "${_installed_cmake}" COMPONENT ${component})
      idempotency_install_pkg_config(${component} "${libraries}")
    endif()
  endforeach()
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/grpc-idempotency-config.cmake.in"
    "${PROJECT_BINARY_DIR}/grpc-idempotency-config.cmake"
    INSTALL_DESTINATION "${_installed_cmake}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/grpc-idempotency-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES
    "${PROJECT_BINARY_DIR}/grpc-idempotency-config.cmake"
    "${PROJECT_BINARY_DIR}/grpc-idempotency-config-version.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/IdempotencyProto.cmake"
    DESTINATION "${_installed_cmake}" COMPONENT core)
  foreach(store IN ITEMS postgres sqlite)
    get_property(libraries GLOBAL PROPERTY IDEMPOTENCY_LIBRARIES_OF_ledger_${store})
    if(libraries)
      install(DIRECTORY
        "${PROJECT_SOURCE_DIR}/interceptors/server/ledger/migrations/${store}"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/grpc-idempotency/ledger" COMPONENT ledger_${store})
    endif()
  endforeach()
endfunction()
