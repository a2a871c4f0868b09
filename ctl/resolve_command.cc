#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/wire_time.h"
#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "explanation/time_text.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

// The bytes of a file, or of stdin for "-", as far as a reply may have them.
absl::StatusOr<std::string> Bytes(absl::string_view flag, const std::string& path) {
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  std::string bytes(limits::kMaxReplyBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", path, " cannot be read"));
  }
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() <= limits::kMaxReplyBytes) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", path, " has more than ", limits::kMaxReplyBytes, " bytes"));
}

// The attempt reported no end: its process was lost, or is slow. The release reason of a RESERVED
// record is that of an attempt before.
bool MayStillRun(const v1::Record& record) {
  return record.state() == v1::RECORD_STATE_RESERVED ||
         (record.state() == v1::RECORD_STATE_UNKNOWN && record.release_reason().empty());
}

// A reply's body and details are dropped at once.
bool KeepsNoContent(const v1::Record& record, absl::Time now) {
  return record.has_reply_expires_at() && FromWire(record.reply_expires_at()) <= now;
}

class ResolveCommand final : public Command {
 public:
  absl::string_view name() const override { return "resolve"; }
  absl::string_view operand() const override { return "[RECORD_ID]"; }
  absl::string_view summary() const override { return "settle a record that is stuck"; }
  absl::string_view description() const override {
    return "Settles a record that is UNKNOWN, or RESERVED by an attempt that was lost. First find\n"
           "out, in the systems that the operation writes to, whether it took place:\n"
           "  --outcome=completed  it did: its callers get the reply that you give\n"
           "  --outcome=released   nothing happened, and nothing can any more: the next call "
           "runs,\n"
           "                       as the next attempt\n"
           "It shows the record and requests a confirmation before it writes. If the record "
           "changes\n"
           "meanwhile, nothing is written. Needs the permissions READ and ADMIN.";
  }

  void AddFlags(FlagSet& flags) override {
    record_.AddTo(flags);
    flags.AddText("outcome", "OUTCOME", &outcome_, "completed or released. Required.");
    flags.AddText("reason", "TEXT", &reason_,
                  "Why, for the audit log. Required. No keys, no personal data: it is kept.");
    flags.AddInt("code", &code_, 0, 16, "The reply's gRPC status code, with --outcome=completed.");
    flags.AddText("message", "TEXT", &message_,
                  "The reply's status message. Of a route of HTTP: its status, as \"HTTP 201\".");
    flags.AddText("body_file", "FILE", &body_file_,
                  "File of the serialised response message, for example of protoc --encode; - for\n"
                  "stdin, with --yes. Required for code 0 of a unary method.");
    flags.AddText("details_file", "FILE", &details_file_,
                  "File of the bytes of grpc-status-details-bin.");
    flags.AddInt("expected_attempt", &expected_attempt_, 0, std::numeric_limits<int>::max(),
                 "Only if the record is at this attempt; 0: the one that it shows.");
    flags.AddDuration("retention", &retention_, absl::Seconds(1), limits::kMaxRetention,
                      "The record is kept for at least this long from now.");
    flags.AddSwitch("force", &force_,
                    "Also under a live lease, while the attempt may be running: released with it,\n"
                    "the operation may run twice.");
    flags.AddSwitch("dry_run", &dry_run_, "Show the change, and make none.");
    flags.AddSwitch("yes", &yes_, "Write without a confirmation.");
    flags.AddSwitch("json", &json_, "Print the answer as a line of JSON, as ResolveResponse.");
  }

  absl::Status Validate(absl::string_view operand) override {
    if (const absl::Status set = record_.Set(operand); !set.ok()) return set;
    if (reason_.empty()) return absl::InvalidArgumentError("--reason is missing");
    if (outcome_ != "completed" && outcome_ != "released") {
      return absl::InvalidArgumentError("--outcome must be completed or released");
    }
    const bool has_reply =
        code_ != 0 || !message_.empty() || !body_file_.empty() || !details_file_.empty();
    if (outcome_ == "released" && has_reply) {
      return absl::InvalidArgumentError(
          "--code, --message, --body_file and --details_file are for --outcome=completed");
    }
    if (outcome_ == "completed" && code_ == 0 && body_file_.empty()) {
      return absl::InvalidArgumentError(
          "--body_file is missing: callers get it as the response; for an error set --code");
    }
    // Of a route of HTTP the message has the status.
    if (ProvesNothing(StatusCodeFrom(code_)) && !absl::StartsWith(message_, "HTTP ")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--code=", code_,
          ": must not be CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED or UNAVAILABLE, "
          "which gRPC itself returns: clients take them for a lost answer, and retry"));
    }
    if (body_file_ == "-" && !yes_ && !dry_run_) {
      return absl::InvalidArgumentError("--body_file=- takes stdin: set --yes too");
    }
    return absl::OkStatus();
  }

  absl::Status Run(Service* service, Terminal& terminal) override {
    absl::StatusOr<v1::ResolveRequest> request = Request();
    if (!request.ok()) return request.status();
    const absl::StatusOr<v1::Record> record =
        service->Get(record_.ToRequest(v1::RECORD_VIEW_BASIC));
    if (!record.ok()) return record.status();
    if (!json_) terminal.Print(DescribeRecord(*record, terminal.Now()) + "\n");
    if (outcome_ == "released" && MayStillRun(*record)) {
      terminal.Note(
          "This attempt reported no end. Its process may only be slow, and act later. Release the "
          "record once\nthat process has ended, or the other system refuses the operation.\n");
    }
    if (request->has_reply() && KeepsNoContent(*record, terminal.Now())) {
      terminal.Note(absl::StrCat(
          "This record keeps the content of a reply until ",
          TimeText(record->reply_expires_at(), terminal.Now()),
          ": its reply_retention counts\nfrom its first reservation. Callers get the code and the "
          "message of your reply alone, and\nREPLY_NOT_KEPT in place of an OK.\n"));
    }
    request->set_expected_attempt(expected_attempt_ != 0 ? expected_attempt_ : record->attempt());
    // Another state is refused by itself.
    if (record->state() == v1::RECORD_STATE_RESERVED ||
        record->state() == v1::RECORD_STATE_UNKNOWN) {
      request->set_expected_state(record->state());
    }

    request->set_validate_only(true);
    const absl::StatusOr<v1::ResolveResponse> checked = service->Resolve(*request);
    if (!checked.ok()) return checked.status();
    if (dry_run_) {
      Show(*checked, "would be", terminal);
      return absl::OkStatus();
    }
    if (!yes_ && !terminal.Confirm(absl::StrCat("Settle it as ", outcome_, ", for all callers?"))) {
      return NotConfirmed("nothing was changed; --yes settles it without a question");
    }
    request->set_validate_only(false);
    const absl::StatusOr<v1::ResolveResponse> resolved = service->Resolve(*request);
    if (!resolved.ok()) return resolved.status();
    Show(*resolved, "is", terminal);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<v1::ResolveRequest> Request() const {
    v1::ResolveRequest request;
    if (record_.id().empty()) {
      *request.mutable_record_key() = record_.key();
    } else {
      request.set_record_id(record_.id());
    }
    request.set_reason(reason_);
    request.set_force(force_);
    *request.mutable_retention() = ToWire(retention_);
    request.set_outcome(v1::RESOLVE_OUTCOME_RELEASED);
    if (outcome_ == "released") return request;
    request.set_outcome(v1::RESOLVE_OUTCOME_COMPLETED);
    v1::Reply& reply = *request.mutable_reply();
    reply.set_code(code_);
    reply.set_message(message_);
    if (!body_file_.empty()) {
      absl::StatusOr<std::string> body = Bytes("body_file", body_file_);
      if (!body.ok()) return body.status();
      reply.set_body(*std::move(body));
    }
    if (!details_file_.empty()) {
      absl::StatusOr<std::string> details = Bytes("details_file", details_file_);
      if (!details.ok()) return details.status();
      reply.set_details(*std::move(details));
    }
    return request;
  }

  void Show(const v1::ResolveResponse& response, absl::string_view verb, Terminal& terminal) const {
    if (json_) {
      terminal.PrintJson(response);
      return;
    }
    if (response.repeated()) {
      terminal.Print(absl::StrCat(
          "The record is settled in this way already: ", StateText(response.state()), ".\n"));
      return;
    }
    terminal.Print(absl::StrCat("The record ", verb, " ", StateText(response.state()), " (it was ",
                                StateText(response.previous_state()), "), attempt ",
                                response.attempt(), ", kept until ",
                                TimeText(response.expires_at(), terminal.Now()), ".\n"));
  }

  RecordSelector record_;
  std::string outcome_;
  std::string reason_;
  int code_ = 0;
  std::string message_;
  std::string body_file_;
  std::string details_file_;
  int expected_attempt_ = 0;
  absl::Duration retention_ = absl::Hours(24);
  bool force_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewResolveCommand() { return std::make_unique<ResolveCommand>(); }

}  // namespace idempotency::internal
