#include "tests/support/probe_client.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/grpc_status.h"
#include "tests/support/raw_calls.h"

namespace idempotency::internal::testing {
namespace {

std::multimap<std::string, std::string> Copy(
    const std::multimap<grpc::string_ref, grpc::string_ref>& entries) {
  std::multimap<std::string, std::string> copy;
  for (const auto& [key, value] : entries) {
    copy.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  return copy;
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (buffer.Valid() && buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return all;
}

bool Retryable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::ABORTED ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

ActReply Outcome::reply() const {
  ActReply reply;
  reply.ParseFromString(body);
  return reply;
}

std::optional<Reason> Outcome::reason() const { return ReasonOf(FromGrpcStatus(status)); }

std::string Outcome::Trailer(const std::string& key) const {
  const auto found = trailing_metadata.find(key);
  return found == trailing_metadata.end() ? "" : found->second;
}

ProbeClient::ProbeClient(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A separate connection, and no hidden retries.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetMaxReceiveMessageSize(64 * 1024 * 1024);
  channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

Outcome ProbeClient::Send(const Call& call) const {
  ActRequest request;
  request.set_account(call.account);
  request.set_amount(call.amount);
  grpc::ClientContext& context = *call.context;
  context.set_deadline(std::chrono::system_clock::now() + call.timeout);
  for (const std::string& key : call.keys) context.AddMetadata("idempotency-key", key);
  for (const auto& [key, value] : call.metadata) context.AddMetadata(key, value);

  grpc::ByteBuffer received;
  Outcome outcome;
  outcome.status = CallRaw(channel_, context, absl::StrCat("/", call.service, "/", call.method),
                           BufferOf(request.SerializeAsString()), received);
  outcome.body = Bytes(received);
  outcome.initial_metadata = Copy(context.GetServerInitialMetadata());
  outcome.trailing_metadata = Copy(context.GetServerTrailingMetadata());
  return outcome;
}

Outcome ProbeClient::Act(const std::string& key, std::int64_t amount) const {
  Call call;
  call.keys = {key};
  call.amount = amount;
  return Send(call);
}

Outcome ProbeClient::SendUntilSettled(Call call, std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    call.context = std::make_shared<grpc::ClientContext>();
    Outcome outcome = Send(call);
    if (!Retryable(outcome.status) || std::chrono::steady_clock::now() >= deadline) return outcome;
    // A client's backoff, not a wait for a condition.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace idempotency::internal::testing
