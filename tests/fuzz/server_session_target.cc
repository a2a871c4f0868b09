// A Session stream of an arbitrary caller: frames of any bytes, one after the other, over a store
// that may be slow. Each step is a byte, and a block for a frame.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/operation/operations.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/session_call.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unread_answer_limits.h"
#include "server/store/memory/memory_store.h"
#include "server/testing/gated_store.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/served_stream.h"
#include "tests/fuzz/session_answers.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr int kMaxSteps = 32;
constexpr std::size_t kMaxInputBytes = 16 * 1024;

// Small limits, so that short inputs reach them.
SessionOptions Limits() {
  SessionOptions options;
  options.max_in_flight = 6;
  options.max_answer_frame_bytes = 512;
  return options;
}

template <typename Options>
Options OnClock(const Clock& clock) {
  Options options;
  options.clock = &clock;
  return options;
}

// The service behind one stream. The clock stands still: no lease runs out, and no wait ends before
// the waiters are closed.
class Service {
 public:
  Service() {
    auto stream = std::make_unique<SessionCall>(operations_, registry_, unread_answers_, Limits(),
                                                [this] { served_->Cancel(); });
    SessionCall* const started = stream.release();  // it owns itself
    served_ = std::make_unique<ServedStream>(started);
    started->Start();
  }

  void Send(std::string_view bytes) {
    if (!served_->SendFrame(bytes)) return;
    v1::SessionRequest frame;
    if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) frame.Clear();
    answers_.Sent(frame);
    TakeAnswers();
  }
  void HalfClose() { served_->HalfClose(); }
  void Drain() { registry_.Drain(); }
  // The store holds back its calls, or no longer does.
  void TurnStore() {
    shut_ = !shut_;
    if (shut_) {
      store_.Shut();
    } else {
      store_.Open();
    }
  }
  void Cancel() {
    cancelled_ = true;
    served_->Cancel();
  }

  void End() {
    store_.Open();
    waiters_.Close();
    const grpc::Status status = served_->AwaitEnd();
    batcher_.Close();
    TakeAnswers();
    const absl::Status end = FromGrpcStatus(status);
    Require(end.ok() || ReasonOf(end) == Reason::kRequestInvalid,
            "a stream ends well, or says what the caller did wrong");
    if (!cancelled_) answers_.End(/*refused=*/!end.ok());
  }

 private:
  void TakeAnswers() {
    for (const std::string& bytes : served_->TakeFrames()) {
      v1::SessionResponse frame;
      Require(frame.ParseFromString(bytes), "what is sent is a frame");
      Require(bytes.size() <= Limits().max_answer_frame_bytes || frame.answers_size() <= 1,
              "a frame of several answers has its bounds");
      answers_.Came(frame);
    }
  }

  ManualClock clock_;
  MemoryStore memory_{clock_};
  GatedStore store_{memory_};
  Observer observer_;
  Batcher batcher_{store_, observer_, [this] {
                     auto options = OnClock<BatcherOptions>(clock_);
                     options.threads = 1;
                     return options;
                   }()};
  InFlightWaiters waiters_{batcher_, observer_, OnClock<InFlightWaitersOptions>(clock_)};
  Operations operations_{batcher_, waiters_, observer_, OnClock<OperationsOptions>(clock_)};
  SessionRegistry registry_{observer_};
  UnreadAnswerLimits unread_answers_{registry_, batcher_.budget()};
  std::unique_ptr<ServedStream> served_;
  SessionAnswers answers_;
  bool cancelled_ = false;
  bool shut_ = false;
};

}  // namespace

void ServerSession(std::string_view bytes) {
  if (bytes.size() > kMaxInputBytes) return;
  Input input(bytes);
  Service service;
  for (int step = 0; step < kMaxSteps && !input.empty(); ++step) {
    switch (input.Byte() % 8) {
      case 4:
        service.TurnStore();
        break;
      case 5:
        service.Drain();
        break;
      case 6:
        service.HalfClose();
        break;
      case 7:
        service.Cancel();
        break;
      default:
        service.Send(input.Block());
    }
  }
  service.End();
}

}  // namespace idempotency::internal::fuzz
