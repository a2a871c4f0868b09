#include "server/process/metrics_exposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>

#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "tests/support/raw_connection.h"

namespace idempotency::internal {
namespace {

using ::idempotency::internal::testing::RawConnection;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kAll = 1 << 30;
constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

class MetricsExposerTest : public ::testing::Test {
 protected:
  void Start(const MetricsExposer::Limits& limits = {}) {
    exposer_ =
        MetricsExposer::Start(*NetworkAddress::Parse("127.0.0.1:0"), registry_, limits, observer_)
            .value();
    address_ = exposer_->address().ToString();
  }
  std::string Ask(const std::string& request) {
    RawConnection connection(address_);
    return connection.Send(request) ? connection.Receive(kAll) : "";
  }
  // A page that exceeds the buffers of a connection whose client does not read.
  void MakeThePageLarge() {
    auto& family = prometheus::BuildCounter().Name("large").Help("help").Register(*registry_);
    for (int i = 0; i < 64; ++i) {
      family.Add({{"label", std::string(128 * 1024, static_cast<char>('0' + i))}});
    }
  }

  Observer observer_;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::unique_ptr<MetricsExposer> exposer_;
  std::string address_;
};

TEST_F(MetricsExposerTest, AnswersAsHttpDoes) {
  prometheus::BuildCounter().Name("calls").Help("help").Register(*registry_).Add({}).Increment();
  Start();
  EXPECT_THAT(Ask(kGet),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("Content-Type: text/plain; version=0.0.4"), EndsWith("calls 1\n")));
  EXPECT_THAT(Ask("GET /metrics?x=y HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask("HEAD /metrics HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(MetricsExposerTest, SlowClientsDelayNoOthers) {
  MakeThePageLarge();
  Start();
  std::vector<RawConnection> slow;
  for (int i = 0; i < 3; ++i) {
    // A client that does not read its page, and one that never ends its request.
    slow.emplace_back(address_);
    slow.back().KeepFewBytes();
    ASSERT_TRUE(slow.back().Send(kGet));
    slow.emplace_back(address_);
    ASSERT_TRUE(slow.back().Send("GET /metrics HTTP/1.1\r\n"));
  }
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(MetricsExposerTest, TheOldestEndsWhenThereAreTooMany) {
  Start({2, absl::Hours(1)});
  RawConnection first(address_);
  ASSERT_TRUE(first.Send("GET "));
  RawConnection second(address_);
  RawConnection third(address_);
  EXPECT_TRUE(first.AwaitClose());
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
}

// Its page is not made before the test allows it.
class HeldRegistry final : public prometheus::Registry {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    MutexLock lock(mutex_);
    collecting_ = true;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(lock);
    return {};
  }
  void AwaitCollecting() {
    MutexLock lock(mutex_);
    while (!collecting_) changed_.Wait(lock);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable bool collecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_F(MetricsExposerTest, TheOldestThatWaitsEndsWhenThereAreTooMany) {
  const auto held = std::make_shared<HeldRegistry>();
  registry_ = held;
  Start({2, absl::Hours(1)});
  RawConnection scraped(address_);
  ASSERT_TRUE(scraped.Send(kGet));
  held->AwaitCollecting();
  RawConnection oldest(address_);
  const RawConnection second(address_);
  const RawConnection third(address_);
  EXPECT_TRUE(oldest.AwaitClose());
  held->Open();
}

TEST_F(MetricsExposerTest, AConnectionEndsAfterItsTimeout) {
  MakeThePageLarge();
  Start({100, absl::Milliseconds(50)});
  RawConnection idle(address_);
  EXPECT_TRUE(idle.AwaitClose());
  RawConnection slow(address_);
  slow.KeepFewBytes();
  ASSERT_TRUE(slow.Send(kGet));
  EXPECT_TRUE(slow.AwaitReset());
}

TEST_F(MetricsExposerTest, ARequestThatDoesNotEndIsCutOff) {
  Start();
  RawConnection connection(address_);
  connection.Send(std::string(64 * 1024, 'x'));
  EXPECT_TRUE(connection.AwaitClose());
}

}  // namespace
}  // namespace idempotency::internal
