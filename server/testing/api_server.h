#ifndef IDEMPOTENCY_SERVER_TESTING_API_SERVER_H_
#define IDEMPOTENCY_SERVER_TESTING_API_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/call_queues.h"
#include "server/rpc/call_table.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/queued_services.h"

namespace idempotency::internal {

// The two ways in which gRPC passes calls to the services.
enum class ServerApi { kCallback, kCompletionQueue };

inline std::string NameOf(ServerApi api) {
  return api == ServerApi::kCallback ? "Callback" : "CompletionQueue";
}

// A server of the services, on the loopback interface. Thread-safe.
class ApiServer {
 public:
  // The services outlive it; `admin` may be null.
  ApiServer(ServerApi api, IdempotencyService& service, IdempotencyAdminService* admin = nullptr) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(limits::kMaxMessageBytes);
    builder.SetMaxSendMessageSize(limits::kMaxMessageBytes);
    if (api == ServerApi::kCallback) {
      builder.RegisterService(&service);
      if (admin != nullptr) builder.RegisterService(admin);
    } else {
      queued_service_.emplace(service).Register(builder, methods_);
      if (admin != nullptr) queued_admin_.emplace(*admin).Register(builder, methods_);
      queues_ = std::make_unique<CallQueues>(builder);
    }
    server_ = builder.BuildAndStart();
    if (queues_ != nullptr) queues_->Start(methods_, table_);
  }
  ~ApiServer() { Shutdown(std::chrono::seconds(5)); }
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  std::shared_ptr<grpc::Channel> Channel() const { return Channel(grpc::ChannelArguments()); }
  // With a connection of its own, over which a stream that is not read gets 64 KiB.
  std::shared_ptr<grpc::Channel> ChannelWithSmallWindows() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return Channel(arguments);
  }
  // The same, over which a stream that is not read gets nothing.
  std::shared_ptr<grpc::Channel> ChannelWithClosedWindows() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    // The least that gRPC permits.
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    return Channel(arguments);
  }
  std::shared_ptr<grpc::Channel> InProcessChannel() { return server_->InProcessChannel({}); }

  // Returns when the last call has ended; after `timeout` they are cancelled.
  void Shutdown(std::chrono::milliseconds timeout) {
    server_->Shutdown(std::chrono::system_clock::now() + timeout);
    if (queues_ != nullptr) queues_->Stop();
  }

 private:
  std::shared_ptr<grpc::Channel> Channel(grpc::ChannelArguments arguments) const {
    arguments.SetMaxReceiveMessageSize(limits::kMaxMessageBytes);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

  int port_ = 0;
  QueuedMethods methods_;
  CallTable table_;
  std::optional<QueuedIdempotencyService> queued_service_;
  std::optional<QueuedAdminService> queued_admin_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_API_SERVER_H_
