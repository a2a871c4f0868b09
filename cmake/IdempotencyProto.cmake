include_guard(GLOBAL)

# idempotency_proto_library(TARGET ROOT dir PROTOS files... [GRPC files...]
#                           [IMPORT dirs...])
# Generates C++ for PROTOS and gRPC stubs for those named by GRPC.
# All generated sources, for tools that only read the code.
add_custom_target(generated)

function(idempotency_proto_library target)
  cmake_parse_arguments(arg "" "ROOT" "PROTOS;GRPC;IMPORT" ${ARGN})
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
  add_dependencies(generated ${target}_generated)
  target_compile_features(${target} PUBLIC cxx_std_17)
  target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${out}>")
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf gRPC::grpc++)
endfunction()
