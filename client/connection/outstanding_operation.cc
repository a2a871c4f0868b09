#include "client/connection/outstanding_operation.h"

#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

#include "client/connection/caller_callback.h"
#include "client/connection/not_connected.h"
#include "core/answer_kind.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// The fields of each kind of operation in a session's messages.
template <typename Request>
struct Kind;
template <>
struct Kind<v1::ReserveRequest> {
  static constexpr int kField = v1::SessionOperation::kReserveFieldNumber;
  static constexpr auto kResponse = v1::SessionAnswer::kReserve;
  static constexpr auto kTake = &v1::SessionAnswer::mutable_reserve;
  static constexpr bool kLimited = true;
};
template <>
struct Kind<v1::CompleteRequest> {
  static constexpr int kField = v1::SessionOperation::kCompleteFieldNumber;
  static constexpr auto kResponse = v1::SessionAnswer::kComplete;
  static constexpr auto kTake = &v1::SessionAnswer::mutable_complete;
  static constexpr bool kLimited = false;
};
template <>
struct Kind<v1::ReleaseRequest> {
  static constexpr int kField = v1::SessionOperation::kReleaseFieldNumber;
  static constexpr auto kResponse = v1::SessionAnswer::kRelease;
  static constexpr auto kTake = &v1::SessionAnswer::mutable_release;
  static constexpr bool kLimited = false;
};
template <>
struct Kind<v1::ExtendRequest> {
  static constexpr int kField = v1::SessionOperation::kExtendFieldNumber;
  static constexpr auto kResponse = v1::SessionAnswer::kExtend;
  static constexpr auto kTake = &v1::SessionAnswer::mutable_extend;
  static constexpr bool kLimited = false;
};
template <>
struct Kind<v1::GetRequest> {
  static constexpr int kField = v1::SessionOperation::kGetFieldNumber;
  static constexpr auto kResponse = v1::SessionAnswer::kGet;
  static constexpr auto kTake = &v1::SessionAnswer::mutable_get;
  static constexpr bool kLimited = true;
};

template <typename Request>
constexpr bool kIsReserve = std::is_same_v<Request, v1::ReserveRequest>;

// The field `request_token` of a ReserveRequest. In protobuf's encoding a
// message with a field more is the message and that field, one after the other.
std::string EncodedRequestToken() {
  constexpr std::uint32_t kTag = WireFormatLite::MakeTag(
      v1::ReserveRequest::kRequestTokenFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  static_assert(kTag < 0x80, "its tag is one byte");
  const std::string token = Uuid::Random().ToString();
  std::string field;
  field.push_back(static_cast<char>(kTag));
  field.push_back(static_cast<char>(token.size()));
  return field + token;
}

template <typename Request>
std::string Encode(const Request& request) {
  std::string more;
  if constexpr (kIsReserve<Request>) {
    if (request.request_token().empty()) more = EncodedRequestToken();
  }
  constexpr std::uint32_t kTag =
      WireFormatLite::MakeTag(Kind<Request>::kField, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  const std::size_t request_bytes = request.ByteSizeLong();
  const std::size_t length = request_bytes + more.size();
  std::string body;
  body.resize(CodedOutputStream::VarintSize32(kTag) + CodedOutputStream::VarintSize64(length) +
              length);
  auto* at = reinterpret_cast<std::uint8_t*>(body.data());
  at = CodedOutputStream::WriteTagToArray(kTag, at);
  at = CodedOutputStream::WriteVarint64ToArray(length, at);
  at = request.SerializeWithCachedSizesToArray(at);
  more.copy(reinterpret_cast<char*>(at), more.size());
  return body;
}

template <typename Request>
Request Decode(std::string_view body) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(body.data()),
                                            static_cast<int>(body.size()));
  std::uint32_t length = 0;
  in.ReadTag();
  in.ReadVarint32(&length);
  Request request;
  // The output of Encode().
  request.MergeFromCodedStream(&in);
  return request;
}

// The status for the caller of a reservation that may have been granted before it was refused.
absl::Status OfRepeat(const absl::Status& refusal) {
  if (!IsTemporary(refusal) || KindOfAnswer(refusal) == AnswerKind::kNone) return refusal;
  return MakeError(
      Reason::kStoreUnavailable,
      absl::StrCat("idempotencyd may have received the reservation on a stream that "
                   "ended, and refuses it for now (",
                   refusal.message(), "): repeat the call with the same tokens"),
      RetryAfter(DetailsOf(refusal).retry_delay.value_or(retry_delays::kReconnection)));
}

// The status for the caller of an operation that a stream may have delivered before its repetition
// found no connection.
absl::Status RepeatNotSent() {
  return MakeError(
      Reason::kStoreUnavailable,
      "idempotencyd may have received the operation on a stream that ended, and cannot "
      "be reached now: repeat the call with the same tokens",
      RetryAfter(retry_delays::kReconnection));
}

template <typename Response>
Connection::Callback<Response> ForRepeat(Connection::Callback<Response> done, bool may_be_granted) {
  return [done = std::move(done), may_be_granted](absl::StatusOr<Response> response) {
    if (IsNotConnected(response.status())) {
      response = RepeatNotSent();
    } else if (!response.ok() && may_be_granted) {
      response = OfRepeat(response.status());
    }
    done(std::move(response));
  };
}

template <typename Request, typename Response>
class TypedOperation final : public OutstandingOperation {
 public:
  using Shape = Kind<Request>;

  TypedOperation(const Request& request, Connection::Deadline deadline_in,
                 Connection::Callback<Response> done, const ApplicationLog& log)
      : OutstandingOperation(Encode(request), deadline_in, Shape::kLimited, kIsReserve<Request>),
        log_(log),
        done_(std::move(done)) {}

  bool IsAnswer(const v1::SessionAnswer& answer) const override {
    return answer.response_case() == Shape::kResponse;
  }
  void Answer(v1::SessionAnswer& answer) override {
    AnswerCaller<Response>(log_, done_, std::move(*(answer.*Shape::kTake)()));
  }
  void Fail(const absl::Status& status) override {
    AnswerCaller<Response>(log_, done_, may_be_granted() ? OfRepeat(status) : status);
  }
  void SendBy(Connection& other) override {
    const Request request = Decode<Request>(body);
    if (maybe_sent) done_ = ForRepeat(std::move(done_), may_be_granted());
    other.Send(ConnectionCall<Request, Response>{request, std::move(done_)}, deadline);
  }

 private:
  const ApplicationLog& log_;
  Connection::Callback<Response> done_;
};

}  // namespace

OutstandingOperation::OutstandingOperation(std::string body_in, Connection::Deadline deadline_in,
                                           bool limited_in, bool is_reserve_in)
    : body(std::move(body_in)),
      deadline(deadline_in),
      limited(limited_in),
      is_reserve(is_reserve_in) {}

template <typename Request, typename Response>
std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const Request& request, Connection::Deadline deadline, Connection::Callback<Response> done,
    const ApplicationLog& log) {
  return std::make_unique<TypedOperation<Request, Response>>(request, deadline, std::move(done),
                                                             log);
}

template std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const v1::ReserveRequest&, Connection::Deadline, Connection::Callback<v1::ReserveResponse>,
    const ApplicationLog&);
template std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const v1::CompleteRequest&, Connection::Deadline, Connection::Callback<v1::CompleteResponse>,
    const ApplicationLog&);
template std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const v1::ReleaseRequest&, Connection::Deadline, Connection::Callback<v1::ReleaseResponse>,
    const ApplicationLog&);
template std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const v1::ExtendRequest&, Connection::Deadline, Connection::Callback<v1::ExtendResponse>,
    const ApplicationLog&);
template std::unique_ptr<OutstandingOperation> OutstandingOperation::Make(
    const v1::GetRequest&, Connection::Deadline, Connection::Callback<v1::GetResponse>,
    const ApplicationLog&);

}  // namespace idempotency::internal
