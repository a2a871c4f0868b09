#include "ctl/program.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "core/wire_time.h"
#include "ctl/command_flags.h"
#include "ctl/commands.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string Content(std::FILE* file) {
  std::rewind(file);
  std::string content;
  std::array<char, 4096> block{};
  for (std::size_t read = 0; (read = std::fread(block.data(), 1, block.size(), file)) > 0;) {
    content.append(block.data(), read);
  }
  return content;
}

struct Result {
  ExitCode code;
  std::string out;
  std::string err;
};

Result RunWords(const std::vector<std::string>& words) {
  const std::vector<absl::string_view> args(words.begin(), words.end());
  const File in(std::tmpfile());
  const File out(std::tmpfile());
  const File err(std::tmpfile());
  Terminal terminal({in.get(), out.get(), err.get()});
  const ExitCode code = RunProgram(args, terminal);
  return {code, Content(out.get()), Content(err.get())};
}

Result RunLine(const std::string& line) {
  return RunWords(absl::StrSplit(line, ' ', absl::SkipEmpty()));
}

constexpr char kId[] = "f61ef4a9-8093-f346-2889-705e6a369e58";

// Nothing listens there.
constexpr char kNowhere[] = " --address=127.0.0.1:1 --timeout=1s";

class WrongUsageTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongUsageTest, NamesTheRightUsage) {
  const auto& [line, message] = GetParam();
  const Result result = RunLine(line);
  EXPECT_EQ(result.code, ExitCode::kWrongUsage) << line;
  EXPECT_THAT(result.err, AllOf(StartsWith("idempotencyctl: "), HasSubstr(message))) << line;
  EXPECT_THAT(result.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Lines, WrongUsageTest,
    ::testing::Values(
        std::pair("", "no command"), std::pair("git", "'git' is not a command"),
        std::pair("keyring", "'keyring' is not a command"),
        std::pair("get", "RECORD_ID, or all of --namespace"),
        std::pair("get nonsense", "must be a UUID"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --key=k", "not both"),
        std::pair("get --namespace=n --scope=s --operation=o", "RECORD_ID, or all of"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 more", "'more' is not a flag"),
        std::pair("get --content f61ef4a9-8093-f346-2889-705e6a369e58 more",
                  "'more' is not a flag"),
        std::pair("list", "--namespace is missing"),
        std::pair("list nothing --namespace=n", "'nothing' is not a flag"),
        std::pair("list --namespace=n --state=lost", "--state must be"),
        std::pair("list --namespace=n --state=unspecified", "--state must be"),
        std::pair("list --namespace=n --state=", "--state"),
        std::pair("list --namespace=n --limit=0", "--limit must be a number"),
        std::pair("audit", "--namespace is missing"),
        std::pair("audit --namespace=n --record=nonsense", "must be a UUID"),
        std::pair("audit --namespace=n --record=", "--record"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --outcome=released",
                  "--reason is missing"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r", "--outcome must be"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --outcome=completed",
                  "--body_file is missing"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --outcome=released "
                  "--code=3",
                  "are for --outcome=completed"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --outcome=completed "
                  "--code=14",
                  "--code=14: must not be CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED or "
                  "UNAVAILABLE"),
        std::pair("resolve f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --outcome=completed "
                  "--body_file=-",
                  "set --yes too"),
        std::pair("purge --reason=r", "give RECORD_ID; or"),
        std::pair("purge --reason=r --namespace=n", "give RECORD_ID; or"),
        std::pair("purge --reason=r --namespace=n --scope=s --older_than=1h", "give RECORD_ID; or"),
        std::pair("purge --reason=r --namespace=n --operation=o", "give RECORD_ID; or"),
        std::pair("purge f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --scope=s",
                  "give RECORD_ID; or"),
        std::pair("purge --namespace=n --scope=s", "--reason is missing"),
        std::pair("purge --reason=r --namespace=n --scope=s --yes", "--tombstone is missing"),
        std::pair("purge --reason=r --namespace=n --older_than=1h --yes",
                  "--tombstone=24h, or --tombstone=0s"),
        std::pair("purge --reason=r --namespace=n --scope=s --tombstone=500ns --yes",
                  "--tombstone must be 0s, or 1s or longer"),
        std::pair("purge f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --tombstone=999ms",
                  "--tombstone must be 0s, or 1s or longer"),
        std::pair("purge --reason=r --namespace=n --scope=s --tombstone=0s --no_count",
                  "--no_count is for more than one record, with --yes"),
        std::pair("purge f61ef4a9-8093-f346-2889-705e6a369e58 --reason=r --yes --no_count",
                  "--no_count is for more than one record, with --yes"),
        std::pair("purge --reason=r --namespace=n --scope=s --operation= --key=",
                  "--operation must not be empty"),
        std::pair("purge --reason=r --namespace=n --scope=s --operation=o --key=",
                  "--key must not be empty"),
        std::pair("list --namespace=n --scope=", "--scope must not be empty"),
        std::pair("envoy-config --format=envoy-gateway --methods=a.B/C --upstream=10.0.0.1:80 "
                  "--processor=b:1",
                  "--upstream=10.0.0.1:80: a Gateway refers to a Service by its name"),
        std::pair("envoy-config --format=envoy-gateway --methods=a.B/C --upstream=a:1 "
                  "--processor=[fd00::1]:80",
                  "--processor=[fd00::1]:80: a Gateway refers to a Service by its name"),
        std::pair("envoy-config --format=envoy-gateway --methods=a.B/C --upstream=a:1 "
                  "--processor=b:1 --processor_tls_ca=f",
                  "BackendTLSPolicy: write one, and leave out --processor_tls_ca"),
        std::pair("envoy-config --format=envoy-gateway --methods=a.B/C --upstream=a:1 "
                  "--processor=b:1 --upstream_tls_ca=f --upstream_tls_cert=f --upstream_tls_key=f",
                  "BackendTLSPolicy: write one, and leave out --upstream_tls_ca"),
        std::pair("envoy-config --format=envoy-gateway --methods=a.B/C --upstream=a:1 "
                  "--processor=b:1 --tls_cert=f --tls_key=f",
                  "its listeners, and their authorities from a ClientTrafficPolicy: write it "
                  "there, and leave out --tls_cert"),
        std::pair("envoy-config --format=istio --workload=a=b --methods=a.B/C --upstream=a:1 "
                  "--processor=b:1 --tls_cert=f --tls_key=f",
                  "PeerAuthentication: write one, and leave out --tls_cert"),
        std::pair("envoy-config --format=istio --workload=a=b --methods=a.B/C --upstream=a:1 "
                  "--processor=b:1 --upstream_tls_ca=f",
                  "leave out --upstream_tls_ca"),
        std::pair("completion", "completion bash"), std::pair("completion tcsh", "completion bash"),
        std::pair("keyring check", "--file is missing"),
        std::pair("keyring reseal --reason=r", "--namespace is missing"),
        std::pair("keyring reseal --namespace=n", "--reason is missing"),
        std::pair("keyring generate --file=f --seals_in=soon", "--seals_in must be"),
        std::pair("keyring generate", "for example --file=/etc/idempotency/private/keyring"),
        std::pair("keyring check --file=f --address=127.0.0.1:1", "there is no flag --address"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --address=10.0.0.1:7411",
                  "is another machine"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --address=127.0.0.1.example:7411",
                  "is another machine"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --address=127.1:7411",
                  "is another machine"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 "
                  "--address=ipv4:127.0.0.1:1,10.0.0.1:1",
                  "is another machine"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --address=10.0.0.1:1 "
                  "--allow_plaintext --token_file=/dev/null",
                  "over TLS only"),
        std::pair("get f61ef4a9-8093-f346-2889-705e6a369e58 --tls_ca=/no/such/file",
                  "/no/such/file")));

TEST(ProgramTest, TheRecordMayFollowTheFlags) {
  for (const char* flags : {"--address=127.0.0.1:1 --timeout=1s ", "--address 127.0.0.1:1 "}) {
    const Result result = RunLine(absl::StrCat("explain ", flags, kId, " --audit_limit=0"));
    EXPECT_EQ(result.code, ExitCode::kFailed) << flags;
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1: ")) << flags;
  }
}

// A script's variable without a value does not turn one record into a scope.
TEST(ProgramTest, AnEmptyRecordIsRefused) {
  const std::vector<std::string> scope = {"--namespace=n", "--scope=s", "--reason=r"};
  std::vector<std::string> first = {"purge", ""};
  first.insert(first.end(), scope.begin(), scope.end());
  std::vector<std::string> last = {"purge"};
  last.insert(last.end(), scope.begin(), scope.end());
  last.emplace_back();
  for (const auto& words : {first, last}) {
    const Result result = RunWords(words);
    EXPECT_EQ(result.code, ExitCode::kWrongUsage);
    EXPECT_THAT(result.err, HasSubstr("'' is not a flag"));
  }
}

TEST(ProgramTest, AnUnreachableServerIsAFailureThatNamesIt) {
  for (const char* command : {"get", "explain", "tree"}) {
    const Result result = RunLine(absl::StrCat(command, " ", kId, kNowhere));
    EXPECT_EQ(result.code, ExitCode::kFailed);
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1: ")) << command;
  }
  for (const char* line : {"list --namespace=n", "stats --namespace=n", "audit --namespace=n",
                           "watch --namespace=n --listings=1",
                           "purge --namespace=n --scope=s --reason=r --tombstone=0s",
                           "keyring reseal --namespace=n --reason=r"}) {
    const Result result = RunLine(absl::StrCat(line, kNowhere));
    EXPECT_EQ(result.code, ExitCode::kFailed) << line;
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1: ")) << line;
  }
}

// Counts one record, which is RELEASED then; the purge itself gets `outcome`.
class Purged final : public v1::IdempotencyAdminService::Service {
 public:
  explicit Purged(grpc::Status outcome) : outcome_(std::move(outcome)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Purged() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat(" --address=127.0.0.1:", port_); }
  // Of the purge; read after the command.
  const v1::PurgeRequest& written() const { return written_; }
  int counts() const { return counts_; }

  grpc::Status Purge(grpc::ServerContext* /*context*/, const v1::PurgeRequest* request,
                     v1::PurgeResponse* response) override {
    response->set_purged(1);
    response->set_previous_state(v1::RECORD_STATE_RELEASED);
    response->set_attempt(3);
    if (request->validate_only()) {
      ++counts_;
      return grpc::Status::OK;
    }
    written_ = *request;
    return outcome_;
  }

 private:
  const grpc::Status outcome_;
  int port_ = 0;
  int counts_ = 0;
  v1::PurgeRequest written_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ProgramTest, AQuestionWithoutAnAnswerChangesNothing) {
  const Purged service(grpc::Status::OK);
  const Result result = RunLine(absl::StrCat("purge ", kId, " --reason=r", service.address()));
  EXPECT_EQ(result.code, ExitCode::kNotConfirmed) << result.err;
  EXPECT_EQ(service.written().reason(), "");
}

// What a server cancels may have been done.
TEST(ProgramTest, ACancelledWriteIsAFailure) {
  const Purged service(grpc::Status(grpc::StatusCode::CANCELLED, "the daemon ends"));
  const Result result =
      RunLine(absl::StrCat("purge ", kId, " --reason=r --yes", service.address()));
  EXPECT_EQ(result.code, ExitCode::kFailed) << result.err;
}

TEST(ProgramTest, ARecordIsPurgedAsItWasCounted) {
  const Purged service(grpc::Status::OK);
  const Result result =
      RunLine(absl::StrCat("purge ", kId, " --reason=r --yes", service.address()));
  EXPECT_EQ(result.code, ExitCode::kDone) << result.err;
  EXPECT_EQ(service.written().expected_state(), v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(service.written().expected_attempt(), 3);
}

TEST(ProgramTest, APurgeOfManyIsNotCountedIfItIsNotWanted) {
  const Purged service(grpc::Status::OK);
  const std::string line = absl::StrCat(
      "purge --namespace=n --scope=s --tombstone=0s --reason=r --yes", service.address());
  EXPECT_EQ(RunLine(line).code, ExitCode::kDone);
  EXPECT_EQ(service.counts(), 1);
  const Result result = RunLine(absl::StrCat(line, " --no_count"));
  EXPECT_EQ(result.code, ExitCode::kDone) << result.err;
  EXPECT_EQ(result.out, "1 records are forgotten.\n");
  EXPECT_EQ(service.counts(), 1);
  EXPECT_EQ(service.written().scope().scope(), "s");
}

// A line that is run on a terminal, where the answer is no. What it wrote to stderr.
std::string AskedBy(const std::string& line) {
  int terminal = -1;
  int program = -1;
  EXPECT_EQ(openpty(&terminal, &program, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(write(terminal, "n\n", 2), 2);
  const File in(fdopen(program, "r"));
  const File out(std::tmpfile());
  const File err(std::tmpfile());
  Terminal streams({in.get(), out.get(), err.get()});
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  const std::vector<absl::string_view> args(words.begin(), words.end());
  EXPECT_EQ(RunProgram(args, streams), ExitCode::kNotConfirmed);
  close(terminal);
  return Content(err.get());
}

TEST(ProgramTest, TheQuestionOfAPurgeNamesItsTarget) {
  const Purged service(grpc::Status::OK);
  const std::string rest = absl::StrCat(" --reason=r", service.address());
  EXPECT_THAT(AskedBy(absl::StrCat("purge --namespace=shop --scope=t-1 --tombstone=1h", rest)),
              HasSubstr("Forget 1 records of the scope t-1 in the namespace shop (their keys are "
                        "refused for the time of --tombstone)?"));
  EXPECT_THAT(AskedBy(absl::StrCat("purge --namespace=shop --older_than=1h --tombstone=0s", rest)),
              ContainsRegex("of the namespace shop that were first reserved before 20.*Z \\(a late "
                            "retry of theirs will run again\\)"));
  EXPECT_THAT(
      AskedBy(absl::StrCat("purge --namespace=shop --scope=t-1 --operation=/a.B/C --key=k", rest)),
      HasSubstr("with the key k of /a.B/C, scope t-1, namespace shop ("));
  EXPECT_THAT(AskedBy(absl::StrCat("purge ", kId, rest)),
              HasSubstr(absl::StrCat("with the id ", kId, " (")));
  EXPECT_EQ(service.written().reason(), "");
}

// Two pages of one record each; the first `failures` requests of the second one get `failure`.
class Pages final : public v1::IdempotencyAdminService::Service {
 public:
  // With `damaged` records on each page that cannot be read.
  Pages(int failures, grpc::Status failure, int damaged = 0)
      : failures_(failures), failure_(std::move(failure)), damaged_(damaged) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.RegisterService(&root_);
    server_ = builder.BuildAndStart();
  }
  ~Pages() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat(" --address=127.0.0.1:", port_); }

  grpc::Status List(grpc::ServerContext* /*context*/, const v1::ListRequest* request,
                    v1::ListResponse* response) override {
    const bool second = request->page_token() == "second";
    if (second && failures_-- > 0) return failure_;
    v1::Record& record = *response->add_records();
    record.set_record_id(second ? "two" : "one");
    record.mutable_record_key()->set_key(second ? "key-2" : "key-1");
    if (!second) response->set_next_page_token("second");
    response->set_damaged(damaged_);
    return grpc::Status::OK;
  }
  grpc::Status ListAudit(grpc::ServerContext* /*context*/, const v1::ListAuditRequest* request,
                         v1::ListAuditResponse* response) override {
    const bool second = request->page_token() == "second";
    if (second && failures_-- > 0) return failure_;
    v1::AuditEntry& entry = *response->add_entries();
    entry.set_record_id(second ? "two" : "one");
    entry.set_sequence(second ? 1 : 2);
    if (!second) response->set_next_page_token("second");
    return grpc::Status::OK;
  }

 private:
  // Has every record.
  class Root final : public v1::IdempotencyService::Service {
   public:
    grpc::Status Get(grpc::ServerContext* /*context*/, const v1::GetRequest* /*request*/,
                     v1::GetResponse* response) override {
      response->mutable_record()->set_record_id(kId);
      response->mutable_record()->mutable_record_key()->set_namespace_("n");
      return grpc::Status::OK;
    }
  };

  Root root_;
  int failures_;
  const grpc::Status failure_;
  const int damaged_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

constexpr const char* kListings[] = {"list --namespace=n", "audit --namespace=n"};

TEST(ProgramTest, APageThatFailsOnceIsRequestedAgain) {
  for (const char* const line : kListings) {
    for (const grpc::Status& failure :
         {grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"),
          grpc::Status(grpc::StatusCode::CANCELLED, "the daemon ends"),
          ToGrpcStatus(MakeError(Reason::kOverloaded, "too much to do"))}) {
      const Pages service(/*failures=*/1, failure);
      const Result result = RunLine(absl::StrCat(line, service.address()));
      EXPECT_EQ(result.code, ExitCode::kDone) << line << result.err;
      EXPECT_THAT(result.out, AllOf(HasSubstr("one"), HasSubstr("two"))) << line;
    }
  }
}

TEST(ProgramTest, AListIsSearchedForAKeyOverAllPages) {
  for (const char* const form : {"", " --json"}) {
    const Pages service(/*failures=*/0, grpc::Status::OK);
    const Result result =
        RunLine(absl::StrCat("list --namespace=n --key=key-2 --limit=1", form, service.address()));
    EXPECT_EQ(result.code, ExitCode::kDone) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("two"), Not(HasSubstr("one")))) << form;
    EXPECT_EQ(result.err, "") << "the limit counts what matches";
  }
}

// An empty table would look as if there were no record of the key.
TEST(ProgramTest, RecordsThatCannotBeReadAreReported) {
  const Pages service(/*failures=*/0, grpc::Status::OK, /*damaged=*/1);
  for (const char* const line :
       {"list --namespace=n --key=key-3", "list --namespace=n --json", "stats --namespace=n"}) {
    const Result result = RunLine(absl::StrCat(line, service.address()));
    EXPECT_EQ(result.code, ExitCode::kDone) << line << result.err;
    EXPECT_THAT(result.err, HasSubstr("Not listed: 2 records that cannot be read")) << line;
  }
  const Result watch =
      RunLine(absl::StrCat("watch --namespace=n --listings=2 --interval=200ms", service.address()));
  EXPECT_EQ(watch.err, "Not listed: 2 records that cannot be read (RECORD_DAMAGED).\n") << "once";
  const Result tree = RunLine(absl::StrCat("tree ", kId, service.address()));
  EXPECT_EQ(tree.code, ExitCode::kDone) << tree.err;
  EXPECT_THAT(tree.err, HasSubstr("records that cannot be read"));
}

TEST(ProgramTest, WhatWasListedBeforeAFailureIsShown) {
  for (const char* const line : kListings) {
    const Pages service(/*failures=*/1'000, grpc::Status(grpc::StatusCode::INTERNAL, "broken"));
    const Result result = RunLine(absl::StrCat(line, service.address()));
    EXPECT_EQ(result.code, ExitCode::kFailed) << line;
    EXPECT_THAT(result.out, HasSubstr("one")) << line;
    EXPECT_THAT(result.err, HasSubstr("broken")) << line;
  }
}

// A service that does not have the fields `newest_first` and `record_id`.
class OldestFirst final : public v1::IdempotencyAdminService::Service {
 public:
  OldestFirst() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OldestFirst() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat(" --address=127.0.0.1:", port_); }

  grpc::Status ListAudit(grpc::ServerContext* /*context*/, const v1::ListAuditRequest* request,
                         v1::ListAuditResponse* response) override {
    const bool second = request->page_token() == "second";
    v1::AuditEntry& entry = *response->add_entries();
    entry.set_record_id(kId);
    entry.set_sequence(second ? 2 : 1);
    if (!second) response->set_next_page_token("second");
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ProgramTest, AnAuditLogInTheOrderOfAnOlderServerIsAFailure) {
  const OldestFirst service;
  const Result result = RunLine(absl::StrCat("audit --namespace=n", service.address()));
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_THAT(result.err, HasSubstr("is older than this program: its entries are oldest first"));
}

TEST(ProgramTest, AnEnvoyWhoseRequestsOutlastTheProcessorIsNoted) {
  const auto note = [](const std::string& deadline) {
    const Result result =
        RunLine("envoy-config --methods=a.B/C --upstream=a:1 --processor=127.0.0.1:1 --deadline=" +
                deadline);
    EXPECT_EQ(result.code, ExitCode::kDone) << result.err;
    return result.err;
  };
  EXPECT_THAT(note("1h"), IsEmpty());
  EXPECT_THAT(note("3h"), AllOf(HasSubstr("--connection_grace"), HasSubstr("to 3h or more")));
}

// A service with one record whose attempt was lost.
class LostAttempt final : public v1::IdempotencyAdminService::Service {
 public:
  explicit LostAttempt(absl::Duration content_for) : records_(content_for) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.RegisterService(&records_);
    server_ = builder.BuildAndStart();
  }
  ~LostAttempt() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat(" --address=127.0.0.1:", port_); }

  grpc::Status Resolve(grpc::ServerContext* /*context*/, const v1::ResolveRequest* /*request*/,
                       v1::ResolveResponse* response) override {
    response->set_state(v1::RECORD_STATE_COMPLETED);
    return grpc::Status::OK;
  }

 private:
  class Records final : public v1::IdempotencyService::Service {
   public:
    explicit Records(absl::Duration content_for) : content_for_(content_for) {}
    grpc::Status Get(grpc::ServerContext* /*context*/, const v1::GetRequest* /*request*/,
                     v1::GetResponse* response) override {
      v1::Record& record = *response->mutable_record();
      record.set_record_id(kId);
      record.set_state(v1::RECORD_STATE_UNKNOWN);
      ToWire(absl::Now() + content_for_, *record.mutable_reply_expires_at());
      return grpc::Status::OK;
    }

   private:
    const absl::Duration content_for_;
  };

  Records records_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The store answers OK, and gives the reply to nobody.
TEST(ProgramTest, AReplyThatIsNotKeptIsNotedBeforeItIsGiven) {
  const auto note = [](absl::Duration content_for, const std::string& reply) {
    const LostAttempt service(content_for);
    const Result result = RunLine(absl::StrCat("resolve ", kId, " --outcome=", reply,
                                               " --reason=r --dry_run", service.address()));
    EXPECT_EQ(result.code, ExitCode::kDone) << result.err;
    return result.err;
  };
  const std::string ok = "completed --body_file=/dev/null";
  EXPECT_THAT(note(-absl::Hours(2), ok), AllOf(HasSubstr("(2h ago)"), HasSubstr("REPLY_NOT_KEPT")));
  EXPECT_EQ(note(absl::Hours(2), ok), "");
  EXPECT_THAT(note(-absl::Hours(2), "released"), Not(HasSubstr("REPLY_NOT_KEPT")));
}

TEST(ProgramTest, AFileWithoutAnEndIsRefused) {
  const Result endless = RunLine(absl::StrCat(
      "resolve ", kId, kNowhere, " --outcome=completed --reason=r --body_file=/dev/zero"));
  EXPECT_EQ(endless.code, ExitCode::kFailed);
  EXPECT_THAT(endless.err, HasSubstr("--body_file=/dev/zero has more than"));
  const Result none = RunLine(absl::StrCat("resolve ", kId, kNowhere,
                                           " --outcome=completed --reason=r --body_file=/no/file"));
  EXPECT_THAT(none.err, HasSubstr("cannot be read"));
}

TEST(ProgramTest, EveryCommandDescribesItsFlags) {
  const Result overview = RunLine("--help");
  EXPECT_EQ(overview.code, ExitCode::kDone);
  for (const std::unique_ptr<Command>& command : NewCommands()) {
    EXPECT_THAT(overview.out, HasSubstr(absl::StrCat("idempotencyctl ", command->name())));
    const Result help = RunLine(absl::StrCat(command->name(), " --help"));
    EXPECT_EQ(help.code, ExitCode::kDone);
    for (const FlagSet::Description& flag : CommandFlags(*command).set().Describe()) {
      EXPECT_THAT(help.out, HasSubstr(absl::StrCat("  --", flag.name)));
    }
    EXPECT_EQ(help.out.find('\x1b'), std::string::npos);
  }
}

TEST(ProgramTest, TheManualAndEveryCompletionHaveAllCommandsAndFlags) {
  for (const char* line : {"manual-page", "completion bash", "completion zsh", "completion fish"}) {
    const Result result = RunLine(line);
    ASSERT_EQ(result.code, ExitCode::kDone);
    const std::string text = absl::StrReplaceAll(result.out, {{"\\-", "-"}});
    for (const std::unique_ptr<Command>& command : NewCommands()) {
      const std::vector<std::string> words = absl::StrSplit(command->name(), ' ');
      EXPECT_THAT(text, HasSubstr(words.back())) << line;
      for (const FlagSet::Description& flag : CommandFlags(*command).set().Describe()) {
        EXPECT_THAT(text, HasSubstr(flag.name)) << line;
      }
    }
  }
}

// What bash offers for a line, by the completion script.
std::string BashOffers(const std::string& words, int word) {
  const testing::TempFolder folder;
  const std::string script = folder.File("completion");
  const File file(std::fopen(script.c_str(), "w"));
  std::fputs(RunLine("completion bash").out.c_str(), file.get());
  std::fflush(file.get());
  const std::string command =
      absl::StrCat("bash -c 'set -u; source ", script, "; COMP_WORDS=(", words,
                   ") COMP_CWORD=", word, "; _idempotencyctl; echo \"${COMPREPLY[@]}\"'");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 65536> line{};
  return std::fgets(line.data(), line.size(), pipe.get()) == nullptr ? "" : line.data();
}

TEST(ProgramTest, BashCompletes) {
  EXPECT_EQ(BashOffers("idempotencyctl re", 1), "resolve\n");
  EXPECT_EQ(BashOffers("idempotencyctl keyring ge", 2), "generate\n");
  EXPECT_EQ(BashOffers("idempotencyctl list --sta", 2), "--state=\n");
  EXPECT_EQ(BashOffers("idempotencyctl keyring check --fi", 3), "--file=\n");
  EXPECT_EQ(BashOffers("idempotencyctl completion f", 2), "fish\n");
  // A file's name, where there is one to give, and nothing for other values.
  EXPECT_EQ(BashOffers("idempotencyctl list --tls_ca = /etc/hostn", 4), "/etc/hostname\n");
  EXPECT_EQ(BashOffers("idempotencyctl list --namespace = a", 4), "\n");
}

TEST(ProgramTest, KeyRingsAreMadeAndChecked) {
  const testing::TempFolder folder;
  const std::string flag = absl::StrCat(" --file=", folder.File("ring"));
  const Result made = RunLine("keyring generate" + flag);
  EXPECT_EQ(made.code, ExitCode::kDone) << made.err;
  EXPECT_THAT(made.out, ContainsRegex("added key [1-9][0-9]* to "));
  EXPECT_EQ(RunLine("keyring generate --seals_in=2h" + flag).code, ExitCode::kDone);
  const Result checked = RunLine("keyring check" + flag);
  EXPECT_EQ(checked.code, ExitCode::kDone) << checked.err;
  EXPECT_EQ(std::count(checked.out.begin(), checked.out.end(), '\n'), 2) << checked.out;
  EXPECT_EQ(RunLine("keyring check --file=/no/such/ring").code, ExitCode::kFailed);
}

TEST(ProgramTest, TheEnvironmentSetsDefaults) {
  setenv("IDEMPOTENCYCTL_ADDRESS", "10.0.0.1:7411", 1);
  const Result result = RunLine(absl::StrCat("get ", kId));
  unsetenv("IDEMPOTENCYCTL_ADDRESS");
  EXPECT_THAT(result.err, HasSubstr("10.0.0.1:7411 is another machine"));
}

}  // namespace
}  // namespace idempotency::internal
