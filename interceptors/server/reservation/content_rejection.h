#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CONTENT_REJECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CONTENT_REJECTION_H_

#include "absl/status/status.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// Determines from the answers to Complete whether a reply is refused for its content, which is
// dropped then: that cannot be undone. Thread-compatible.
class ContentRejection {
 public:
  // True if the service rejects the content.
  bool IsCertain(const absl::Status& answer) const;
  // True if the content of `reply` may be the cause of `answer`, which has no reason of the
  // service's. A small request, sent after it, shows whether every request is refused: OnProbed().
  bool IsPossible(const absl::Status& answer, const v1::Reply& reply) const;

  // True if the content is rejected: it was possible often enough in a row, while small requests
  // were answered.
  bool OnProbed(bool small_requests_pass);
  // Complete got an answer for which it is not possible: the count starts again.
  void OnOtherAnswer() { refusals_ = 0; }
  // The reply no longer has content to reject.
  void OnDropped() { dropped_ = true; }

 private:
  // In a row, while small requests are answered.
  int refusals_ = 0;
  bool dropped_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_CONTENT_REJECTION_H_
