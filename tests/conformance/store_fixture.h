#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_STORE_FIXTURE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_STORE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/store.h"
#include "server/store/verdict.h"
#include "tests/conformance/store_harness.h"

namespace idempotency::internal {

inline absl::Status PlainStatus(const absl::Status& status) { return status; }
template <typename T>
absl::Status PlainStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P(FailsWith, reason, "") {
  const absl::Status status = PlainStatus(arg);
  *result_listener << "is " << status.ToString();
  return ReasonOf(status) == reason;
}

MATCHER(Succeeds, "") {
  const absl::Status status = PlainStatus(arg);
  *result_listener << "is " << status.ToString();
  return status.ok();
}

// "Reserved", "Replay", … or the reason of the error.
std::string NameOf(const absl::StatusOr<Verdict>& verdict);

// Every field, to compare and to print.
std::string Describe(const absl::StatusOr<Record>& record);

// A fresh store for each test, and single calls on it.
class StoreTest : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void SetUp() override;

  Store& store() { return harness_->store(); }
  StoreHarness& harness() { return *harness_; }
  absl::Time Now() { return harness_->Now(); }
  void Advance(absl::Duration duration) { harness_->Advance(duration); }

  // A reservation under TAKE_OVER with an opaque key and a fingerprint, and every default
  // otherwise.
  static ReserveOp OpFor(const std::string& key);
  // A key that was made at `time`.
  static std::string KeyMadeAt(absl::Time time) { return Uuid::TimeOrdered(time).ToString(); }
  static Fingerprint Print(std::uint32_t version, char digest);
  // Two names whose SHA-256 begin with the same four bytes.
  static std::pair<std::string, std::string> NamesOfOneHash() {
    return {"tenant-39588", "tenant-67738"};
  }
  static EncodedReply ReplyWith(const std::string& body);

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op);
  absl::StatusOr<Completion> Complete(const ReserveOp& of, const Uuid& token,
                                      const std::string& body = "paid");
  absl::Status Release(const ReserveOp& of, const Uuid& token, bool outcome_unknown = false,
                       absl::Duration pause = absl::ZeroDuration());
  absl::StatusOr<Extension> Extend(const ReserveOp& of, const Uuid& token, absl::Duration lease,
                                   std::optional<std::string> checkpoint = std::nullopt);
  absl::StatusOr<Record> Get(const ReserveOp& of);

  // The verdict, which must be a T; otherwise the test fails and it is empty.
  template <typename T>
  T Expect(const absl::StatusOr<Verdict>& verdict) {
    if (verdict.ok() && std::holds_alternative<T>(*verdict)) return std::get<T>(*verdict);
    ADD_FAILURE() << "the verdict is " << NameOf(verdict);
    return T();
  }
  Reserved MustReserve(const ReserveOp& op) { return Expect<Reserved>(Reserve(op)); }
  // The record must exist.
  Record MustGet(const ReserveOp& of);
  // The fingerprints of the record are those of `op`, as this store keeps them.
  void ExpectFingerprints(const Record& record, const ReserveOp& op);
  // A whole pass, `limit` records at a time.
  SweepProgress SweepAll(int limit = 1000);

 private:
  std::unique_ptr<StoreHarness> harness_;
};

inline std::string StoreName(const ::testing::TestParamInfo<StoreUnderTest>& parameter) {
  return parameter.param.name;
}

// Runs a suite over the stores of this binary that have it.
#define IDEMPOTENCY_FOR_EVERY_STORE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Stores, Suite, ::testing::ValuesIn(StoresUnder(#Suite)), StoreName)

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_STORE_FIXTURE_H_
