#include "interceptors/server/policy/unknown_outcome.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace idempotency::internal {
namespace {

UnknownOutcome ChosenBy(MethodPolicy::OnUnknownOutcome choice) {
  return choice == MethodPolicy::OnUnknownOutcome::kTakeOver ? UnknownOutcome::kRunAgain
                                                             : UnknownOutcome::kRecover;
}

std::string DescribeRunningAgain(const MethodPolicy& policy, const std::string& what) {
  return absl::StrCat("after a crash ", what, " when the lease is over (",
                      absl::FormatDuration(policy.lease),
                      "); after a failure that is not recorded ", what, " after a pause (",
                      absl::FormatDuration(kFirstReleasePause), " to ",
                      absl::FormatDuration(kLongestReleasePause), ")");
}

}  // namespace

std::optional<UnknownOutcome> ChosenUnknownOutcome(const MethodPolicy& policy,
                                                   const RecoveryHandler& recovery,
                                                   const GuardOptions& options) {
  if (policy.on_unknown_outcome) return ChosenBy(*policy.on_unknown_outcome);
  if (recovery) return UnknownOutcome::kRecover;
  if (options.on_unknown_outcome) return ChosenBy(*options.on_unknown_outcome);
  if (options.ledger != nullptr) return UnknownOutcome::kLookUpLedger;
  return std::nullopt;
}

v1::LeaseExpiry LeaseExpiryFor(UnknownOutcome chosen) {
  return chosen == UnknownOutcome::kRecover ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
                                            : v1::LEASE_EXPIRY_TAKE_OVER;
}

std::string DescribeUnknownOutcome(std::optional<UnknownOutcome> chosen, const MethodPolicy& policy,
                                   const RecoveryHandler& recovery, const GuardOptions& options) {
  if (!chosen) return "not chosen: what follows a crash or a failure";
  const bool has_ledger = options.ledger != nullptr;
  switch (*chosen) {
    case UnknownOutcome::kRunAgain:
      return DescribeRunningAgain(
          policy, has_ledger ? "an operation without a ledger row runs again" : "it runs again");
    case UnknownOutcome::kLookUpLedger:
      return DescribeRunningAgain(policy, "an operation without a ledger row runs again");
    case UnknownOutcome::kRecover:
      break;
  }
  const absl::string_view unless = has_ledger ? ", unless the ledger has its reply" : "";
  if (recovery) {
    return absl::StrCat(
        "after a crash or a failure that is not recorded nothing runs until the recovery handler "
        "has decided",
        unless);
  }
  return absl::StrCat(
      "after a crash or a failure that is not recorded nothing runs again: callers "
      "get OUTCOME_UNKNOWN until it is settled",
      unless);
}

std::string RelaxationFault(const MethodPolicy& policy, std::optional<UnknownOutcome> chosen,
                            const GuardOptions& options) {
  if (!policy.relaxed_reservation) return "";
  constexpr absl::string_view kReason =
      "relaxed_reservation needs a completion ledger that decides: a crash of the store may lose "
      "the reservation, and only the ledger's key then lets no second effect commit. ";
  if (options.ledger == nullptr) {
    return absl::StrCat(kReason, "Set GuardOptions::ledger, or remove relaxed_reservation");
  }
  if (chosen == UnknownOutcome::kLookUpLedger) return "";
  return absl::StrCat(kReason,
                      "Here on_lease_expiry, a recovery handler or on_unknown_outcome decides: "
                      "remove that choice, if the handler commits every effect in the ledger, or "
                      "remove relaxed_reservation");
}

std::string UnknownOutcomeChoices() {
  return "choose one of: on_lease_expiry TAKE_OVER, if a second execution is acceptable; a "
         "completion ledger (GuardOptions::ledger), if the effects are in your database; a "
         "recovery handler, which determines the outcome (on_lease_expiry REQUIRE_RECOVERY without "
         "one ends in OUTCOME_UNKNOWN). GuardOptions::on_unknown_outcome sets the choice for a "
         "whole server";
}

}  // namespace idempotency::internal
