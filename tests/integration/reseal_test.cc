// A key of a real idempotencyd is replaced and its values are resealed, with a kill -9 in the
// middle: every reply is kept, and the former key is needed for none of them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "server/testing/test_key_ring.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRecords = 1200;

std::string KeyOf(int i) { return absl::StrCat("key-", i); }
std::string BodyOf(int i) { return absl::StrCat("paid ", i); }

class ResealRun {
 public:
  explicit ResealRun(const std::string& store) : store_(store) {
    WriteRing(absl::StrCat(TestKey(1, absl::Now() - absl::Hours(2))));
    daemon_ = Serve();
  }

  void Run() {
    Complete();
    WriteRing(absl::StrCat(TestKey(1, absl::Now() - absl::Hours(2)),
                           TestKey(2, absl::Now() - absl::Hours(1))));
    AwaitKey(2);
    KillInTheMiddle();
    const std::string first = Ctl({"--yes", "--json"});
    EXPECT_THAT(first, HasSubstr("\"sealing_key_id\":2"));
    // Everything that was committed before the kill was noted with it, and nothing else.
    EXPECT_EQ(NotedRecords(), kRecords);
    EXPECT_THAT(Ctl({"--dry_run"}), HasSubstr(absl::StrCat("0 of ", kRecords, " records")));
    const ServiceClient client(daemon_->address());
    for (int i = 0; i < kRecords; i += 7) {
      const auto retried = client.Call(SomeReserve(KeyOf(i)));
      ASSERT_TRUE(retried.ok()) << retried.status();
      EXPECT_EQ(retried->replay().reply().body(), BodyOf(i));
    }
    WithoutTheFormerKey();
  }

 private:
  std::unique_ptr<DaemonProcess> Serve() const {
    return std::make_unique<DaemonProcess>(
        store_, std::vector<std::string>{absl::StrCat("--keyring=", folder_.File("keyring"))});
  }

  // As a program would that replaces it at once.
  void WriteRing(const std::string& text) const {
    const std::string made = folder_.File("keyring.new");
    std::ofstream(made) << text;
    ASSERT_EQ(chmod(made.c_str(), 0600), 0);
    ASSERT_EQ(rename(made.c_str(), folder_.File("keyring").c_str()), 0);
  }

  void Complete() const {
    const ServiceClient client(daemon_->address());
    std::vector<std::thread> callers;
    for (int thread = 0; thread < 8; ++thread) {
      callers.emplace_back([&client, thread] {
        for (int i = thread; i < kRecords; i += 8) {
          const auto reserved = client.Call(SomeReserve(KeyOf(i)));
          ASSERT_TRUE(reserved.ok()) << reserved.status();
          const std::string token = reserved->reserved().reservation_token();
          ASSERT_TRUE(client.Call(SomeComplete(KeyOf(i), token, BodyOf(i))).ok());
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }

  std::unique_ptr<v1::IdempotencyAdminService::Stub> Admin() const {
    return v1::IdempotencyAdminService::NewStub(
        grpc::CreateChannel(daemon_->address(), grpc::InsecureChannelCredentials()));
  }
  static v1::ResealRequest Request() {
    v1::ResealRequest request;
    request.set_namespace_(SomeRecordKey("k").namespace_());
    request.set_reason("key 1 has leaked");
    return request;
  }

  // Until the daemon has read the ring.
  void AwaitKey(std::uint32_t id) const {
    const auto admin = Admin();
    v1::ResealRequest request = Request();
    request.set_validate_only(true);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      grpc::ClientContext context;
      v1::ResealResponse response;
      ASSERT_TRUE(admin->Reseal(&context, request, &response).ok());
      if (response.sealing_key_id() == id) return;
    }
    FAIL() << "the daemon does not read its key ring";
  }

  std::int64_t NotedRecords() const {
    const auto admin = Admin();
    v1::ListAuditRequest request;
    request.set_namespace_(Request().namespace_());
    request.set_page_size(200);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    v1::ListAuditResponse page;
    EXPECT_TRUE(admin->ListAudit(&context, request, &page).ok());
    std::int64_t records = 0;
    for (const v1::AuditEntry& entry : page.entries()) {
      EXPECT_EQ(entry.action(), v1::AUDIT_ACTION_RESEALED);
      EXPECT_LE(entry.records(), 100);
      records += entry.records();
    }
    return records;
  }

  // After the first step was committed. Calls of administrators take turns, so that the log is read
  // when the first call is over, or from the daemon that was started again.
  void KillInTheMiddle() {
    std::thread resealing([this] {
      const auto admin = Admin();
      v1::ResealRequest request = Request();
      grpc::ClientContext context;
      v1::ResealResponse response;
      admin->Reseal(&context, request, &response);
    });
    const ServiceClient client(daemon_->address());
    // Some calls of others meanwhile, which get their replies.
    for (int i = 0; i < 20; ++i) {
      const auto retried = client.Call(SomeReserve(KeyOf(i)));
      ASSERT_TRUE(retried.ok()) << retried.status();
      EXPECT_EQ(retried->replay().reply().body(), BodyOf(i));
    }
    daemon_->Kill();
    resealing.join();
    daemon_->Restart();
    RecordProperty("records_before_the_kill", static_cast<int>(NotedRecords()));
  }
  static void RecordProperty(const std::string& name, int value) {
    ::testing::Test::RecordProperty(name, value);
  }

  std::string Ctl(std::vector<std::string> flags) const {
    flags.insert(flags.begin(),
                 {"idempotencyctl", "keyring", "reseal",
                  absl::StrCat("--namespace=", Request().namespace_()), "--reason=key 1 has leaked",
                  absl::StrCat("--address=", daemon_->address())});
    const auto process = Process::Start(flags);
    EXPECT_TRUE(process.ok()) << process.status();
    const auto ended = (*process)->Wait();
    EXPECT_EQ(ended->code, 0) << (*process)->Stderr();
    return (*process)->Stdout();
  }

  // Every reply opens; the fingerprints, which stay under that key, can no longer be compared.
  void WithoutTheFormerKey() {
    daemon_->Terminate();
    WriteRing(TestKey(2, absl::Now() - absl::Hours(1)));
    daemon_->Restart();
    const ServiceClient client(daemon_->address());
    for (int i = 0; i < kRecords; ++i) {
      v1::GetRequest request = SomeGet(KeyOf(i));
      request.set_view(v1::RECORD_VIEW_FULL);
      const auto got = client.Call(request);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->record().reply().body(), BodyOf(i));
    }
    EXPECT_FALSE(client.Call(SomeReserve(KeyOf(0))).ok());
  }

  const std::string store_;
  TempFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
};

TEST(ResealTest, EveryReplyIsKeptOnSqlite) {
  const TempFolder folder;
  ResealRun("sqlite:" + folder.File("records.db")).Run();
}

TEST(ResealTest, EveryReplyIsKeptOnPostgres) {
  const auto cluster = PostgresCluster::Create().value();
  MigrateStore(cluster->url());
  ResealRun(cluster->url()).Run();
}

}  // namespace
}  // namespace idempotency::internal::testing
