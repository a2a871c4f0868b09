#include "tests/integration/guard_fixture.h"

#include <utility>

#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::testing {

GuardedServer& GuardFixture::Serve(ProbeHandler handler,
                                   const std::function<void(GuardedServer::Options&)>& change) {
  server_ = MakeServer(std::move(handler), change);
  return *server_;
}

std::unique_ptr<GuardedServer> GuardFixture::MakeServer(
    ProbeHandler handler, const std::function<void(GuardedServer::Options&)>& change) {
  GuardedServer::Options options;
  options.idempotencyd = daemon_.address();
  options.api = GetParam();
  options.gate = gate_;
  options.handler = std::move(handler);
  if (change) change(options);
  return std::make_unique<GuardedServer>(std::move(options));
}

ProbeHandler GuardFixture::Counting() {
  return [this](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs_);
    return grpc::Status::OK;
  };
}

Call GuardFixture::With(const std::string& key) {
  Call call;
  call.keys = {key};
  return call;
}

v1::Record GuardFixture::Get(const std::string& record_id) {
  auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetRequest request;
  request.set_record_id(record_id);
  request.set_view(v1::RECORD_VIEW_FULL);
  v1::GetResponse response;
  const grpc::Status status = stub->Get(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.record();
}

}  // namespace idempotency::testing
