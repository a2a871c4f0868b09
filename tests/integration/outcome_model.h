#ifndef IDEMPOTENCY_TESTS_INTEGRATION_OUTCOME_MODEL_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_OUTCOME_MODEL_H_

#include <grpcpp/support/status_code_enum.h>

#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/method_policy.h"

namespace idempotency::internal::testing {

// The expected results of a guarded call, derived from the contract (the README's promises,
// docs/policies.md, docs/replies.md) and not from the guard.

// The codes that a policy names.
enum class CodeLists { kDefault, kNone, kOwn };
std::set<grpc::StatusCode> RecordedBy(CodeLists lists);
std::set<grpc::StatusCode> ReleasedBy(CodeLists lists);

struct TablePolicy {
  CodeLists lists = CodeLists::kDefault;
  bool require_recovery = false;
  MethodPolicy::Reply reply = MethodPolicy::Reply::kFull;
  bool fail_open = false;
};

// The state before a call: each is one way to one verdict.
enum class Before {
  kNothing,         // reserved
  kReleased,        // reserved, as the second attempt
  kLapsed,          // reserved, or outcome_unknown under REQUIRE_RECOVERY
  kCompleted,       // replay
  kRunning,         // in_flight, and the caller does not wait
  kEndedMeanwhile,  // in_flight, waited for: replay
  kGivenMeanwhile,  // in_flight, waited for: reserved
  kStillRunning,    // in_flight, waited for until the limit
  kOtherCompleted,  // mismatch
  kOtherRunning,    // mismatch, although another attempt runs
  kUnknown,         // outcome_unknown
  kTooOld,          // expired
  kRefused,         // the service refuses the guard's request
};
inline constexpr Before kAllBefore[] = {
    Before::kNothing,        Before::kReleased,     Before::kLapsed,
    Before::kCompleted,      Before::kRunning,      Before::kEndedMeanwhile,
    Before::kGivenMeanwhile, Before::kStillRunning, Before::kOtherCompleted,
    Before::kOtherRunning,   Before::kUnknown,      Before::kTooOld,
    Before::kRefused,
};
const char* NameOf(Before before);

struct Cell {
  TablePolicy policy;
  Before before = Before::kNothing;
  // The handler's status, and the status in a record that is completed before the call.
  grpc::StatusCode outcome = grpc::StatusCode::OK;
  // The handler calls MarkNoEffect().
  bool no_effect = false;
};
std::string NameOf(const Cell& cell);

// The origin of a reply's parts: "run 1" of the handler, "stored" before the call, "" for none.
struct TableReply {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;
  std::string details;
  std::string effect;
  std::string initial_metadata;
  std::string trailing_metadata;

  // All of it from one origin.
  static TableReply Of(grpc::StatusCode code, const std::string& source);
};

// The caller's answer.
struct TableAnswer : TableReply {
  // The reason of a rejection; then the message is not checked.
  std::optional<Reason> reason;
  bool retry_info = false;
  bool pushback = false;
  std::string original_code;
  // idempotency-record, -expires, -replayed, -content.
  bool names_record = false;
  bool names_expiry = false;
  bool replayed = false;
  std::string content;
};

// After each call of a cell.
struct TableStep {
  TableAnswer answer;
  // The number of runs of the handler for this key.
  int runs = 0;
  // "none", or state and attempt: "COMPLETED 1".
  std::string record;

  std::string ToString() const;
};

// The call, the next one with the same key, and, if a lease or a pause holds the key then, one more
// after its end.
class OutcomeModel {
 public:
  explicit OutcomeModel(const Cell& cell);
  std::vector<TableStep> Steps();

 private:
  enum class State { kNone, kReserved, kCompleted, kReleased, kUnknown };
  enum class Content { kFull, kStatusOnly, kReference };

  TableStep Call();
  // The handler may run: the record is this call's, as the next attempt.
  TableAnswer Run();
  void SettleAfterRun(const TableReply& reply);
  TableAnswer Replay() const;
  TableAnswer Reject(Reason reason, grpc::StatusCode code, bool retry = false) const;
  TableReply HandlersReply();

  const Cell cell_;
  State state_ = State::kNone;
  int attempt_ = 0;
  bool lease_over_ = false;
  bool paused_ = false;
  bool other_request_ = false;
  bool store_refuses_ = false;
  TableReply stored_;
  Content content_ = Content::kFull;
  int runs_ = 0;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_OUTCOME_MODEL_H_
