// The content of a call is nowhere but in its record: not in logs, metrics, errors, the audit log,
// the database's statistics or its log, and in no core dump.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "core/sha256.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/store/postgres/connection/connection.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"
#include "tracing/testing/span_collector.h"

namespace idempotency::internal {
namespace {

using testing::DaemonProcess;
using testing::PostgresCluster;

// Letters and digits, so that no escaping hides it.
constexpr char kCanary[] = "canary5f3759df";

// Also in the forms that bytes take in logs and statements.
bool HasCanary(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return absl::StrContains(lower, kCanary) ||
         absl::StrContains(lower, absl::BytesToHexString(kCanary)) ||
         absl::StrContains(text, absl::Base64Escape("canary5f3759d").substr(0, 16));
}

std::string Digest(const std::string& token) {
  const Sha256Digest digest = Sha256(token);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

constexpr char kSampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// The wire bytes of everything that an error brings back.
std::string TextOf(const grpc::Status& status, const grpc::ClientContext& context) {
  std::string text = absl::StrCat(status.error_message(), "\n", status.error_details());
  const auto add = [&text](const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
    for (const auto& [name, value] : metadata) {
      absl::StrAppend(&text, "\n", std::string(name.data(), name.size()), ": ",
                      std::string(value.data(), value.size()));
    }
  };
  add(context.GetServerInitialMetadata());
  add(context.GetServerTrailingMetadata());
  return text;
}

class CanaryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("GRPC_VERBOSITY", "NONE", 1); }

  CanaryTest() : server_(authority_.Issue("idempotencyd", "IP:127.0.0.1")) {
    Write("server.pem", server_.certificate);
    Write("server.key", server_.key);
    Write("ca.pem", authority_.root());
    Write("config",
          absl::StrCat("identities { name: \"guard\" tokens { sha256: \"", Digest(Token()),
                       "\" } }\nrules { identity: \"guard\" namespaces: \"payments\" "
                       "permissions: [WRITE, READ, READ_CONTENT, ADMIN] }\n"
                       "namespaces { name: \"payments\" limits { max_in_flight: 1000 } }\n"));
    Generate("keyring");
    postgres_ = PostgresCluster::Create(Settings()).value();
    testing::MigrateStore(postgres_->url());
    testing::ExecuteSql(postgres_->url(), "CREATE EXTENSION pg_stat_statements");
    daemon_ = std::make_unique<DaemonProcess>(
        postgres_->url(),
        std::vector<std::string>{absl::StrCat("--tls_cert=", folder_.File("server.pem")),
                                 absl::StrCat("--tls_key=", folder_.File("server.key")),
                                 absl::StrCat("--config=", folder_.File("config")),
                                 absl::StrCat("--keyring=", folder_.File("keyring")),
                                 absl::StrCat("--otlp_endpoint=", collector_.address()),
                                 "--log_level=debug"});
    channel_ = ChannelWith(Token());
    service_ = v1::IdempotencyService::NewStub(channel_);
    admin_ = v1::IdempotencyAdminService::NewStub(channel_);
  }

  static testing::PostgresClusterOptions Settings() {
    testing::PostgresClusterOptions options;
    options.settings = {"shared_preload_libraries=pg_stat_statements", "log_min_messages=info",
                        "log_min_error_statement=info", "pg_stat_statements.track_utility=on"};
    return options;
  }
  static std::string Token() { return absl::StrCat("token-", kCanary, "-1"); }

  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_.File(name)) << content;
    return folder_.File(name);
  }
  void Generate(const std::string& name) const {
    const auto made = testing::Process::Start(
        {"idempotencyctl", "keyring", "generate", absl::StrCat("--file=", folder_.File(name))});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ((*made)->Wait()->code, 0) << (*made)->Stderr();
  }
  std::shared_ptr<grpc::Channel> ChannelWith(const std::string& token) const {
    const auto credentials = IdempotencydChannelCredentials(
        {folder_.File("ca.pem"), "", "", Write(Digest(token) + ".token", token)});
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(daemon_->address(), *credentials, arguments);
  }

  static v1::RecordKey Key(const std::string& name) {
    v1::RecordKey key = testing::SomeRecordKey(absl::StrCat(kCanary, "-", name));
    key.set_namespace_("payments");
    key.set_scope(absl::StrCat("scope-", kCanary));
    return key;
  }
  static v1::ReserveRequest ReserveOf(const std::string& name) {
    v1::ReserveRequest request = testing::SomeReserve(name);
    *request.mutable_record_key() = Key(name);
    (*request.mutable_labels())["order"] = absl::StrCat("label-", kCanary);
    return request;
  }
  static v1::CompleteRequest CompleteOf(const std::string& name, const std::string& token) {
    v1::CompleteRequest request = testing::SomeComplete(name, token, kCanary);
    *request.mutable_record_key() = Key(name);
    request.mutable_reply()->set_message(absl::StrCat("message-", kCanary));
    auto* const metadata = request.mutable_reply()->add_trailing_metadata();
    metadata->set_key("receipt");
    metadata->set_value(kCanary);
    return request;
  }

  // One call, with the canary in its metadata. What comes back as an error has no canary.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    context.AddMetadata("x-note", absl::StrCat("metadata-", kCanary));
    context.AddMetadata("traceparent", kSampled);
    context.AddMetadata("tracestate", absl::StrCat("vendor=", kCanary));
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = (stub.*method)(&context, request, response);
    EXPECT_FALSE(HasCanary(TextOf(status, context))) << TextOf(status, context);
    return FromGrpcStatus(status);
  }
  template <typename Response, typename Request>
  absl::StatusOr<Response> Service(grpc::Status (v1::IdempotencyService::Stub::*method)(
                                       grpc::ClientContext*, const Request&, Response*),
                                   const Request& request) {
    Response response;
    const absl::Status status = Call(*service_, method, request, &response);
    if (!status.ok()) return status;
    return response;
  }
  template <typename Response, typename Request>
  absl::StatusOr<Response> Admin(grpc::Status (v1::IdempotencyAdminService::Stub::*method)(
                                     grpc::ClientContext*, const Request&, Response*),
                                 const Request& request) {
    Response response;
    const absl::Status status = Call(*admin_, method, request, &response);
    if (!status.ok()) return status;
    return response;
  }

  void UseTheService();
  void FailAtTheService();
  void Administer();
  std::string Query(const std::string& sql) const;

  testing::TempFolder folder_;
  testing::CertificateAuthority authority_;
  testing::CertificateAuthority::Identity server_;
  testing::SpanCollector collector_;
  std::unique_ptr<PostgresCluster> postgres_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> service_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
};

using ServiceStub = v1::IdempotencyService::Stub;
using AdminStub = v1::IdempotencyAdminService::Stub;

// Every verdict, and every way to end an attempt.
void CanaryTest::UseTheService() {
  const auto done = Service<v1::ReserveResponse>(&ServiceStub::Reserve, ReserveOf("done"));
  ASSERT_TRUE(done.ok()) << done.status();
  const std::string token = done->reserved().reservation_token();
  v1::ExtendRequest extend = testing::SomeExtend("done", token);
  *extend.mutable_record_key() = Key("done");
  extend.set_checkpoint(kCanary);
  ASSERT_TRUE(Service<v1::ExtendResponse>(&ServiceStub::Extend, extend).ok());
  EXPECT_TRUE(Service<v1::ReserveResponse>(&ServiceStub::Reserve, ReserveOf("done")).ok());
  ASSERT_TRUE(
      Service<v1::CompleteResponse>(&ServiceStub::Complete, CompleteOf("done", token)).ok());
  const auto replay = Service<v1::ReserveResponse>(&ServiceStub::Reserve, ReserveOf("done"));
  ASSERT_TRUE(replay.ok()) << replay.status();
  // The caller itself gets it back.
  EXPECT_EQ(replay->replay().reply().body(), kCanary);
  v1::ReserveRequest other = ReserveOf("done");
  other.mutable_fingerprints(0)->set_digest(std::string(32, 'z'));
  EXPECT_TRUE(Service<v1::ReserveResponse>(&ServiceStub::Reserve, other).ok());
  for (const char* const name : {"released", "unknown"}) {
    const auto reserved = Service<v1::ReserveResponse>(&ServiceStub::Reserve, ReserveOf(name));
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    v1::ReleaseRequest release =
        testing::SomeRelease(name, reserved->reserved().reservation_token());
    *release.mutable_record_key() = Key(name);
    release.set_reason(absl::StrCat("reason-", kCanary));
    if (std::string(name) == "unknown") release.set_outcome(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
    ASSERT_TRUE(Service<v1::ReleaseResponse>(&ServiceStub::Release, release).ok());
  }
}

// Refusals of every layer: credentials, access, validation, tokens, parsing.
void CanaryTest::FailAtTheService() {
  const auto refused = [this](const v1::ReserveRequest& request) {
    EXPECT_FALSE(Service<v1::ReserveResponse>(&ServiceStub::Reserve, request).ok());
  };
  v1::ReserveRequest request = ReserveOf("refused");
  request.mutable_record_key()->set_namespace_(absl::StrCat(kCanary, "\x01"));
  refused(request);
  request = ReserveOf("refused");
  request.mutable_record_key()->set_key(absl::StrCat(kCanary, "\n"));
  refused(request);
  request = ReserveOf("refused");
  request.mutable_record_key()->set_operation(absl::StrCat(kCanary, std::string(5000, 'x')));
  (*request.mutable_labels())[absl::StrCat(kCanary, "=")] = std::string(5000, 'x');
  refused(request);
  EXPECT_FALSE(Service<v1::CompleteResponse>(&ServiceStub::Complete,
                                             CompleteOf("done", Uuid::Random().ToString()))
                   .ok());
  EXPECT_FALSE(
      Service<v1::CompleteResponse>(&ServiceStub::Complete, CompleteOf("done", kCanary)).ok());
  v1::GetRequest get;
  get.set_record_id(kCanary);
  EXPECT_FALSE(Service<v1::GetResponse>(&ServiceStub::Get, get).ok());
  // A credential that is not known.
  const auto stranger = v1::IdempotencyService::NewStub(ChannelWith(Token() + "-other"));
  v1::ReserveResponse response;
  EXPECT_FALSE(Call(*stranger, &ServiceStub::Reserve, ReserveOf("done"), &response).ok());
}

void CanaryTest::Administer() {
  v1::ResolveRequest resolve;
  *resolve.mutable_record_key() = Key("unknown");
  resolve.set_outcome(v1::RESOLVE_OUTCOME_COMPLETED);
  resolve.set_expected_attempt(1);
  resolve.set_reason("ticket 42");
  resolve.mutable_reply()->set_body(kCanary);
  ASSERT_TRUE(Admin<v1::ResolveResponse>(&AdminStub::Resolve, resolve).ok());
  resolve.mutable_reply()->set_body(absl::StrCat(kCanary, "2"));
  EXPECT_FALSE(Admin<v1::ResolveResponse>(&AdminStub::Resolve, resolve).ok());
  v1::PurgeRequest purge;
  purge.mutable_scope()->set_namespace_("payments");
  purge.mutable_scope()->set_scope(Key("").scope());
  purge.set_reason("the tenant left");
  purge.set_page_token(kCanary);
  EXPECT_FALSE(Admin<v1::PurgeResponse>(&AdminStub::Purge, purge).ok());
  purge.clear_page_token();
  const auto purged = Admin<v1::PurgeResponse>(&AdminStub::Purge, purge);
  ASSERT_TRUE(purged.ok()) << purged.status();
  EXPECT_GE(purged->purged(), 2);
  v1::ListAuditRequest audit;
  audit.set_namespace_("payments");
  const auto entries = Admin<v1::ListAuditResponse>(&AdminStub::ListAudit, audit);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_GE(entries->entries_size(), 3);
  EXPECT_FALSE(HasCanary(entries->DebugString())) << entries->DebugString();
}

// The rows as text, one a line.
std::string CanaryTest::Query(const std::string& sql) const {
  PostgresOptions options;
  options.url = postgres_->url();
  SocketWatchdog watchdog;
  const auto connection = PostgresConnection::Open(options, watchdog);
  EXPECT_TRUE(connection.ok()) << connection.status();
  const auto rows = (*connection)->ExecuteScript(sql);
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::string text;
  for (int row = 0; row < rows->rows(); ++row) absl::StrAppend(&text, rows->Text(row, 0), "\n");
  return text;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

TEST_F(CanaryTest, WhatCallersSendIsNowhereButInItsRecord) {
  UseTheService();
  FailAtTheService();
  const std::string rows = Query("SELECT r::text FROM idempotency.records r");
  // The test looks in the right database, and the content of replies is sealed.
  EXPECT_TRUE(HasCanary(rows));
  EXPECT_FALSE(HasCanary(Query("SELECT reply::text FROM idempotency.records")));
  EXPECT_FALSE(HasCanary(Query("SELECT checkpoint::text FROM idempotency.checkpoints")));
  Administer();
  const std::string statements = Query("SELECT query FROM pg_stat_statements");
  EXPECT_TRUE(absl::StrContains(statements, "records"));
  EXPECT_FALSE(HasCanary(statements)) << statements;
  EXPECT_FALSE(HasCanary(Query("SELECT a::text FROM idempotency.audit_log a")));
  const std::string metrics = testing::MetricsPage::Fetch(daemon_->metrics_address()).text();
  EXPECT_TRUE(absl::StrContains(metrics, "payments"));
  EXPECT_FALSE(HasCanary(metrics)) << metrics;
  EXPECT_GE(collector_.AwaitSpans(3).size(), 3);
  EXPECT_FALSE(HasCanary(collector_.bytes()));
  EXPECT_TRUE(absl::StrContains(daemon_->process().Stderr(), "event=\"administrator\""));
  EXPECT_FALSE(HasCanary(daemon_->process().Stderr())) << daemon_->process().Stderr();
  EXPECT_FALSE(HasCanary(daemon_->process().Stdout()));
  EXPECT_FALSE(HasCanary(postgres_->log())) << postgres_->log();
  const std::string limits = ReadFile(absl::StrCat("/proc/", daemon_->process().pid(), "/limits"));
  EXPECT_TRUE(absl::StrContains(limits, "Max core file size        0 ")) << limits;
  // For a program that gets dumps from the kernel, which the limit does not bound.
  EXPECT_EQ(ReadFile(absl::StrCat("/proc/", daemon_->process().pid(), "/coredump_filter")),
            "00000000\n");
  const std::string arguments =
      ReadFile(absl::StrCat("/proc/", daemon_->process().pid(), "/cmdline"));
  EXPECT_FALSE(HasCanary(arguments));
}

}  // namespace
}  // namespace idempotency::internal
