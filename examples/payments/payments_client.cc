// A small command line for the payments service, with the client interceptor
// and gRPC's own retries. Exit status: 0 for OK, 1 for any other status, 2 for
// a command line that cannot be read.
#include <google/protobuf/util/time_util.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "examples/payments/outcome.h"
#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/client_interceptor/keyed_channel.h"
#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

ABSL_FLAG(std::string, server, "127.0.0.1:7420", "Address of the payments service.");
ABSL_FLAG(std::string, idempotencyd, "127.0.0.1:7411", "Address of idempotencyd (record).");
ABSL_FLAG(std::string, account, "alice", "The account (charge, balance, entries).");
ABSL_FLAG(std::int64_t, amount, 500, "The amount in cents (charge, refund).");
ABSL_FLAG(std::string, charge, "", "The id of the charge to refund (refund).");
ABSL_FLAG(std::string, note, "", "A note for the entry (charge, refund).");
ABSL_FLAG(std::string, key, "",
          "The idempotency key. Without it the interceptor makes a new one for each call.");
ABSL_FLAG(bool, no_key, false, "Use a bare channel: no interceptor, no key.");
ABSL_FLAG(bool, retries, false, "Let gRPC retry a failed call, with the same key.");
ABSL_FLAG(int, concurrency, 1, "The number of concurrent duplicates, all with one key (charge).");
ABSL_FLAG(std::string, record, "", "The id of the record to show (record).");
ABSL_FLAG(absl::Duration, deadline, absl::Seconds(15), "Time limit of a call, retries included.");

namespace payments {
namespace {

constexpr char kUsage[] =
    "payments_client [flags] charge | refund | balance | entries | record\n"
    "  charge   takes --amount from --account\n"
    "  refund   returns --amount of --charge\n"
    "  balance  shows the balance of --account\n"
    "  entries  lists the entries of --account\n"
    "  record   shows the record of --record in idempotencyd";
constexpr int kUsageError = 2;

int UsageError(const std::string& message) {
  std::fprintf(stderr, "payments_client: %s\n", message.c_str());
  return kUsageError;
}

int Print(const Outcome& outcome, const std::string& fields) {
  std::printf("%s\n", ToLine(outcome, fields).c_str());
  return outcome.status.ok() ? 0 : 1;
}

std::shared_ptr<grpc::Channel> BareChannel(const grpc::ChannelArguments& arguments) {
  const std::string server = absl::GetFlag(FLAGS_server);
  const auto credentials = grpc::InsecureChannelCredentials();
  return grpc::CreateCustomChannel(server, credentials, arguments);
}

std::shared_ptr<grpc::Channel> KeyedChannel(const grpc::ChannelArguments& arguments) {
  const std::string server = absl::GetFlag(FLAGS_server);
  const auto credentials = grpc::InsecureChannelCredentials();
  return idempotency::CreateKeyedChannel(server, credentials, arguments);
}

std::shared_ptr<grpc::Channel> PaymentsChannel() {
  grpc::ChannelArguments arguments;
  if (absl::GetFlag(FLAGS_retries)) {
    arguments = idempotency::RetryingChannelArguments();
  } else {
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  }
  return absl::GetFlag(FLAGS_no_key) ? BareChannel(arguments) : KeyedChannel(arguments);
}

// One call: its context with deadline and key, its request and its reply.
template <typename Request, typename Reply>
struct Call {
  grpc::ClientContext context;
  Request request;
  Reply reply;
  grpc::Status status;

  // A key that no guard would accept is refused here, before the call is sent.
  grpc::Status Prepare(const std::string& key) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::GetFlag(FLAGS_deadline)));
    if (key.empty()) return grpc::Status::OK;
    return idempotency::ToGrpcStatus(idempotency::WithKey(context, key));
  }
};
using ChargeCall = Call<v1::ChargeRequest, v1::ChargeReply>;
using RefundCall = Call<v1::RefundRequest, v1::RefundReply>;

std::string Fields(const v1::ChargeReply& reply) {
  return absl::StrCat("charge_id=", reply.charge_id(), " balance_cents=", reply.balance_cents());
}

std::string Fields(const v1::RefundReply& reply) {
  return absl::StrCat("refund_id=", reply.refund_id(), " balance_cents=", reply.balance_cents());
}

v1::ChargeRequest ChargeRequestFromFlags() {
  v1::ChargeRequest request;
  request.set_account(absl::GetFlag(FLAGS_account));
  request.set_amount_cents(absl::GetFlag(FLAGS_amount));
  request.set_note(absl::GetFlag(FLAGS_note));
  return request;
}

int Charge(v1::Payments::Stub& stub) {
  ChargeCall call;
  call.request = ChargeRequestFromFlags();
  call.status = call.Prepare(absl::GetFlag(FLAGS_key));
  if (call.status.ok()) call.status = stub.Charge(&call.context, call.request, &call.reply);
  return Print(OutcomeOf(call.status, call.context), Fields(call.reply));
}

int Refund(v1::Payments::Stub& stub) {
  RefundCall call;
  call.request.set_charge_id(absl::GetFlag(FLAGS_charge));
  call.request.set_amount_cents(absl::GetFlag(FLAGS_amount));
  call.request.set_note(absl::GetFlag(FLAGS_note));
  call.status = call.Prepare(absl::GetFlag(FLAGS_key));
  if (call.status.ok()) call.status = stub.Refund(&call.context, call.request, &call.reply);
  return Print(OutcomeOf(call.status, call.context), Fields(call.reply));
}

// The results of a set of duplicates, in one line.
int PrintCrowd(const std::vector<std::unique_ptr<ChargeCall>>& calls) {
  std::size_t ok = 0;
  std::size_t replayed = 0;
  std::set<std::string> charge_ids;
  std::map<std::string, std::size_t> replies;
  std::map<std::string, std::size_t> refusals;
  for (const auto& call : calls) {
    const Outcome outcome = OutcomeOf(call->status, call->context);
    if (!outcome.status.ok()) {
      ++refusals[absl::StrCat(CodeName(outcome.status.error_code()),
                              outcome.reason.empty() ? "" : "/", outcome.reason)];
      continue;
    }
    ++ok;
    if (outcome.replayed) ++replayed;
    charge_ids.insert(call->reply.charge_id());
    ++replies[call->reply.SerializeAsString()];
  }
  std::printf("calls=%zu ok=%zu replayed=%zu distinct_replies=%zu distinct_charge_ids=%zu",
              calls.size(), ok, replayed, replies.size(), charge_ids.size());
  for (const std::string& id : charge_ids) std::printf(" charge_id=%s", id.c_str());
  for (const auto& [what, count] : refusals) std::printf(" %s=%zu", what.c_str(), count);
  std::printf("\n");
  return ok == calls.size() ? 0 : 1;
}

int ChargeAtOnce(v1::Payments::Stub& stub, int concurrency) {
  std::string key = absl::GetFlag(FLAGS_key);
  if (key.empty() && !absl::GetFlag(FLAGS_no_key)) {
    key = idempotency::Uuid::TimeOrdered(absl::Now()).ToString();
  }
  std::vector<std::unique_ptr<ChargeCall>> calls;
  for (int i = 0; i < concurrency; ++i) {
    auto call = std::make_unique<ChargeCall>();
    call->request = ChargeRequestFromFlags();
    if (grpc::Status key_status = call->Prepare(key); !key_status.ok()) {
      return Print(OutcomeOf(key_status, call->context), "");
    }
    calls.push_back(std::move(call));
  }
  absl::BlockingCounter unanswered(static_cast<int>(calls.size()));
  for (const auto& call : calls) {
    stub.async()->Charge(&call->context, &call->request, &call->reply,
                         [&unanswered, raw = call.get()](grpc::Status status) {
                           raw->status = std::move(status);
                           unanswered.DecrementCount();
                         });
  }
  // Every call has a deadline, so this returns.
  unanswered.Wait();
  return PrintCrowd(calls);
}

int Balance(v1::Payments::Stub& stub) {
  Call<v1::GetBalanceRequest, v1::GetBalanceReply> call;
  call.request.set_account(absl::GetFlag(FLAGS_account));
  call.status = call.Prepare("");
  if (call.status.ok()) call.status = stub.GetBalance(&call.context, call.request, &call.reply);
  return Print(OutcomeOf(call.status, call.context),
               absl::StrCat("balance_cents=", call.reply.balance_cents()));
}

int Entries(v1::Payments::Stub& stub) {
  Call<v1::ListEntriesRequest, v1::ListEntriesReply> call;
  call.request.set_account(absl::GetFlag(FLAGS_account));
  call.status = call.Prepare("");
  if (call.status.ok()) call.status = stub.ListEntries(&call.context, call.request, &call.reply);
  for (const v1::Entry& entry : call.reply.entries()) {
    std::printf("entry=%s amount_cents=%lld record=%s attempt=%u at=%s note=\"%s\"\n",
                entry.id().c_str(), static_cast<long long>(entry.amount_cents()),
                entry.record_id().c_str(), entry.attempt(), entry.at().c_str(),
                entry.note().c_str());
  }
  return Print(OutcomeOf(call.status, call.context),
               absl::StrCat("entries=", call.reply.entries_size()));
}

// Queries idempotencyd itself.
int Record() {
  namespace wire = idempotency::v1;
  using google::protobuf::util::TimeUtil;
  const auto stub = wire::IdempotencyService::NewStub(
      grpc::CreateChannel(absl::GetFlag(FLAGS_idempotencyd), grpc::InsecureChannelCredentials()));
  Call<wire::GetRequest, wire::GetResponse> call;
  call.request.set_record_id(absl::GetFlag(FLAGS_record));
  call.status = call.Prepare("");
  if (call.status.ok()) call.status = stub->Get(&call.context, call.request, &call.reply);
  const wire::Record& record = call.reply.record();
  std::string fields = absl::StrCat(
      "record=", record.record_id(), " state=", wire::RecordState_Name(record.state()),
      " attempt=", record.attempt(), " namespace=", record.record_key().namespace_(),
      " scope=", record.record_key().scope(), " operation=", record.record_key().operation(),
      " key=", record.record_key().key(), " created=", TimeUtil::ToString(record.created_at()),
      " expires=", TimeUtil::ToString(record.expires_at()));
  if (record.has_reply()) absl::StrAppend(&fields, " reply=", CodeName(record.reply().code()));
  const Outcome outcome = OutcomeOf(call.status, call.context);
  if (!outcome.status.ok()) return Print(outcome, "");
  std::printf("OK %s\n", fields.c_str());
  return 0;
}

int Run(const std::string& command) {
  if (command == "record") return Record();
  const auto stub = v1::Payments::NewStub(PaymentsChannel());
  const int concurrency = absl::GetFlag(FLAGS_concurrency);
  if (command == "charge") {
    return concurrency > 1 ? ChargeAtOnce(*stub, concurrency) : Charge(*stub);
  }
  if (command == "refund") return Refund(*stub);
  if (command == "balance") return Balance(*stub);
  if (command == "entries") return Entries(*stub);
  return UsageError(absl::StrCat("no command \"", command, "\"; see --help"));
}

}  // namespace
}  // namespace payments

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(payments::kUsage);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() != 2) return payments::UsageError("one command, please; see --help");
  if (absl::GetFlag(FLAGS_no_key) && !absl::GetFlag(FLAGS_key).empty()) {
    return payments::UsageError("--no_key and --key exclude each other");
  }
  return payments::Run(rest[1]);
}
