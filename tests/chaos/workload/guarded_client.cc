#include "tests/chaos/workload/guarded_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/grpc_status.h"
#include "tests/chaos/workload/reply_digest.h"
#include "tests/chaos/workload/verdicts.h"

namespace idempotency::internal::testing {
namespace {

constexpr std::chrono::milliseconds kTimeout(4000);

std::string TrailerOf(const grpc::ClientContext& context, const char* name) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(name);
  if (found == trailers.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// The record that the reply names; nothing for other texts.
std::optional<RecordKey> MadeFor(const grpc::Status& status, const ActReply& reply) {
  std::vector<std::string> parts =
      absl::StrSplit(status.ok() ? reply.effect() : status.error_message(), '|');
  if (!status.ok() && !parts.empty()) parts.erase(parts.begin());
  if (parts.size() < 4) return std::nullopt;
  return RecordKey{parts[0], parts[1], parts[2], parts[3]};
}

}  // namespace

GuardedClient::GuardedClient(std::string name, const std::vector<std::string>& addresses,
                             int with_ledger, HistoryLog& log, KnownRecords& known)
    : name_(std::move(name)), with_ledger_(with_ledger), log_(log), known_(known) {
  for (const std::string& address : addresses) {
    // Tries to connect again as quickly as a client of idempotencyd.
    const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                                   IdempotencydChannelArguments());
    servers_.push_back({Probe::NewStub(channel), Twin::NewStub(channel)});
  }
}

GuardedClient::Answer GuardedClient::Call(const DrawnCall& call, std::uint64_t server) {
  const std::string id = absl::StrCat(name_, "-", calls_.fetch_add(1));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  context.AddMetadata("x-scope", call.key.scope);
  context.AddMetadata("chaos-call", id);
  if (!call.sent_key.empty()) context.AddMetadata("idempotency-key", call.sent_key);
  const bool keyed = !call.key.key.empty();
  if (keyed) known_.Touch({call.key});
  const std::uint64_t candidates =
      call.key.operation == kActMethod ? with_ledger_ : servers_.size();
  const std::uint64_t chosen = server % candidates;
  log_.Append(HistoryLine("invoke")
                  .Text("id", id)
                  .Text("client", name_)
                  .Text("kind", "call")
                  .Text("server", absl::StrCat("bank", chosen + 1))
                  .Record("record", call.key)
                  .Text("fp", call.request));
  ActReply reply;
  const grpc::Status status = Send(call, servers_[chosen], context, reply);
  const Answer answer = Log(call, id, status, context, reply);
  return keyed ? answer : Answer::kSettled;
}

grpc::Status GuardedClient::Send(const DrawnCall& call, Server& server,
                                 grpc::ClientContext& context, ActReply& reply) {
  ActRequest request;
  request.set_account(call.request);
  request.set_amount(1);
  if (call.key.operation == kTwinMethod) return server.twin->Act(&context, request, &reply);
  if (call.key.operation == kLookMethod) return server.probe->Look(&context, request, &reply);
  return server.probe->Act(&context, request, &reply);
}

GuardedClient::Answer GuardedClient::Log(const DrawnCall& call, const std::string& id,
                                         const grpc::Status& status,
                                         const grpc::ClientContext& context,
                                         const ActReply& reply) {
  const absl::Status failure = FromGrpcStatus(status);
  const LoggedAnswer failed = LoggedFailure(failure);
  const auto made_for = MadeFor(status, reply);
  const bool replied =
      status.ok() ||
      (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION && made_for.has_value());
  const bool replayed = TrailerOf(context, "idempotency-replayed") == "true";
  const std::string record_id = TrailerOf(context, "idempotency-record");
  HistoryLine line(replied ? "ok" : failed.event);
  line.Text("id", id)
      .Text("verdict", replied ? (replayed ? "replay" : "reserved") : failed.verdict)
      .Text("code", status.ok() ? "OK" : absl::StatusCodeToString(failure.code()));
  if (!record_id.empty()) line.Text("record_id", record_id);
  if (replied) {
    line.Text("reply", ReplyDigest(status.error_code(), status.error_message(),
                                   status.ok() ? reply.SerializeAsString() : ""));
    line.Flag("replayed", replayed);
    if (made_for.has_value()) line.Record("seen", *made_for);
  }
  log_.Append(line);
  const std::string verdict = failed.verdict;
  const bool settled = replied || verdict == "outcome_unknown" || verdict == "expired";
  if (settled && !call.key.key.empty()) {
    KnownRecords::Record known{call.key};
    known.settled = true;
    known_.Touch(known);
  }
  if (settled) return Answer::kSettled;
  return verdict == "mismatch" ? Answer::kMismatch : Answer::kOpen;
}

}  // namespace idempotency::internal::testing
