#include "grpc_idempotency/server_guard/scope.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;

// Answers with the scope of its caller.
class ScopeTill final : public Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest*,
                      ChargeReply* reply) override {
    const absl::StatusOr<std::string> scope = PeerIdentityScope()(*context);
    if (!scope.ok()) {
      return {static_cast<grpc::StatusCode>(scope.status().code()),
              std::string(scope.status().message())};
    }
    reply->set_charge_id(*scope);
    return grpc::Status::OK;
  }
};

grpc::Status ScopeOver(const std::shared_ptr<grpc::ServerCredentials>& server_credentials,
                       const std::shared_ptr<grpc::ChannelCredentials>& client_credentials,
                       std::string& scope) {
  ScopeTill till;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", server_credentials, &port);
  builder.RegisterService(&till);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub =
      Till::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), client_credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  ChargeReply reply;
  const grpc::Status status = stub->Charge(&context, ChargeRequest(), &reply);
  scope = reply.charge_id();
  server->Shutdown();
  return status;
}

TEST(PeerIdentityScopeTest, ATransportWithoutPeerIdentitiesIsNoIdentity) {
  std::string scope;
  EXPECT_EQ(ScopeOver(grpc::experimental::LocalServerCredentials(LOCAL_TCP),
                      grpc::experimental::LocalCredentials(LOCAL_TCP), scope)
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED)
      << "scope " << scope;
}

TEST(PeerIdentityScopeTest, APeerWithoutTlsHasNone) {
  std::string scope;
  EXPECT_EQ(ScopeOver(grpc::InsecureServerCredentials(), grpc::InsecureChannelCredentials(), scope)
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED)
      << "scope " << scope;
}

}  // namespace
}  // namespace idempotency::internal
