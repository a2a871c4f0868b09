// The calls of the console: who may make them, and their answers.
#include "server/console/console_api.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "idempotency/console/v1/console.pb.h"
#include "idempotency/v1/admin_service.pb.h"
#include "server/console/testing/console_service.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ConsoleApiTest : public ::testing::Test {
 protected:
  HttpResponse Call(const std::string& method, const std::string& body, const std::string& who) {
    return Call(method, body, who.empty() ? Credentials() : ConsoleService::Of(who));
  }
  HttpResponse Call(const std::string& method, const std::string& body, Credentials credentials) {
    AwaitedResponse response;
    api_.Call(method, body, std::move(credentials), response.Sink());
    return response.Await();
  }
  static console::v1::Fault FaultOf(const HttpResponse& response) {
    console::v1::ErrorResponse error;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(response.body, &error).ok())
        << response.body;
    return error.error();
  }
  console::v1::Overview Overview(const std::string& who) {
    console::v1::Overview overview;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(Call("Overview", "{}", who).body, &overview)
            .ok());
    return overview;
  }

  ConsoleService service_;
  ConsoleApi api_{service_.parts()};
};

TEST_F(ConsoleApiTest, EachMethodNeedsItsPermission) {
  const std::string id = service_.Unknown("order-1");
  const std::string resolve =
      absl::StrCat(R"({"record_id":")", id,
                   R"(","outcome":"RESOLVE_OUTCOME_RELEASED","reason":"r","expected_attempt":1)",
                   R"(,"validate_only":true})");
  const std::string purge =
      absl::StrCat(R"({"record_id":")", id, R"(","reason":"r","validate_only":true})");
  struct Row {
    const char* method;
    std::string body;
    unsigned reader;
    unsigned admin;
  };
  // Purge: the one record needs force.
  for (const Row& row :
       std::vector<Row>{{"Overview", "{}", 200, 200},
                        {"Explain", absl::StrCat(R"({"record_id":")", id, R"("})"), 200, 200},
                        {"List", R"({"namespace":"payments"})", 200, 200},
                        {"Resolve", resolve, 403, 200},
                        {"Purge", purge, 403, 409},
                        {"ListAudit", R"({"namespace":"payments"})", 403, 200}}) {
    EXPECT_EQ(Call(row.method, row.body, "reader").status, row.reader) << row.method;
    EXPECT_EQ(Call(row.method, row.body, "admin").status, row.admin) << row.method;
    const int before = service_.refused();
    EXPECT_EQ(Call(row.method, row.body, "stranger").status, 403u) << row.method;
    EXPECT_EQ(service_.refused(), before + 1) << row.method;
    EXPECT_EQ(Call(row.method, row.body, "nobody").status, 401u) << row.method;
    EXPECT_EQ(service_.refused(), before + 2) << row.method;
    EXPECT_EQ(Call(row.method, row.body, "").status, 401u) << row.method;
  }
  EXPECT_EQ(Call("Reserve", "{}", "admin").status, 404u);
}

TEST_F(ConsoleApiTest, ExplainsARecord) {
  const HttpResponse response = Call(
      "Explain", absl::StrCat(R"({"record_id":")", service_.Unknown("order-1"), R"("})"), "reader");
  console::v1::Explanation explanation;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(response.body, &explanation).ok());
  EXPECT_EQ(explanation.record().record_key().key(), "order-1");
  EXPECT_EQ(explanation.record().state(), v1::RECORD_STATE_UNKNOWN);
  EXPECT_THAT(explanation.story(), Not(IsEmpty()));
  EXPECT_THAT(explanation.next_verdict(), HasSubstr("OUTCOME_UNKNOWN"));
  EXPECT_THAT(explanation.remedy(), Not(IsEmpty()));
}

// A record id says nothing about records of others.
TEST_F(ConsoleApiTest, RecordsOfOtherNamespacesAreAsThoseThatDoNotExist) {
  const std::string other = service_.Unknown("order-1", "orders");
  const HttpResponse hidden =
      Call("Explain", absl::StrCat(R"({"record_id":")", other, R"("})"), "reader");
  const HttpResponse missing =
      Call("Explain", R"({"record_id":"01890a5d-ac96-774b-bcce-b302099a8057"})", "reader");
  EXPECT_EQ(hidden.status, 404u);
  EXPECT_EQ(hidden.body, missing.body);
  EXPECT_EQ(Call("Explain",
                 R"({"record_key":{"namespace":"orders","scope":"tenant-1",)"
                 R"("operation":"/payments.v1.Payments/Charge","key":"order-1"}})",
                 "reader")
                .status,
            403u);
  const int before = service_.refused();
  EXPECT_EQ(Call("List", R"({"namespace":"orders"})", "reader").status, 403u);
  EXPECT_EQ(service_.refused(), before + 1);
}

// The namespace of a record that cannot be read is not known.
TEST_F(ConsoleApiTest, ADamagedRecordIsReportedToReadersOfEveryNamespace) {
  const std::string request =
      absl::StrCat(R"({"record_id":")", service_.Unknown("order-1", "orders"), R"("})");
  const HttpResponse missing =
      Call("Explain", R"({"record_id":"01890a5d-ac96-774b-bcce-b302099a8057"})", "reader");
  service_.store().Fail(OperationKind::kGet, Reason::kRecordDamaged);
  EXPECT_EQ(Call("Explain", request, "reader").body, missing.body);
  EXPECT_EQ(FaultOf(Call("Explain", request, "auditor")).reason(), "RECORD_DAMAGED");
  EXPECT_EQ(FaultOf(Call("Explain",
                         R"({"record_key":{"namespace":"payments","scope":"tenant-1",)"
                         R"("operation":"/payments.v1.Payments/Charge","key":"order-1"}})",
                         "reader"))
                .reason(),
            "RECORD_DAMAGED");
  service_.store().Fail(OperationKind::kGet, Reason::kStoreUnavailable);
  EXPECT_EQ(FaultOf(Call("Explain", request, "reader")).reason(), "STORE_UNAVAILABLE");
}

TEST_F(ConsoleApiTest, SettlesARecordAndLeavesAnEntryInTheAuditLog) {
  const std::string id = service_.Unknown("order-1");
  EXPECT_EQ(Call("Resolve",
                 absl::StrCat(R"({"record_id":")", id,
                              R"(","outcome":"RESOLVE_OUTCOME_COMPLETED","expected_attempt":1,)",
                              R"("reply":{"code":9,"message":"no funds"},"reason":"ticket 42"})"),
                 "admin")
                .status,
            200u);
  v1::ListAuditResponse audit;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  Call("ListAudit", R"({"namespace":"payments"})", "admin").body, &audit)
                  .ok());
  ASSERT_EQ(audit.entries_size(), 1);
  EXPECT_EQ(audit.entries(0).actor(), "admin");
  EXPECT_EQ(audit.entries(0).reason(), "ticket 42");
}

TEST_F(ConsoleApiTest, ErrorsAreJson) {
  const HttpResponse unknown =
      Call("Resolve", R"({"no_such_field":"secret-in-the-body"})", "admin");
  EXPECT_EQ(unknown.status, 400u);
  EXPECT_EQ(unknown.content_type, "application/json");
  EXPECT_EQ(FaultOf(unknown).code(), "INVALID_ARGUMENT");
  EXPECT_EQ(FaultOf(unknown).reason(), "REQUEST_INVALID");
  EXPECT_THAT(unknown.body, Not(HasSubstr("secret-in-the-body")));

  const HttpResponse stranger = Call("Overview", "{}", "");
  EXPECT_EQ(FaultOf(stranger).reason(), "CREDENTIALS_INVALID");
  EXPECT_EQ(stranger.headers[0].first, "WWW-Authenticate");

  // Deeper than the parser goes.
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += R"({"record_key":)";
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("null x"), std::string("\xff\xfe"), deep,
        std::string(R"({"namespace":"payments","page_size":1e999})")}) {
    EXPECT_EQ(Call("List", body, "reader").status, 400u) << body.substr(0, 40);
  }
}

TEST_F(ConsoleApiTest, TheOverviewHasTheNamespacesOfItsCaller) {
  service_.tenants().Configure({{"payments", {}}, {"orders", {}}});
  const console::v1::Overview reader = Overview("reader");
  EXPECT_EQ(reader.caller(), "reader");
  ASSERT_EQ(reader.namespaces_size(), 1);
  EXPECT_EQ(reader.namespaces(0).name(), "payments");
  EXPECT_FALSE(reader.namespaces(0).admin());
  EXPECT_TRUE(Overview("admin").namespaces(0).admin());
}

// The rules name it, and no settings.
TEST_F(ConsoleApiTest, TheOverviewHasNamespacesWithoutSettings) {
  ASSERT_EQ(Overview("reader").namespaces_size(), 1);
  EXPECT_EQ(Overview("reader").namespaces(0).name(), "payments");
}

TEST_F(ConsoleApiTest, AFullWorkerRefuses) {
  Mutex mutex;
  CondVar opened;
  bool open = false;
  std::size_t held = 0;
  const auto hold = [&](AdminPlace::Kind kind) {
    return service_.worker().TryRun({kind, absl::StrCat("other-", held)}, [&] {
      MutexLock lock(mutex);
      while (!open) opened.Wait(lock);
    });
  };
  while (hold(AdminPlace::Kind::kRead)) ++held;
  EXPECT_EQ(held, limits::kMaxAdminCalls - limits::kReservedAdminCalls);
  const HttpResponse refused = Call("List", R"({"namespace":"payments"})", "reader");
  EXPECT_EQ(refused.status, 429u);
  EXPECT_EQ(FaultOf(refused).reason(), "OVERLOADED");
  while (hold(AdminPlace::Kind::kAct)) ++held;
  EXPECT_EQ(held, limits::kMaxAdminCalls);
  EXPECT_EQ(FaultOf(Call("ListAudit", R"({"namespace":"payments"})", "admin")).reason(),
            "OVERLOADED");
  // It needs no worker.
  EXPECT_EQ(Call("Overview", "{}", "reader").status, 200u);
  {
    MutexLock lock(mutex);
    open = true;
    opened.NotifyAll();
  }
  service_.worker().Close();
}

TEST_F(ConsoleApiTest, AnswersAreInTheMemoryBudgetUntilTheyAreGone) {
  {
    const HttpResponse response = Call("List", R"({"namespace":"payments"})", "reader");
    EXPECT_EQ(service_.budget().held(), response.body.size());
  }
  EXPECT_EQ(service_.budget().held(), 0u);
}

}  // namespace
}  // namespace idempotency::internal
