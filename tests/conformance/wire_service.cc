#include "tests/conformance/wire_service.h"

#include <string>

#include "absl/time/time.h"

#include "embedded/direct_connection.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

WireService::WireService(RecordStore& store, Kind kind)
    : batcher_(store, observer_, Batching()),
      waiters_(batcher_, observer_),
      service_(batcher_, waiters_, observer_, Service()) {
  if (kind == Kind::kDirect) {
    connection_ = std::make_unique<DirectConnection>(nullptr, service_.operations());
  } else {
    connection_ = Serve(kind == Kind::kSession ? ConnectionOptions::Kind::kSession
                                               : ConnectionOptions::Kind::kUnary);
  }
}

std::unique_ptr<Connection> WireService::Serve(ConnectionOptions::Kind kind) {
  const std::string address = "unix:" + folder_.File("socket");
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  ConnectionOptions options;
  options.kind = kind;
  return MakeConnection(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                                  IdempotencydChannelArguments()),
                        options);
}

WireService::~WireService() {
  connection_.reset();
  service_.DrainSessions();
  waiters_.Close();
  if (server_ != nullptr) {
    server_->Shutdown();
    server_->Wait();
  }
  batcher_.Close();
}

BatcherOptions WireService::Batching() {
  BatcherOptions options;
  options.threads = 2;
  return options;
}

IdempotencyServiceOptions WireService::Service() {
  IdempotencyServiceOptions options;
  // The suite needs the whole remaining lease.
  options.min_retry_after = absl::ZeroDuration();
  options.max_retry_after = limits::kMaxLease;
  return options;
}

}  // namespace idempotency::internal
