#include "tests/conformance/wire_harness.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/memory_harness.h"
#include "tests/conformance/sqlite_harness.h"

namespace idempotency::internal {
namespace {

using Kind = WireService::Kind;

std::string Prefix(Kind kind) {
  switch (kind) {
    case Kind::kSession:
      return "SessionOver";
    case Kind::kUnary:
      return "UnaryOver";
    case Kind::kDirect:
      break;
  }
  return "DirectOver";
}

}  // namespace

WireHarness::WireHarness(std::unique_ptr<StoreHarness> behind, WireService::Kind kind)
    : behind_(std::move(behind)), kind_(kind) {
  wire_.emplace(behind_->store(), kind_);
}

WireHarness::~WireHarness() { Disconnect(); }

absl::Status WireHarness::Reopen() {
  Disconnect();
  if (absl::Status opened = behind_->Reopen(); !opened.ok()) return opened;
  wire_.emplace(behind_->store(), kind_);
  return absl::OkStatus();
}

void WireHarness::Disconnect() {
  if (!wire_.has_value()) return;
  const StoreBehind::Totals marked = wire_->marked.Tally();
  const CountingObserver::Counts counted = wire_->service.observer().counts();
  EXPECT_EQ(counted.take_overs, marked.took_over);
  EXPECT_EQ(counted.retries_after_expiry, marked.after_expiry);
  EXPECT_EQ(counted.repeated_grants, marked.repeated);
  EXPECT_EQ(counted.marked_unknown, marked.marked_unknown);
  EXPECT_EQ(counted.lease_overruns, marked.lease_overruns);
  // A session that fell back to unary calls would try those twice.
  EXPECT_EQ(counted.frames_received > 0, kind_ == Kind::kSession && counted.rpcs > 0);
  wire_.reset();
}

namespace {

StoreUnderTest Over(Kind kind, StoreUnderTest behind) {
  StoreUnderTest wire = behind;
  wire.name = Prefix(kind) + behind.name;
  wire.make = [kind, make = behind.make]() -> absl::StatusOr<std::unique_ptr<StoreHarness>> {
    absl::StatusOr<std::unique_ptr<StoreHarness>> made = make();
    if (!made.ok()) return made.status();
    return std::make_unique<WireHarness>(*std::move(made), kind);
  };
  wire.keeps_checkpoint_because = "ExtendRequest.checkpoint has no presence: empty is none";
  wire.repeats_because = "the batcher gives the store again what it left";
  wire.refuses_controls_because = "labels are read on terminals and in logs";
  wire.refuses_repeated_versions_because = "the digests may contradict each other";
  // Each of them is a round trip, and other suites have tested the store's decisions.
  wire.racing_reservations = 6'000;
  wire.random_operations = 2'000;
  return wire;
}

}  // namespace

std::vector<StoreUnderTest> StoresUnderTest() {
  const StoreUnderTest memory = {"Memory", MemoryHarness::Make, MemoryHarness::kForgetsBecause};
  const StoreUnderTest sqlite = {"Sqlite", SqliteHarness::Make};
  return {Over(Kind::kSession, memory), Over(Kind::kUnary, memory), Over(Kind::kDirect, memory),
          Over(Kind::kSession, sqlite)};
}

}  // namespace idempotency::internal
