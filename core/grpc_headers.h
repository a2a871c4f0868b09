#ifndef IDEMPOTENCY_CORE_GRPC_HEADERS_H_
#define IDEMPOTENCY_CORE_GRPC_HEADERS_H_

// The differences between gRPC's versions that concern more than one file. The place of some
// headers: 1.51 (Debian 12) has two of them only below codegen/, which later versions keep as
// forwards that are to be removed.
#include <grpcpp/impl/call.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/version_info.h>
#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#include <grpcpp/impl/server_callback_handlers.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#endif

// 1.83 has sessions: calls inside of a call, to services that are marked as virtual. They are
// experimental there.
#define IDEMPOTENCY_GRPC_HAS_SESSIONS (GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 83)

// Credentials of a server are an interface to which C++ passes the core's server before it starts.
// Debian 12 and 13 have 1.51.
#define IDEMPOTENCY_GRPC_CREDENTIALS_GET_SERVER \
  (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51)

#endif  // IDEMPOTENCY_CORE_GRPC_HEADERS_H_
