#include "server/store/lost_reservation.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

TEST(LostReservationTest, EveryCauseHasItsNameAndItsText) {
  const std::vector<std::pair<LossCause, std::string>> causes = {
      {LossCause::kRecordExpired, "RECORD_EXPIRED"},
      {LossCause::kSuperseded, "SUPERSEDED"},
      {LossCause::kReleased, "RELEASED"},
      {LossCause::kCompleted, "COMPLETED"},
      {LossCause::kOutcomeUnknown, "OUTCOME_UNKNOWN"}};
  std::set<std::string> texts;
  for (const auto& [cause, name] : causes) {
    const absl::Status status = ReservationLostBecause(cause);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), Reason::kReservationLost);
    EXPECT_EQ(DetailsOf(status).metadata.at("cause"), name);
    EXPECT_EQ(LossCauseOf(status), cause);
    EXPECT_TRUE(texts.insert(std::string(status.message())).second) << status;
  }
}

TEST(LostReservationTest, WithoutACauseItIsUnknown) {
  EXPECT_EQ(LossCauseOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(LossCauseOf(MakeError(Reason::kReservationLost, "lost")), std::nullopt);
  ErrorDetails later;
  later.metadata["cause"] = "OF_A_LATER_VERSION";
  EXPECT_EQ(LossCauseOf(MakeError(Reason::kReservationLost, "lost", later)), std::nullopt);
  later.metadata["cause"] = "RELEASED";
  EXPECT_EQ(LossCauseOf(MakeError(Reason::kInFlight, "runs", later)), std::nullopt);
}

}  // namespace
}  // namespace idempotency::internal
