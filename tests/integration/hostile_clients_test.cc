// Clients of idempotencyd with invalid messages: they take no more of its memory than others.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/daemon_process.h"
#include "tests/support/raw_calls.h"
#include "tests/support/service_client.h"
#include "tests/support/sqlite_write_lock.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::AnyOf;

constexpr std::chrono::seconds kInTime(60);
// AddressSanitizer keeps 256 MiB of freed memory, unless it is set otherwise.
class LittleFreedMemory : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const set = std::getenv("ASAN_OPTIONS");
    const std::string options = absl::StrCat(set == nullptr ? "" : set, ":quarantine_size_mb=16");
    ASSERT_EQ(setenv("ASAN_OPTIONS", options.c_str(), /*overwrite=*/1), 0);
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new LittleFreedMemory);

// The peak memory of the process.
std::size_t PeakBytes(int pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    std::size_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  ADD_FAILURE() << "the kernel does not say";
  return 0;
}

// A session of `frames`, byte for byte, until it ends.
grpc::Status SendFrames(const std::string& address, const std::vector<std::string>& frames) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return StreamRaw(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()), context,
                   "/idempotency.v1.IdempotencyService/Session", frames);
}

std::string Repeated(std::string_view bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

// Two bytes on the wire are an operation, or a field. Each of these frames would take
// more than two gigabytes.
TEST(HostileFrames, TakeNoMoreMemoryThanOthers) {
  constexpr std::size_t kMostBytes = 512 * 1024 * 1024;
  TempFolder folder;
  DaemonProcess daemon("sqlite:" + folder.File("records.db"));
  const std::vector<std::string> frames = {
      // operations { } ...
      Repeated(std::string_view("\x0a\x00", 2), 2'000'000),
      // Groups with an unknown number.
      Repeated("\x7b\x7c", 7'000'000),
  };
  const std::size_t before = PeakBytes(daemon.process().pid());
  for (const std::string& frame : frames) {
    const grpc::Status status = SendFrames(daemon.address(), {frame});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
    EXPECT_NE(status.error_message(), "");
  }
  EXPECT_LT(PeakBytes(daemon.process().pid()) - before, kMostBytes);
}

// A message of zeros, which takes a thousandth of its size when it is compressed.
grpc::ByteBuffer Zeros(std::size_t megabytes) {
  const std::vector<grpc::Slice> slices(megabytes, grpc::Slice(std::string(1024 * 1024, '\0')));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::Status CallCompressed(const std::string& address, const char* method,
                            const grpc::ByteBuffer& message) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  grpc::ByteBuffer response;
  return CallRaw(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()), context, method,
                 message, response);
}

// gRPC inflates a message before a service sees it, and compares its compressed size alone with the
// maximum.
TEST(HostileRequests, ThatAreCompressedAreNotInflated) {
  constexpr std::size_t kMegabytes = 128;
  constexpr std::size_t kMostBytes = 64 * 1024 * 1024;
  TempFolder folder;
  DaemonProcess daemon("sqlite:" + folder.File("records.db"));
  const std::size_t before = PeakBytes(daemon.process().pid());
  const grpc::ByteBuffer message = Zeros(kMegabytes);
  for (const char* const method :
       {"/idempotency.v1.IdempotencyService/Session", "/idempotency.v1.IdempotencyService/Reserve",
        "/grpc.health.v1.Health/Check", "/none/Such"}) {
    const grpc::Status status = CallCompressed(daemon.address(), method, message);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  EXPECT_LT(PeakBytes(daemon.process().pid()) - before, kMostBytes);
}

// Elements of two bytes on the wire: fingerprints, unknown groups, entries of metadata, messages of
// a stream.
std::vector<std::string> WideRequests() {
  constexpr int kElements = 6'000'000;
  const auto in_reply = [](const std::string& fields) {
    std::string length;
    for (std::size_t left = fields.size(); left > 0; left >>= 7) {
      length.push_back(static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
    }
    return absl::StrCat("\x1a", length, fields);
  };
  return {
      Repeated(std::string_view("\x12\x00", 2), kElements),
      Repeated("\x7b\x7c", kElements),
      in_reply(Repeated(std::string_view("\x32\x00", 2), kElements)),
      in_reply(Repeated(std::string_view("\x4a\x00", 2), kElements)),
  };
}

TEST(HostileRequests, TakeNoMoreMemoryThanOthers) {
  constexpr std::size_t kMostBytes = 192 * 1024 * 1024;
  TempFolder folder;
  DaemonProcess daemon("sqlite:" + folder.File("records.db"));
  const ServiceClient client(daemon.address());
  const std::size_t before = PeakBytes(daemon.process().pid());
  for (const std::string& request : WideRequests()) {
    for (const char* const method : {"Reserve", "Complete", "Release", "Extend", "Get"}) {
      const absl::Status refused = client.CallRaw(method, request);
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << method << ": " << refused;
      EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid) << method;
    }
  }
  EXPECT_LT(PeakBytes(daemon.process().pid()) - before, kMostBytes);
}

// Each of them is a megabyte, and thirty once parsed. While the store has not answered, the daemon
// keeps only the operation of each.
TEST(HostileRequests, AreNotKeptWhileTheyWaitForTheStore) {
  constexpr std::size_t kMostBytes = 384 * 1024 * 1024;
  constexpr int kCallers = 40;
  TempFolder folder;
  const std::string file = folder.File("records.db");
  DaemonProcess daemon("sqlite:" + file, {"--queue_mib=32"});
  const ServiceClient client(daemon.address());
  v1::CompleteRequest request = SomeComplete("key", Uuid::Random().ToString(), "");
  for (int i = 0; i < 500'000; ++i) request.mutable_reply()->add_stream();
  const std::string sent = request.SerializeAsString();
  const auto call = [&] {
    return ReasonOf(client.CallRaw("Complete", sent, 2 * kInTime))
        .value_or(Reason::kRequestInvalid);
  };
  const std::size_t before = PeakBytes(daemon.process().pid());
  std::promise<void> full;
  std::atomic<bool> is_full{false};
  std::vector<std::future<Reason>> calls;
  {
    // Every store call of the daemon fails.
    const SqliteWriteLock held(file);
    for (int i = 0; i < kCallers; ++i) {
      calls.push_back(std::async(std::launch::async, [&] {
        // On a busy machine the first ones fail before the last ones arrive.
        Reason reason = call();
        while (reason == Reason::kStoreUnavailable && !is_full) reason = call();
        if (reason == Reason::kOverloaded && !is_full.exchange(true)) full.set_value();
        return reason;
      }));
    }
    EXPECT_EQ(full.get_future().wait_for(kInTime), std::future_status::ready)
        << "they weigh more than there is";
    is_full = true;
  }
  for (std::future<Reason>& reason : calls) {
    EXPECT_THAT(reason.get(),
                AnyOf(Reason::kOverloaded, Reason::kReservationLost, Reason::kStoreUnavailable));
  }
  EXPECT_LT(PeakBytes(daemon.process().pid()) - before, kMostBytes);
  // The daemon is unaffected.
  EXPECT_EQ(call(), Reason::kReservationLost);
  EXPECT_TRUE(client.Call(SomeReserve("another")).ok());
}

}  // namespace
}  // namespace idempotency::internal::testing
