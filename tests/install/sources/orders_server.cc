#include <grpcpp/grpcpp.h>

#include "grpc_idempotency/ledger/sqlite_ledger.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "orders.grpc.pb.h"

int main(int, char** arguments) {
  const auto guard = idempotency::ServerGuard::Create(
      grpc::CreateChannel(arguments[1], grpc::InsecureChannelCredentials()), {});
  return guard.ok() ? 0 : 1;
}
