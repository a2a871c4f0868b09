#include "grpc_idempotency/embedded/embedded_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "grpc_idempotency/embedded/service_metrics.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/store/testing/operations.h"
#include "server/testing/counting_observer.h"
#include "tests/support/forgotten_records.h"
#include "tests/support/raw_calls.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using Counts = CountingObserver::Counts;

class MetricsOf final : public ServiceMetrics {
 public:
  explicit MetricsOf(Observer& observer) : ServiceMetrics(observer) {}
};

class EmbeddedServiceTest : public ::testing::Test {
 protected:
  std::string address() const { return "sqlite:" + folder_.File("records.db"); }

  void Open(const EmbeddedOptions& options = {}) {
    auto opened = EmbeddedService::Open(address(), options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    service_ = *std::move(opened);
    stub_ = v1::IdempotencyService::NewStub(service_->channel());
  }

  static v1::ReserveRequest RequestFor(std::string_view name) {
    v1::ReserveRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed(name));
    *request.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, 'a')});
    request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
    return request;
  }
  absl::StatusOr<v1::ReserveResponse> Reserve(const v1::ReserveRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::ReserveResponse response;
    const grpc::Status status = stub_->Reserve(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }
  grpc::Status Complete(std::string_view name, const std::string& token, const std::string& body) {
    v1::CompleteRequest request;
    *request.mutable_record_key() = ToProto(KeyNamed(name));
    request.set_reservation_token(token);
    request.mutable_reply()->set_body(body);
    grpc::ClientContext context;
    v1::CompleteResponse response;
    return stub_->Complete(&context, request, &response);
  }

  testing::TempFolder folder_;
  std::unique_ptr<EmbeddedService> service_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

// Threads of this process with that name.
std::size_t ThreadsNamed(std::string_view name) {
  std::size_t threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string found;
    std::getline(comm, found);
    threads += found == name ? 1 : 0;
  }
  return threads;
}

// Sockets of this process that listen.
std::size_t Listening() {
  std::set<std::string> listening;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (columns.size() > 9 && columns[3] == "0A") {
        listening.insert(absl::StrCat("socket:[", columns[9], "]"));
      }
    }
  }
  std::size_t ours = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    ours += listening.count(std::filesystem::read_symlink(entry.path(), error).string());
  }
  return ours;
}

TEST_F(EmbeddedServiceTest, WatchesForUnreadAnswersFromTheFirstCallOn) {
  Open();
  EXPECT_EQ(ThreadsNamed("answer-watch"), 0u);
  for (const char* const key : {"one", "two"}) {
    ASSERT_TRUE(Reserve(RequestFor(key)).ok());
    // The thread gives itself its name.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ThreadsNamed("answer-watch") == 0 && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_EQ(ThreadsNamed("answer-watch"), 1u);
  }
  stub_.reset();
  service_.reset();
  EXPECT_EQ(ThreadsNamed("answer-watch"), 0u);
}

TEST_F(EmbeddedServiceTest, ReservesCompletesAndReplaysWithoutAPort) {
  Open();
  EXPECT_TRUE(service_->store_status().ok());
  const auto first = Reserve(RequestFor("one"));
  ASSERT_TRUE(first.ok() && first->has_reserved()) << first.status();
  ASSERT_TRUE(Complete("one", first->reserved().reservation_token(), "done").ok());
  EXPECT_EQ(Reserve(RequestFor("one"))->replay().reply().body(), "done");
  EXPECT_EQ(Listening(), 0u);
}

TEST_F(EmbeddedServiceTest, RecordsOutliveIt) {
  Open();
  const auto first = Reserve(RequestFor("one"));
  ASSERT_TRUE(Complete("one", first->reserved().reservation_token(), "done").ok());
  service_.reset();
  Open();
  EXPECT_EQ(Reserve(RequestFor("one"))->replay().reply().body(), "done");
}

TEST_F(EmbeddedServiceTest, RepliesOfTheLargestSizeGoThrough) {
  Open();
  const auto first = Reserve(RequestFor("large"));
  const std::string body(limits::kMaxReplyBytes - 64, 'x');
  ASSERT_TRUE(Complete("large", first->reserved().reservation_token(), body).ok());
  const auto replay = Reserve(RequestFor("large"));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->replay().reply().body(), body);
}

TEST_F(EmbeddedServiceTest, TheFileBelongsToOneServiceAtATime) {
  Open();
  const auto second = EmbeddedService::Open(address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("is locked"));
  service_.reset();
  EXPECT_TRUE(EmbeddedService::Open(address()).ok());
}

TEST_F(EmbeddedServiceTest, ReportsTheFaultOfTheAddress) {
  struct Case {
    std::string store;
    absl::StatusCode code;
    std::string text;
  };
  const Case cases[] = {
      {"", absl::StatusCode::kInvalidArgument, "sqlite:PATH or postgresql://"},
      {"/var/lib/records.db", absl::StatusCode::kInvalidArgument, "sqlite:PATH"},
      {"memory:", absl::StatusCode::kInvalidArgument, "a store in memory is not supported"},
      {"sqlite:", absl::StatusCode::kInvalidArgument, "has no path"},
      {"sqlite:" + folder_.File("no/such/folder.db"), absl::StatusCode::kInvalidArgument,
       "does not exist; create it first"},
  };
  for (const Case& c : cases) {
    const auto service = EmbeddedService::Open(c.store);
    EXPECT_EQ(service.status().code(), c.code) << c.store << ": " << service.status();
    EXPECT_THAT(std::string(service.status().message()), HasSubstr(c.text));
  }
}

TEST_F(EmbeddedServiceTest, NamesAnOptionOutOfItsRange) {
  const auto message_for = [this](const EmbeddedOptions& options) {
    const auto service = EmbeddedService::Open(address(), options);
    EXPECT_EQ(service.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(service.status().message());
  };
  EmbeddedOptions options;
  options.store_connections = 0;
  EXPECT_EQ(message_for(options), "store_connections must be 1 to 64");
  options = {};
  options.sweep_interval = absl::Milliseconds(99);
  EXPECT_EQ(message_for(options), "sweep_interval must be 100ms to 24h");
  options = {};
  options.accept_empty = true;
  EXPECT_EQ(message_for(options),
            "accept_empty is for Redis: redis://...; a Postgres schema needs migrate");
  EXPECT_FALSE(std::filesystem::exists(folder_.File("records.db")));
}

TEST_F(EmbeddedServiceTest, SweepsWatchesAndNotifiesTheObserver) {
  CountingObserver observer;
  MetricsOf metrics(observer);
  EmbeddedOptions options;
  options.metrics = &metrics;
  options.sweep_interval = absl::Milliseconds(100);
  testing::WriteForgottenRecords(folder_.File("records.db"), 1);
  Open(options);
  ASSERT_TRUE(Reserve(RequestFor("live")).ok());
  EXPECT_EQ(observer.counts().verdicts, 1u);
  EXPECT_TRUE(observer.Await(&Counts::swept, 1));
  EXPECT_GE(observer.counts().inspections, 2u);
  service_.reset();
}

TEST_F(EmbeddedServiceTest, IsCountedForPrometheus) {
  ServiceMetrics metrics;
  EmbeddedOptions options;
  options.metrics = &metrics;
  Open(options);
  ASSERT_TRUE(Reserve(RequestFor("counted")).ok());
  service_.reset();
  double reserved = 0;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != "idempotency_verdicts_total") continue;
    for (const prometheus::ClientMetric& verdict : family.metric) {
      reserved += verdict.counter.value;
    }
  }
  EXPECT_EQ(reserved, 1);
}

// A caller that waits for a running attempt gets an answer, not an error, and does not delay the
// end.
TEST_F(EmbeddedServiceTest, ItsEndAnswersThoseWhoWait) {
  CountingObserver observer;
  MetricsOf metrics(observer);
  EmbeddedOptions options;
  options.metrics = &metrics;
  Open(options);
  ASSERT_TRUE(Reserve(RequestFor("held"))->has_reserved());
  absl::StatusOr<v1::ReserveResponse> answer;
  std::thread waiting([&] {
    v1::ReserveRequest request = RequestFor("held");
    request.mutable_max_wait()->set_seconds(60);
    answer = Reserve(request);
  });
  ASSERT_TRUE(observer.Await(&Counts::waiters, 1));
  const auto start = std::chrono::steady_clock::now();
  service_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  waiting.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->has_in_flight());
}

// The stub outlives the service.
TEST_F(EmbeddedServiceTest, AChannelThatOutlivesItOnlyFails) {
  Open();
  service_.reset();
  EXPECT_EQ(ReasonOf(Reserve(RequestFor("late")).status()), Reason::kStoreUnavailable);
  v1::ReserveRequest waiting = RequestFor("late");
  waiting.mutable_max_wait()->set_seconds(60);
  EXPECT_EQ(ReasonOf(Reserve(waiting).status()), Reason::kStoreUnavailable);
}

// Calls at every stage while it ends: each has an answer, and every acknowledged operation is
// stored afterwards.
TEST_F(EmbeddedServiceTest, ItsEndCutsOffNoCall) {
  constexpr int kCallers = 4;
  CountingObserver observer;
  MetricsOf metrics(observer);
  EmbeddedOptions options;
  options.metrics = &metrics;
  for (int round = 0; round < 5; ++round) {
    Open(options);
    std::vector<std::vector<std::string>> granted(kCallers);
    std::atomic<int> grants{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        for (int n = 0;; ++n) {
          const std::string name = absl::StrCat(round, "-", c, "-", n);
          const auto answer = Reserve(RequestFor(name));
          if (!answer.ok()) {
            EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
            return;
          }
          granted[c].push_back(name);
          ++grants;
        }
      });
    }
    while (grants < 40) std::this_thread::yield();
    service_.reset();
    for (std::thread& caller : callers) caller.join();
    stub_.reset();
    Open(options);
    for (const auto& of_caller : granted) {
      for (const std::string& name : of_caller) {
        EXPECT_TRUE(Reserve(RequestFor(name))->has_in_flight()) << name;
      }
    }
    service_.reset();
    stub_.reset();
  }
}

TEST_F(EmbeddedServiceTest, ARequestThatCannotBeReadHasAReason) {
  Open();
  const grpc::Status status = testing::CallRaw(
      service_->channel(), "/idempotency.v1.IdempotencyService/Reserve", "\xff\xff\xff");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid) << status.error_message();
}

}  // namespace
}  // namespace idempotency::internal
