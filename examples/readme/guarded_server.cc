// The README's way to guard a server, compiled so that it stays true.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "examples/payments/payments.grpc.pb.h"

// [readme:server]
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/server_guard/server_guard.h"

std::unique_ptr<idempotency::ServerGuard> GuardPayments(grpc::ServerBuilder& builder,
                                                        grpc::Service* payments) {
  idempotency::GuardOptions options;
  options.name_space = "payments";
  options.scope = idempotency::MetadataScope("x-tenant");  // set by your authenticating proxy
  // After a crash the handler does not run again before its outcome is known.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnLeaseExpiry::kRequireRecovery;
  auto channel = grpc::CreateCustomChannel("dns:///idempotencyd:7411", grpc::SslCredentials({}),
                                           idempotency::IdempotencydChannelArguments());

  auto guard = idempotency::ServerGuard::Create(channel, options).value();
  auto status = guard->Protect<payments::v1::Payments>(builder, payments);
  if (status.ok()) status = guard->Install(builder);  // your own interceptors go in here
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    std::exit(2);
  }
  return guard;  // outlives the server; guard->Close() comes before server->Shutdown()
}
// [readme:end]
