// Administrators of a real idempotencyd: a purge that is killed in the middle, and what guards see
// of a purge.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using AdminStub = v1::IdempotencyAdminService::Stub;

std::unique_ptr<AdminStub> StubOf(const DaemonProcess& daemon) {
  return v1::IdempotencyAdminService::NewStub(
      grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
}

// The ids of the records of a namespace.
std::vector<std::string> ListedIds(AdminStub& stub, const std::string& name_space) {
  std::vector<std::string> ids;
  v1::ListRequest request;
  request.set_namespace_(name_space);
  request.set_page_size(200);
  do {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    v1::ListResponse page;
    const grpc::Status status = stub.List(&context, request, &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok()) break;
    for (const v1::Record& record : page.records()) ids.push_back(record.record_id());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return ids;
}

// The records of its audit log.
std::vector<std::string> AuditedIds(AdminStub& stub, const std::string& name_space) {
  std::vector<std::string> ids;
  v1::ListAuditRequest request;
  request.set_namespace_(name_space);
  request.set_page_size(200);
  do {
    grpc::ClientContext context;
    v1::ListAuditResponse page;
    const grpc::Status status = stub.ListAudit(&context, request, &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok()) break;
    for (const v1::AuditEntry& entry : page.entries()) ids.push_back(entry.record_id());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return ids;
}

v1::PurgeRequest PurgingScopeOf(const v1::RecordKey& key) {
  v1::PurgeRequest request;
  request.mutable_scope()->set_namespace_(key.namespace_());
  request.mutable_scope()->set_scope(key.scope());
  request.set_reason("the tenant left");
  request.set_force(true);
  return request;
}

// kill -9 while a scope is purged: what is gone is in the audit log, and what is in it is gone.
void ExpectEffectsAndAuditTogether(const std::string& store) {
  constexpr int kRecords = 1200;
  DaemonProcess daemon(store);
  const ServiceClient client(daemon.address());
  std::set<std::string> ids;
  std::map<std::string, std::string> keys;
  std::vector<std::thread> reservers;
  for (int thread = 0; thread < 8; ++thread) {
    reservers.emplace_back([&, thread] {
      for (int i = thread; i < kRecords; i += 8) {
        EXPECT_TRUE(client.Call(SomeReserve(absl::StrCat("key-", i))).ok());
      }
    });
  }
  for (std::thread& reserver : reservers) reserver.join();
  for (int i = 0; i < kRecords; ++i) {
    const std::string key = absl::StrCat("key-", i);
    const std::string id = RecordIdFor(FromProto(SomeRecordKey(key))).ToString();
    ids.insert(id);
    keys[id] = key;
  }
  const v1::RecordKey some = SomeRecordKey("key-0");
  std::thread purger([&] {
    grpc::ClientContext context;
    v1::PurgeResponse response;
    StubOf(daemon)->Purge(&context, PurgingScopeOf(some), &response);
  });
  // A purge goes from the lowest id upwards: its first step is committed.
  while (client.Call(SomeGet(keys[*ids.begin()])).ok()) {
  }
  daemon.Kill();
  purger.join();
  daemon.Restart();
  const auto stub = StubOf(daemon);
  std::set<std::string> expected;
  for (const std::string& id : ListedIds(*stub, some.namespace_())) expected.insert(id);
  const std::vector<std::string> audited = AuditedIds(*stub, some.namespace_());
  EXPECT_EQ(audited.size() + expected.size(), ids.size());
  EXPECT_GE(audited.size(), 500u);
  for (const std::string& id : audited) {
    EXPECT_TRUE(expected.insert(id).second) << id << " is audited and there, or audited twice";
  }
  EXPECT_EQ(expected, ids);
  // Begun again from the start.
  v1::PurgeRequest request = PurgingScopeOf(some);
  do {
    grpc::ClientContext context;
    v1::PurgeResponse response;
    ASSERT_TRUE(stub->Purge(&context, request, &response).ok());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_TRUE(ListedIds(*stub, some.namespace_()).empty());
  EXPECT_EQ(AuditedIds(*stub, some.namespace_()).size(), ids.size());
}

TEST(AdminCrash, WhatIsGoneIsInTheAuditLogOnSqlite) {
  // Entries in a transaction of their own would be lost by most kills, but not by each.
  for (int kill = 0; kill < 4; ++kill) {
    const TempFolder folder;
    ExpectEffectsAndAuditTogether("sqlite:" + folder.File("records.db"));
  }
}

TEST(AdminCrash, WhatIsGoneIsInTheAuditLogOnPostgres) {
  const auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  ExpectEffectsAndAuditTogether(cluster->url());
}

// A guard follows a purge within the age of its cached replies, and not before it has to.
TEST(AdminAndGuard, APurgedReplyIsReplayedForItsCachedAgeAtMost) {
  const TempFolder folder;
  const DaemonProcess daemon("sqlite:" + folder.File("records.db"));
  std::atomic<int> runs{0};
  const auto serve = [&](absl::Duration max_age) {
    ProbeServer::Options options;
    options.idempotencyd = daemon.address();
    options.api = Api::kCallback;
    options.guard.replay_cache = ReplayCacheOptions();
    options.guard.replay_cache.max_age = max_age;
    options.handler = [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
      reply.set_effect(absl::StrCat(++runs));
      return grpc::Status::OK;
    };
    return std::make_unique<ProbeServer>(std::move(options));
  };
  const auto purge = [&] {
    v1::PurgeRequest request;
    request.mutable_before()->set_namespace_("probe");
    request.mutable_before()->mutable_created_before()->set_seconds(253'402'300'799);
    request.set_reason("a wrong reply");
    grpc::ClientContext context;
    v1::PurgeResponse response;
    EXPECT_TRUE(StubOf(daemon)->Purge(&context, request, &response).ok());
    EXPECT_EQ(response.purged(), 1);
  };
  const auto slow = serve(absl::Minutes(10));
  ASSERT_TRUE(ProbeClient(slow->address()).Act("order-1").status.ok());
  const auto quick = serve(absl::Milliseconds(50));
  EXPECT_TRUE(ProbeClient(quick->address()).Act("order-1").replayed());
  purge();
  EXPECT_TRUE(ProbeClient(slow->address()).Act("order-1").replayed());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (runs == 1 && std::chrono::steady_clock::now() < deadline) {
    EXPECT_TRUE(ProbeClient(quick->address()).Act("order-1").status.ok());
  }
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace idempotency::internal::testing
