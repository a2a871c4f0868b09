include_guard(GLOBAL)

# All generated sources, for tools that only read the code.
add_custom_target(idempotency_generated)

find_program(IDEMPOTENCY_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# idempotency_protobuf_generate(TARGET PROTOS files... [GRPC files...] [ROOT folder])
# For an application's own protos: a library TARGET of the C++ that is generated from PROTOS,
# with gRPC's stubs for those of GRPC. They may import each other and
# idempotency/v1/options.proto. Files are named, and included, relative to ROOT, which is the
# current source folder by default.
function(idempotency_protobuf_generate target)
  cmake_parse_arguments(arg "" "ROOT" "PROTOS;GRPC" ${ARGN})
  if(NOT arg_ROOT)
    set(arg_ROOT "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  get_property(imported GLOBAL PROPERTY IDEMPOTENCY_PROTO_ROOT)
  idempotency_proto_library(${target} ROOT "${arg_ROOT}" PROTOS ${arg_PROTOS} GRPC ${arg_GRPC}
    IMPORT "${imported}")
  target_link_libraries(${target} PUBLIC idempotency::proto)
endfunction()

# idempotency_proto_library(TARGET ROOT folder PROTOS files... [GRPC files...]
#                           [IMPORT folders...] [COMPONENT name])
# The same for protos without this project's options; installed with COMPONENT.
function(idempotency_proto_library target)
  cmake_parse_arguments(arg "" "ROOT;COMPONENT" "PROTOS;GRPC;IMPORT" ${ARGN})
  set(out "${CMAKE_CURRENT_BINARY_DIR}/gen")
  file(MAKE_DIRECTORY "${out}")
  set(includes "-I${arg_ROOT}")
  foreach(dir IN LISTS arg_IMPORT)
    list(APPEND includes "-I${dir}")
  endforeach()
  set(sources)
  foreach(proto IN LISTS arg_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(outputs "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(flags "--cpp_out=${out}")
    if(proto IN_LIST arg_GRPC)
      list(APPEND outputs "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h")
      list(APPEND flags "--grpc_out=${out}"
        "--plugin=protoc-gen-grpc=${IDEMPOTENCY_GRPC_CPP_PLUGIN}")
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc ${includes} ${flags} "${arg_ROOT}/${proto}"
      DEPENDS "${arg_ROOT}/${proto}"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(${target} ${sources})
  add_custom_target(${target}_generated DEPENDS ${sources})
  add_dependencies(idempotency_generated ${target}_generated)
  target_compile_features(${target} PUBLIC cxx_std_17)
  target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${out}>")
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf gRPC::grpc++)
  if(arg_COMPONENT)
    string(REGEX REPLACE "^idempotency_" "" name "${target}")
    idempotency_install_library(${target} ${name} ${arg_COMPONENT})
  endif()
endfunction()
