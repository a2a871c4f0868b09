// idempotencyctl against a real idempotencyd, with mutual TLS and rules: what an operator sees, and
// what an identity without the permission does not.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::AllOf;
using testing::CertificateAuthority;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kConfig[] = R"(
identities { name: "guard" certificates { dns: "guard" } }
identities { name: "reader" certificates { dns: "reader" } }
identities { name: "on-call" certificates { dns: "on-call" } }
identities { name: "stranger" certificates { dns: "stranger" } }
rules { identity: "guard" namespaces: "payments" permissions: [WRITE, READ, READ_CONTENT] }
rules { identity: "reader" namespaces: "payments" permissions: [READ] }
rules { identity: "on-call" namespaces: "payments" permissions: [READ, ADMIN] }
rules { identity: "stranger" namespaces: "inventory" permissions: [READ, ADMIN, WRITE] }
)";

struct Result {
  int code;
  std::string out;
  std::string err;
};

class CtlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("GRPC_VERBOSITY", "NONE", 1); }

  CtlTest() {
    Write("ca.pem", authority_.root());
    Write("config.textproto", kConfig);
    WriteIdentity("server", authority_.Issue("idempotencyd", "IP:127.0.0.1"));
    for (const char* name : {"guard", "reader", "on-call", "stranger"}) {
      WriteIdentity(name, authority_.Issue(name, absl::StrCat("DNS:", name)));
    }
    daemon_ = std::make_unique<testing::DaemonProcess>(
        absl::StrCat("sqlite:", folder_.File("records.db")),
        std::vector<std::string>{absl::StrCat("--tls_cert=", folder_.File("server.pem")),
                                 absl::StrCat("--tls_key=", folder_.File("server.key")),
                                 absl::StrCat("--tls_client_ca=", folder_.File("ca.pem")),
                                 absl::StrCat("--config=", folder_.File("config.textproto"))});
    const auto credentials = IdempotencydChannelCredentials(
        {folder_.File("ca.pem"), folder_.File("guard.pem"), folder_.File("guard.key"), ""});
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    stub_ = v1::IdempotencyService::NewStub(grpc::CreateCustomChannel(
        daemon_->address(), *credentials, IdempotencydChannelArguments()));
  }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name), std::ios::binary) << content;
  }
  void WriteIdentity(const std::string& name, const CertificateAuthority::Identity& identity) {
    Write(name + ".pem", identity.certificate);
    Write(name + ".key", identity.key);
  }

  // As an identity; stdin is no terminal.
  Result Run(const std::string& identity, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "idempotencyctl");
    auto process = testing::Process::Start(
        arguments, {{"IDEMPOTENCYCTL_ADDRESS", daemon_->address()},
                    {"IDEMPOTENCYCTL_TLS_CA", folder_.File("ca.pem")},
                    {"IDEMPOTENCYCTL_TLS_CERT", folder_.File(identity + ".pem")},
                    {"IDEMPOTENCYCTL_TLS_KEY", folder_.File(identity + ".key")},
                    // Nothing that stays on this machine goes to a proxy.
                    {"http_proxy", "http://127.0.0.1:1"},
                    // In place of the exceptions of this test's environment.
                    {"no_grpc_proxy", "example.invalid"}});
    EXPECT_TRUE(process.ok()) << process.status();
    const auto ended = (*process)->Wait();
    EXPECT_TRUE(ended.ok()) << ended.status();
    return {ended->code.value_or(-1), (*process)->Stdout(), (*process)->Stderr()};
  }

  template <typename Request, typename Response>
  Response Call(grpc::Status (v1::IdempotencyService::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, Response*),
                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = ((*stub_).*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::ReserveResponse Reserve(const std::string& key) {
    v1::ReserveRequest request = testing::SomeReserve(key);
    request.mutable_record_key()->set_namespace_("payments");
    return Call(&v1::IdempotencyService::Stub::Reserve, request);
  }
  // Returns its id.
  std::string MakeUnknown(const std::string& key) {
    const v1::ReserveResponse reserved = Reserve(key);
    v1::ReleaseRequest request = testing::SomeRelease(key, reserved.reserved().reservation_token());
    request.mutable_record_key()->set_namespace_("payments");
    request.set_outcome(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
    request.set_reason("the bank did not answer");
    Call(&v1::IdempotencyService::Stub::Release, request);
    return reserved.record_id();
  }

  // Entries of other records, as a purge writes them, beside the daemon.
  void FillAuditLog(int entries) {
    sqlite3* opened = nullptr;
    EXPECT_EQ(sqlite3_open(folder_.File("records.db").c_str(), &opened), SQLITE_OK);
    const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database(opened, &sqlite3_close);
    sqlite3_busy_timeout(database.get(), 10'000);
    const std::string sql = absl::StrCat(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ", entries,
        ") INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, "
        "key_hmac,"
        " state, attempt, records) SELECT 0, 'on-call', 'the tenant left', 3, 0, 'payments',"
        " randomblob(16), zeroblob(32), 3, 1, 1 FROM n");
    EXPECT_EQ(sqlite3_exec(database.get(), sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database.get());
  }

  testing::TempFolder folder_;
  CertificateAuthority authority_;
  std::unique_ptr<testing::DaemonProcess> daemon_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

TEST_F(CtlTest, AnUnknownOutcomeIsFoundExplainedAndSettled) {
  const std::string id = MakeUnknown("order-1");
  const Result listed = Run("on-call", {"list", "--namespace=payments", "--state=unknown"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr(id), HasSubstr("UNKNOWN"), HasSubstr("order-1")));

  const Result story = Run("on-call", {"explain", id});
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_THAT(story.out, AllOf(HasSubstr("the bank did not answer"), HasSubstr("outcome_unknown"),
                               HasSubstr(absl::StrCat("idempotencyctl resolve ", id))));

  Write("body", std::string("\x08\x01\x00\xff", 4));
  const std::vector<std::string> resolve = {"resolve", id, "--outcome=completed",
                                            absl::StrCat("--body_file=", folder_.File("body")),
                                            "--reason=ticket 42"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> arguments = resolve;
    arguments.push_back(more);
    return Run("on-call", arguments);
  };
  // Neither a dry run nor a question without an answer changes anything.
  const Result dry = with("--dry_run");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("would be COMPLETED (it was UNKNOWN)"));
  EXPECT_EQ(Run("on-call", resolve).code, 5);
  EXPECT_EQ(Reserve("order-1").verdict_case(), v1::ReserveResponse::kOutcomeUnknown);

  EXPECT_EQ(with("--yes").code, 0);
  const v1::ReserveResponse replay = Reserve("order-1");
  ASSERT_EQ(replay.verdict_case(), v1::ReserveResponse::kReplay);
  EXPECT_EQ(replay.replay().reply().body(), std::string("\x08\x01\x00\xff", 4));
  EXPECT_THAT(Run("on-call", {"explain", id}).out,
              AllOf(HasSubstr("RESOLVED_COMPLETED by on-call: ticket 42"), HasSubstr("replay")));
  EXPECT_THAT(Run("on-call", {"audit", "--namespace=payments", "--record=" + id}).out,
              HasSubstr("ticket 42"));
  // Settled otherwise meanwhile.
  const Result late =
      Run("on-call", {"resolve", id, "--outcome=released", "--reason=late", "--yes"});
  EXPECT_EQ(late.code, 4);
  EXPECT_THAT(late.err, HasSubstr("RECORD_CHANGED: "));
}

TEST_F(CtlTest, AReleasedOneRunsAgain) {
  const std::string id = MakeUnknown("order-1");
  EXPECT_EQ(Run("on-call", {"resolve", id, "--outcome=released", "--reason=it is not on the list",
                            "--yes", "--json"})
                .code,
            0);
  const v1::ReserveResponse next = Reserve("order-1");
  ASSERT_EQ(next.verdict_case(), v1::ReserveResponse::kReserved);
  EXPECT_EQ(next.reserved().attempt(), 2);
  // It runs: only force settles it now.
  const Result running =
      Run("on-call", {"resolve", id, "--outcome=released", "--reason=impatient", "--yes"});
  EXPECT_EQ(running.code, 4);
  EXPECT_THAT(running.err, HasSubstr("FORCE_REQUIRED: "));
}

TEST_F(CtlTest, AReleaseOfAnAttemptThatMayStillRunHasAWarning) {
  const auto warning = HasSubstr("may only be slow");
  const std::string ended = MakeUnknown("order-1");
  const auto dry = [&](const std::string& id, std::vector<std::string> more) {
    more.insert(more.begin(), {"resolve", id, "--reason=r", "--dry_run"});
    Result result = Run("on-call", more);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  EXPECT_THAT(dry(ended, {"--outcome=released"}).err, Not(warning));

  v1::ReserveRequest request = testing::SomeReserve("order-2");
  request.mutable_record_key()->set_namespace_("payments");
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  request.mutable_lease()->set_seconds(0);
  request.mutable_lease()->set_nanos(10'000'000);
  const std::string lost = Call(&v1::IdempotencyService::Stub::Reserve, request).record_id();
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_THAT(dry(lost, {"--outcome=released"}).err, warning);
  EXPECT_THAT(dry(lost, {"--outcome=completed", "--code=9"}).err, Not(warning));
  // The next call makes it UNKNOWN.
  EXPECT_EQ(Reserve("order-2").verdict_case(), v1::ReserveResponse::kOutcomeUnknown);
  EXPECT_THAT(dry(lost, {"--outcome=released"}).err, warning);
}

TEST_F(CtlTest, ASettledErrorKeepsItsDetails) {
  const std::string id = MakeUnknown("order-1");
  const std::string details("\x08\x09\x00\xff", 4);
  Write("details", details);
  EXPECT_EQ(Run("on-call", {"resolve", id, "--outcome=completed", "--code=9", "--message=closed",
                            absl::StrCat("--details_file=", folder_.File("details")),
                            "--reason=ticket 43", "--yes"})
                .code,
            0);
  const v1::Reply reply = Reserve("order-1").replay().reply();
  EXPECT_EQ(reply.code(), 9);
  EXPECT_EQ(reply.message(), "closed");
  EXPECT_EQ(reply.details(), details);
}

TEST_F(CtlTest, ListsAreNarrowedByAge) {
  const std::string id = MakeUnknown("order-1");
  EXPECT_THAT(Run("reader", {"list", "--namespace=payments", "--newer_than=1h"}).out,
              HasSubstr(id));
  const Result none = Run("reader", {"list", "--namespace=payments", "--older_than=1h", "--json"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, IsEmpty());
}

TEST_F(CtlTest, AListIsSearchedForAKeyBehindItsLimit) {
  std::set<std::string> ids;
  for (const char* const key : {"a", "b", "c"}) ids.insert(MakeUnknown(key));
  const std::string uuid = "b0a7e3de-58a4-4c5e-9f0a-00000000000a";
  const std::string id = MakeUnknown(uuid);
  for (const std::string& key : {uuid, absl::AsciiStrToUpper(uuid)}) {
    const Result found =
        Run("reader", {"list", "--namespace=payments", "--key=" + key, "--limit=1", "--json"});
    EXPECT_EQ(found.code, 0) << found.err;
    EXPECT_THAT(found.out, HasSubstr(id));
    for (const std::string& other : ids) EXPECT_THAT(found.out, Not(HasSubstr(other)));
  }
  EXPECT_THAT(Run("reader", {"list", "--namespace=payments", "--key=none", "--json"}).out,
              IsEmpty());
}

TEST_F(CtlTest, ExplainShowsTheNewestActsOnTheRecord) {
  const std::string id = MakeUnknown("order-1");
  const auto resolve = [&](const std::string& record, const std::string& reason) {
    EXPECT_EQ(
        Run("on-call", {"resolve", record, "--outcome=released", "--reason=" + reason, "--yes"})
            .code,
        0);
  };
  resolve(id, "first");
  resolve(MakeUnknown("order-2"), "other");
  EXPECT_EQ(MakeUnknown("order-1"), id);
  resolve(id, "second");
  const Result part = Run("on-call", {"explain", id, "--audit_limit=1"});
  EXPECT_THAT(part.err, HasSubstr("more with it than the --audit_limit=1 entries"));
  EXPECT_THAT(part.out, AllOf(HasSubstr("RESOLVED_RELEASED by on-call: second"),
                              Not(HasSubstr("by on-call: first"))));
  const Result whole = Run("on-call", {"explain", id, "--audit_limit=2"});
  EXPECT_THAT(whole.err, IsEmpty());
  EXPECT_THAT(whole.out, AllOf(ContainsRegex("by on-call: first\n.*by on-call: second\n"),
                               Not(HasSubstr("by on-call: other"))));
  EXPECT_THAT(Run("on-call", {"explain", id, "--audit_limit=0"}).out,
              Not(HasSubstr("RESOLVED_RELEASED")));
  for (const std::string& record : {id, absl::AsciiStrToUpper(id)}) {
    EXPECT_THAT(Run("on-call", {"audit", "--namespace=payments", "--record=" + record}).out,
                AllOf(ContainsRegex("by on-call: second\n.*by on-call: first\n"),
                      Not(HasSubstr("by on-call: other"))));
  }
}

// As after a purge of a tenant.
TEST_F(CtlTest, ExplainFindsAnActBehindManyOthers) {
  constexpr int kOthers = 10'001;
  const std::string id = MakeUnknown("order-1");
  FillAuditLog(kOthers);
  EXPECT_EQ(Run("on-call", {"resolve", id, "--outcome=released", "--reason=settled", "--yes"}).code,
            0);
  FillAuditLog(kOthers);
  EXPECT_THAT(Run("on-call", {"explain", id}).out,
              HasSubstr("RESOLVED_RELEASED by on-call: settled"));
  EXPECT_THAT(Run("on-call", {"audit", "--namespace=payments", "--record=" + id}).out,
              HasSubstr("by on-call: settled"));
}

TEST_F(CtlTest, ATenantIsPurged) {
  for (int i = 0; i < 3; ++i) MakeUnknown(absl::StrCat("order-", i));
  Reserve("order-running");
  const std::string scope = absl::StrCat("--scope=", testing::SomeRecordKey("k").scope());
  const std::vector<std::string> purge = {"purge", "--namespace=payments", scope,
                                          "--reason=the tenant left"};
  EXPECT_EQ(Run("on-call", purge).code, 2) << "without a tombstone";
  std::vector<std::string> unconfirmed = purge;
  unconfirmed.emplace_back("--tombstone=1h");
  EXPECT_EQ(Run("on-call", unconfirmed).code, 5);
  std::vector<std::string> yes = unconfirmed;
  yes.insert(yes.end(), {"--yes", "--json"});
  EXPECT_THAT(Run("on-call", yes).out, HasSubstr(R"("refused":"4")"));
  yes.emplace_back("--force");
  EXPECT_THAT(Run("on-call", yes).out, HasSubstr(R"({"purged":"4"})"));
  EXPECT_EQ(Reserve("order-0").verdict_case(), v1::ReserveResponse::kExpired);
  EXPECT_THAT(Run("on-call", {"list", "--namespace=payments", "--json"}).out, IsEmpty());
}

TEST_F(CtlTest, JsonIsTheMessagesOfTheProtos) {
  const std::string id = MakeUnknown("order-1");
  const Result got = Run("on-call", {"get", id, "--json"});
  v1::Record record;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(got.out, &record).ok()) << got.out;
  EXPECT_EQ(record.record_id(), id);
  EXPECT_EQ(record.state(), v1::RECORD_STATE_UNKNOWN);
}

TEST_F(CtlTest, ATreeShowsTheCallsThatAHandlerMade) {
  const std::string root = MakeUnknown("order-1");
  v1::ReserveRequest child = testing::SomeReserve("child");
  child.mutable_record_key()->set_namespace_("payments");
  *child.mutable_parent() = testing::SomeRecordKey("order-1");
  child.mutable_parent()->set_namespace_("payments");
  child.mutable_parent()->set_key(root);
  const std::string child_id = Call(&v1::IdempotencyService::Stub::Reserve, child).record_id();
  const Result tree = Run("reader", {"tree", root});
  EXPECT_EQ(tree.code, 0) << tree.err;
  EXPECT_THAT(tree.out, AllOf(Not(StartsWith("  ")), HasSubstr(root), HasSubstr("\n  "),
                              HasSubstr(child_id)));
}

TEST_F(CtlTest, ATreeReportsWhatIsDeeperThanItShows) {
  const auto reserve = [&](const std::string& key, const std::string& parent) {
    v1::ReserveRequest request = testing::SomeReserve(key);
    request.mutable_record_key()->set_namespace_("payments");
    if (!parent.empty()) {
      *request.mutable_parent() = request.record_key();
      request.mutable_parent()->set_key(parent);
    }
    return Call(&v1::IdempotencyService::Stub::Reserve, request).record_id();
  };
  const std::string root = reserve("root", "");
  const std::string child = reserve("child", root);
  const std::string grandchild = reserve("grandchild", child);
  const Result cut = Run("reader", {"tree", root, "--depth=1"});
  EXPECT_THAT(cut.out, AllOf(HasSubstr(child), Not(HasSubstr(grandchild))));
  EXPECT_EQ(cut.err, "Only 1 level of calls is shown: 1 record below, raise --depth.\n");
  const Result whole = Run("reader", {"tree", root, "--depth=2"});
  EXPECT_THAT(whole.out, HasSubstr(grandchild));
  EXPECT_EQ(whole.err, "");
}

TEST_F(CtlTest, RulesHoldForOperatorsToo) {
  const std::string id = MakeUnknown("order-1");
  // A reader sees the record, and not its content.
  EXPECT_EQ(Run("reader", {"get", id}).code, 0);
  EXPECT_THAT(Run("reader", {"get", id, "--content"}).err, HasSubstr("ACCESS_DENIED: "));
  const Result story = Run("reader", {"explain", id});
  EXPECT_EQ(story.code, 0);
  EXPECT_THAT(story.err, HasSubstr("What administrators did is not included"));
  const Result denied = Run("reader", {"purge", "--namespace=payments", "--scope=s",
                                       "--tombstone=0s", "--reason=r", "--yes"});
  EXPECT_EQ(denied.code, 1);
  EXPECT_THAT(denied.err, HasSubstr("ACCESS_DENIED: "));
  // A stranger does not learn that there is one.
  const Result hidden = Run("stranger", {"get", id});
  EXPECT_EQ(hidden.code, 3);
  EXPECT_EQ(hidden.err, Run("stranger", {"get", "00000000-0000-4000-8000-000000000001"}).err);
  EXPECT_THAT(Run("stranger", {"list", "--namespace=payments"}).err, HasSubstr("ACCESS_DENIED"));
}

TEST_F(CtlTest, AClosedConnectionNamesTheFlagsThatMayBeMissing) {
  WriteIdentity("server-only", authority_.Issue("server-only", "", "serverAuth"));
  const std::vector<std::string> list = {"list", "--namespace=payments"};
  const auto with = [&](const std::string& identity, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = list;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = Run(identity, arguments);
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_THAT(with("on-call", {"--tls_ca=", "--tls_cert=", "--tls_key="}),
              HasSubstr("; if it uses TLS, set --tls_ca; with mutual TLS also --tls_cert and "
                        "--tls_key\n"));
  EXPECT_THAT(with("on-call", {"--tls_cert=", "--tls_key="}),
              HasSubstr("; if it uses mutual TLS, set --tls_cert and --tls_key\n"));
  EXPECT_THAT(with("server-only", {}), HasSubstr("must include clientAuth\n"));
}

TEST_F(CtlTest, WatchShowsChangesUntilItIsInterrupted) {
  MakeUnknown("order-1");
  auto process = testing::Process::Start(
      {"idempotencyctl", "watch", "--namespace=payments", "--interval=200ms"},
      {{"IDEMPOTENCYCTL_ADDRESS", daemon_->address()},
       {"IDEMPOTENCYCTL_TLS_CA", folder_.File("ca.pem")},
       {"IDEMPOTENCYCTL_TLS_CERT", folder_.File("reader.pem")},
       {"IDEMPOTENCYCTL_TLS_KEY", folder_.File("reader.key")}});
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE((*process)->WaitForLine("+ ").ok());
  const std::string id = Call(&v1::IdempotencyService::Stub::Get,
                              [] {
                                v1::GetRequest request = testing::SomeGet("order-1");
                                request.mutable_record_key()->set_namespace_("payments");
                                return request;
                              }())
                             .record()
                             .record_id();
  ASSERT_EQ(Run("on-call", {"resolve", id, "--outcome=released", "--reason=r", "--yes"}).code, 0);
  EXPECT_TRUE((*process)->WaitForLine("~ ").ok());
  (*process)->Signal(SIGINT);
  const auto ended = (*process)->Wait();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 0);
}

// Answers List from a script; a call without a line of it gets no answer until it is cancelled.
class ScriptedAdmin final : public v1::IdempotencyAdminService::Service {
 public:
  explicit ScriptedAdmin(std::vector<grpc::Status> script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  // False if there is none within half a minute.
  bool AwaitUnansweredCall() {
    return unanswered_.WaitForNotificationWithTimeout(absl::Seconds(30));
  }

  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* /*request*/,
                    v1::ListResponse* response) override {
    std::size_t call = 0;
    {
      const MutexLock lock(mutex_);
      call = calls_++;
    }
    if (call < script_.size()) {
      v1::Record& record = *response->add_records();
      record.set_record_id(absl::StrCat("record-", call));
      record.set_state(v1::RECORD_STATE_UNKNOWN);
      return script_[call];
    }
    // Once: the process makes one call at a time.
    unanswered_.Notify();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  }

 private:
  const std::vector<grpc::Status> script_;
  Mutex mutex_;
  std::size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Notification unanswered_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<testing::Process> Watch(const ScriptedAdmin& admin) {
  auto process = testing::Process::Start({"idempotencyctl", "watch", "--namespace=payments",
                                          "--address=" + admin.address(), "--interval=200ms",
                                          "--timeout=10m"});
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

TEST(WatchTest, AnInterruptEndsAListingThatHasBegun) {
  for (const int signal : {SIGINT, SIGTERM}) {
    ScriptedAdmin admin({grpc::Status::OK});
    const auto process = Watch(admin);
    ASSERT_TRUE(admin.AwaitUnansweredCall()) << process->Stderr();
    process->Signal(signal);
    const auto ended = process->Wait();
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->code, 0);
    EXPECT_EQ(process->Stderr(), "");
  }
}

TEST(WatchTest, AnOutageDoesNotEndIt) {
  ScriptedAdmin admin({grpc::Status::OK, grpc::Status(grpc::StatusCode::CANCELLED, "it stops"),
                       grpc::Status(grpc::StatusCode::UNAVAILABLE, "it restarts"),
                       grpc::Status::OK});
  const auto process = Watch(admin);
  EXPECT_TRUE(process->WaitForLine("- ").ok()) << process->Stderr();
  EXPECT_THAT(process->Stdout(), AllOf(HasSubstr("record-0"), HasSubstr("record-3")));
  ASSERT_TRUE(admin.AwaitUnansweredCall()) << process->Stderr();
  process->Signal(SIGINT);
  const auto ended = process->Wait();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 0);
  EXPECT_EQ(process->Stderr(),
            absl::StrCat("No listing: ", admin.address(),
                         ": it stops; the next try in 1s.\nNo listing: ", admin.address(),
                         ": it restarts; the next try in 2s.\n"
                         "The service answers again.\n"));
}

TEST(WatchTest, ARefusalEndsIt) {
  ScriptedAdmin admin(
      {grpc::Status::OK, grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "it may not")});
  const auto process = Watch(admin);
  const auto ended = process->Wait();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 1);
  EXPECT_THAT(process->Stderr(), HasSubstr("it may not"));
}

}  // namespace
}  // namespace idempotency::internal
