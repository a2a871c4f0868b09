#include "interceptors/server/grpc_internals/call_stream_writer.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/slice.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/mutex.h"
#include "interceptors/server/call/batch_message.h"

namespace idempotency::internal::grpc_internals {
namespace {

struct DestroyBuffer {
  void operator()(grpc_byte_buffer* buffer) const { grpc_byte_buffer_destroy(buffer); }
};
using CoreBuffer = std::unique_ptr<grpc_byte_buffer, DestroyBuffer>;

CoreBuffer ToCore(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::vector<grpc_slice> core;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) core.push_back(slice.c_slice());
  }
  // Takes its own references.
  CoreBuffer result(grpc_raw_byte_buffer_create(core.data(), core.size()));
  for (const grpc_slice& slice : core) grpc_slice_unref(slice);
  return result;
}

// A queued message. A ByteBuffer takes some 350 bytes more than its message: while the writer is
// closed, and many may accumulate, they are strings.
using Message = std::variant<std::monostate, grpc::ByteBuffer, std::string>;

bool HasMessage(const Message& message) { return !std::holds_alternative<std::monostate>(message); }

CoreBuffer ToCore(const std::string& bytes) {
  grpc_slice slice = grpc_slice_from_copied_buffer(bytes.data(), bytes.size());
  CoreBuffer result(grpc_raw_byte_buffer_create(&slice, 1));
  grpc_slice_unref(slice);
  return result;
}

CoreBuffer ToCore(const Message& message) {
  if (const auto* bytes = std::get_if<std::string>(&message)) return ToCore(*bytes);
  return ToCore(std::get<grpc::ByteBuffer>(message));
}

// The queue; the API's subclass sends the messages. One is sent at a time, as gRPC requires.
class CallStreamWriter : public StreamWriter,
                         public std::enable_shared_from_this<CallStreamWriter> {
 public:
  void Put(std::optional<grpc::ByteBuffer> message, std::function<void()> passed) override {
    {
      MutexLock lock(mutex_);
      if (discarding_) message.reset();
      // Nothing to send, and no handler waits for it.
      if (!message.has_value() && !passed) return;
      waiting_.push_back({Queued(std::move(message)), std::move(passed)});
    }
    Advance();
  }
  void Open() override {
    {
      MutexLock lock(mutex_);
      open_ = true;
    }
    Advance();
  }
  void Discard() override {
    MutexLock lock(mutex_);
    discarding_ = true;
    // The first one stays while it is sent.
    std::deque<Item> kept;
    for (Item& item : waiting_) {
      const bool in_flight = busy_ && &item == &waiting_.front();
      if (!in_flight) item.message = std::monostate();
      if (in_flight || item.passed) kept.push_back(std::move(item));
    }
    waiting_.swap(kept);
  }
  void Drain(Drained drained) override {
    {
      MutexLock lock(mutex_);
      open_ = true;
      waiting_.push_back(
          {std::monostate(), [this, drained = std::move(drained)] { drained(!broken()); }});
    }
    Advance();
  }

 protected:
  explicit CallStreamWriter(const grpc::internal::Call& call) : call_(call) {}

  // Sends `message`, which does not change until it is sent. Returns whether it was sent, or
  // nullopt if OnSent will report that.
  virtual std::optional<bool> Send(grpc_byte_buffer* message) = 0;
  void OnSent(bool ok) {
    Pass(ok);
    Advance();
  }

  // False if gRPC refuses it.
  bool Start(grpc_byte_buffer* message, void* tag) {
    grpc_op op = {};
    op.op = GRPC_OP_SEND_MESSAGE;
    op.data.send_message.send_message = message;
    return grpc_call_start_batch(call_.call(), &op, 1, tag, nullptr) == GRPC_CALL_OK;
  }

  const grpc::internal::Call& call() const { return call_; }

 private:
  struct Item {
    Message message;
    std::function<void()> passed;
  };

  Message Queued(std::optional<grpc::ByteBuffer> message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!message.has_value()) return std::monostate();
    if (open_) return *std::move(message);
    return BytesOf(*message);
  }

  bool broken() {
    MutexLock lock(mutex_);
    return broken_;
  }

  // Sends the waiting messages, one after another. Never with the lock held: gRPC may answer on
  // this thread.
  void Advance() {
    while (Next()) {
      std::optional<bool> sent = true;
      if (sending_ != nullptr) sent = Send(sending_.get());
      if (!sent.has_value()) return;
      Pass(*sent);
    }
  }

  // True if there is work, for this thread alone.
  bool Next() {
    MutexLock lock(mutex_);
    if (!open_ || busy_ || waiting_.empty()) return false;
    busy_ = true;
    // After a failure nothing more can be sent.
    const Message& message = waiting_.front().message;
    if (HasMessage(message) && !broken_) sending_ = ToCore(message);
    return true;
  }

  // The first one was sent, or never will be.
  void Pass(bool ok) {
    std::function<void()> passed;
    {
      MutexLock lock(mutex_);
      broken_ = broken_ || !ok;
      sending_ = nullptr;
      passed = std::move(waiting_.front().passed);
      waiting_.pop_front();
      busy_ = false;
    }
    if (passed) passed();
  }

  const grpc::internal::Call call_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool discarding_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // The first waiting message is being sent.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> waiting_ ABSL_GUARDED_BY(mutex_);
  // Owned by the thread that set `busy_`.
  CoreBuffer sending_;
};

class SyncStreamWriter final : public CallStreamWriter {
 public:
  explicit SyncStreamWriter(const grpc::internal::Call& call) : CallStreamWriter(call) {}
  bool blocks() const override { return true; }

 protected:
  std::optional<bool> Send(grpc_byte_buffer* message) override {
    if (!Start(message, this)) return false;
    const grpc_event event = grpc_completion_queue_pluck(
        call().cq()->cq(), this, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
    return event.type == GRPC_OP_COMPLETE && event.success != 0;
  }
};

class CallbackStreamWriter final : public CallStreamWriter {
 public:
  explicit CallbackStreamWriter(const grpc::internal::Call& call) : CallStreamWriter(call) {
    tag_.functor_run = [](grpc_completion_queue_functor* tag, int ok) {
      const std::shared_ptr<CallbackStreamWriter> self = std::move(static_cast<Tag*>(tag)->self);
      self->OnSent(ok != 0);
    };
    // The tag's function continues a gRPC batch, and never enters a reactor.
    tag_.inlineable = 1;
  }
  bool blocks() const override { return false; }

 protected:
  std::optional<bool> Send(grpc_byte_buffer* message) override {
    tag_.self = std::static_pointer_cast<CallbackStreamWriter>(shared_from_this());
    if (Start(message, &tag_)) return std::nullopt;
    tag_.self = nullptr;
    return false;
  }

 private:
  struct Tag : grpc_completion_queue_functor {
    // Set while gRPC has the tag.
    std::shared_ptr<CallbackStreamWriter> self;
  };

  Tag tag_ = {};
};

}  // namespace

std::shared_ptr<StreamWriter> MakeSyncStreamWriter(const grpc::internal::Call& call) {
  return std::make_shared<SyncStreamWriter>(call);
}

std::shared_ptr<StreamWriter> MakeCallbackStreamWriter(const grpc::internal::Call& call) {
  return std::make_shared<CallbackStreamWriter>(call);
}

}  // namespace idempotency::internal::grpc_internals
