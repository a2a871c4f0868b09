#ifndef IDEMPOTENCY_CORE_GRPC_HEADERS_H_
#define IDEMPOTENCY_CORE_GRPC_HEADERS_H_

// Headers of gRPC whose place depends on its version: 1.51 (Debian 12) has two of them only
// below codegen/, which later versions keep as forwards that are to be removed.
#include <grpcpp/impl/call.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#include <grpcpp/impl/server_callback_handlers.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#endif

#endif  // IDEMPOTENCY_CORE_GRPC_HEADERS_H_
