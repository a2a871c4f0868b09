#include "bench/record_requests.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::internal::bench {
namespace {

// Does not compress: a reply with names and numbers hardly does either.
std::string Noise(std::size_t bytes) {
  std::minstd_rand random(42);
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random() >> 16);
  return noise;
}

v1::ReserveRequest ReserveTemplate(const RecordRequests::Options& options) {
  v1::ReserveRequest request;
  v1::RecordKey& key = *request.mutable_record_key();
  key.set_namespace_(options.name_space);
  key.set_scope(options.scope);
  key.set_operation(options.operation);
  v1::Fingerprint& fingerprint = *request.add_fingerprints();
  fingerprint.set_version(1);
  fingerprint.set_digest(Noise(32));
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
  return request;
}

v1::Reply ReplyTemplate(std::size_t bytes) {
  v1::Reply reply;
  reply.set_body(Noise(bytes));
  reply.set_content(v1::REPLY_CONTENT_FULL);
  return reply;
}

absl::Status WrongVerdict(const v1::ReserveResponse& response) {
  return absl::InternalError(absl::StrCat("not the verdict that this work expects, but number ",
                                          static_cast<int>(response.verdict_case()),
                                          " of the oneof"));
}

}  // namespace

RecordRequests::RecordRequests(const Options& options)
    : options_(options),
      keys_(options.keys),
      reserve_(ReserveTemplate(options)),
      reply_(ReplyTemplate(options.reply_bytes)) {}

v1::ReserveRequest RecordRequests::Reserve(std::uint64_t number) const {
  v1::ReserveRequest request = reserve_;
  request.mutable_record_key()->set_key(keys_.At(number));
  request.set_request_token(keys_.TokenAt(number));
  return request;
}

v1::CompleteRequest RecordRequests::Complete(v1::RecordKey key,
                                             std::string reservation_token) const {
  v1::CompleteRequest request;
  *request.mutable_record_key() = std::move(key);
  request.set_reservation_token(std::move(reservation_token));
  *request.mutable_reply() = reply_;
  return request;
}

std::chrono::steady_clock::time_point RecordRequests::Deadline() const {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.timeout);
}

absl::StatusOr<std::string> RecordRequests::GrantedToken(
    absl::StatusOr<v1::ReserveResponse> answer) {
  if (!answer.ok()) return answer.status();
  if (!answer->has_reserved()) return WrongVerdict(*answer);
  return std::move(*answer->mutable_reserved()->mutable_reservation_token());
}

absl::Status RecordRequests::CheckReplay(const absl::StatusOr<v1::ReserveResponse>& answer) const {
  if (!answer.ok()) return answer.status();
  if (!answer->has_replay()) return WrongVerdict(*answer);
  if (answer->replay().reply().body() != reply_.body()) {
    return absl::DataLossError("the replay is not the reply");
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal::bench
