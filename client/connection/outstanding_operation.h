#ifndef IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_OPERATION_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_OPERATION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "core/application_log.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

class StreamState;

// An operation requested from a session, until it is answered. Holds the
// serialised request, so that sending it again costs a copy.
//
// Not thread-safe; the members that are not const belong to the session's lock.
class OutstandingOperation {
 public:
  // `request` is not needed afterwards; `log` must outlive the operation. A Reserve without a
  // request token gets one, so that a repetition is recognised.
  template <typename Request, typename Response>
  static std::unique_ptr<OutstandingOperation> Make(const Request& request,
                                                    Connection::Deadline deadline,
                                                    Connection::Callback<Response> done,
                                                    const ApplicationLog& log);
  virtual ~OutstandingOperation() = default;

  // Whether `answer` is one to this kind of operation.
  virtual bool IsAnswer(const v1::SessionAnswer& answer) const = 0;

  // One of these ends it: calls the caller's callback, on this thread. Takes
  // the response out of `answer`, for which IsAnswer() holds and which is not a
  // failure. A temporary refusal of a reservation that an earlier stream may have delivered is no
  // answer to that delivery, which may have been granted: whatever refuses it, an answer, the end
  // of a stream or `other`, its caller gets STORE_UNAVAILABLE. NotConnected() of `other` is for no
  // operation that an earlier stream may have delivered.
  virtual void Answer(v1::SessionAnswer& answer) = 0;
  virtual void Fail(const absl::Status& status) = 0;
  virtual void SendBy(Connection& other) = 0;

  // A field of v1.SessionOperation, with its tag.
  const std::string body;
  const Connection::Deadline deadline;
  // Whether max_in_flight counts it: reservations and reads.
  const bool limited;
  // A Reserve. It may wait, so its cancellation is worth sending.
  const bool is_reserve;

  std::uint64_t id = 0;
  // The stream that it was sent on; nullptr while it waits.
  StreamState* state = nullptr;
  int times_sent = 0;
  // A daemon may have received it: it was written to a stream that had a
  // connection.
  bool maybe_sent = false;
  // The last frame that contained it.
  std::uint64_t frame = 0;
  // It may be the reason why its frame is unreadable: it shares no frame from
  // now on.
  bool alone = false;
  // It was.
  bool refused = false;

 protected:
  OutstandingOperation(std::string body_in, Connection::Deadline deadline_in, bool limited_in,
                       bool is_reserve_in);

  // A Reserve that a daemon may have received.
  bool may_be_granted() const { return is_reserve && maybe_sent; }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_OPERATION_H_
