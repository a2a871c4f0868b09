#include "tests/integration/guard_fixture.h"

#include <utility>

#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/api_name.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal::testing {
namespace {

PostgresCluster& Cluster() {
  static const std::unique_ptr<PostgresCluster> cluster =
      PostgresCluster::Create({/*fsync=*/false}).value();
  return *cluster;
}

std::unique_ptr<EmbeddedService> Embed(const std::string& store) {
  EmbeddedOptions options;
  options.migrate = true;
  return EmbeddedService::Open(store, options).value();
}

}  // namespace

std::string NameOf(const GuardSetup& setup) {
  switch (setup.idempotencyd) {
    case Idempotencyd::kSqlite:
      break;
    case Idempotencyd::kEmbeddedSqlite:
      return NameOf(setup.api) + "EmbeddedSqlite";
    case Idempotencyd::kEmbeddedPostgres:
      return NameOf(setup.api) + "EmbeddedPostgres";
  }
  return NameOf(setup.api);
}

std::vector<GuardSetup> OverEveryIdempotencyd(const std::vector<Api>& apis) {
  std::vector<GuardSetup> setups;
  for (const Api api : apis) setups.emplace_back(api);
  setups.emplace_back(apis.front(), Idempotencyd::kEmbeddedSqlite);
  setups.emplace_back(apis.back(), Idempotencyd::kEmbeddedPostgres);
  return setups;
}

GuardFixture::GuardFixture() {
  const std::string sqlite = "sqlite:" + folder_.File("records.db");
  switch (GetParam().idempotencyd) {
    case Idempotencyd::kSqlite:
      daemon_.emplace(sqlite);
      channel_ = grpc::CreateChannel(daemon_->address(), grpc::InsecureChannelCredentials());
      return;
    case Idempotencyd::kEmbeddedSqlite:
      embedded_ = Embed(sqlite);
      break;
    case Idempotencyd::kEmbeddedPostgres:
      embedded_ = Embed(Cluster().NewDatabase());
      break;
  }
  channel_ = embedded_->channel();
}

ProbeServer& GuardFixture::Serve(ProbeHandler handler,
                                 const std::function<void(ProbeServer::Options&)>& change) {
  server_ = MakeServer(std::move(handler), change);
  return *server_;
}

std::unique_ptr<ProbeServer> GuardFixture::MakeServer(
    ProbeHandler handler, const std::function<void(ProbeServer::Options&)>& change) {
  ProbeServer::Options options;
  if (daemon_.has_value()) {
    options.idempotencyd = daemon_->address();
  } else {
    options.connect = [service = embedded_.get()] { return service->MakeConnection(); };
  }
  options.api = GetParam();
  options.gate = gate_;
  options.handler = std::move(handler);
  if (change) change(options);
  return std::make_unique<ProbeServer>(std::move(options));
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
  auto stub = v1::IdempotencyService::NewStub(channel_);
  grpc::ClientContext context;
  v1::GetRequest request;
  request.set_record_id(record_id);
  request.set_view(v1::RECORD_VIEW_FULL);
  v1::GetResponse response;
  const grpc::Status status = stub->Get(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.record();
}

}  // namespace idempotency::internal::testing
