#include "interceptors/ext_proc/service/processor_stream.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/grpc_headers.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// Messages for Envoy that it has not read: above this, nothing more is read from it.
constexpr std::size_t kMaxUnwrittenBytes = 1024 * 1024;
// The most that a thread of gRPC's reads itself: its fingerprint delays other calls little.
constexpr std::size_t kMaxInlineBytes = 64 * 1024;

// Takes the bytes out of the buffer. nullopt: they are not such a message.
std::optional<Exchange::Request> TakeMessage(grpc::ByteBuffer& bytes) {
  Exchange::Request message;
  const bool parsed =
      grpc::SerializationTraits<Exchange::Request>::Deserialize(&bytes, &message).ok();
  bytes.Clear();
  if (!parsed) return std::nullopt;
  return message;
}

// The exchange decides after this message.
bool IsLast(const Exchange::Request& message) {
  return message.request_body().end_of_stream() || message.response_body().end_of_stream() ||
         message.has_request_trailers() || message.has_response_trailers();
}

void Deliver(std::optional<Exchange::Request> message, GuardedExchange& exchange) {
  if (message.has_value()) {
    exchange.OnMessage(*std::move(message));
  } else {
    exchange.OnUnreadableMessage();
  }
}

grpc::ByteBuffer BytesOf(const Exchange::Response& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  grpc::SerializationTraits<Exchange::Response>::Serialize(message, &bytes, &own);
  return bytes;
}

}  // namespace

ProcessorStream::ProcessorStream(std::shared_ptr<const ProcessorSettings> settings,
                                 ExchangeGuard& guard, WorkerPool& workers, ExchangeBounds& bounds,
                                 ProcessorEvents& events, Callbacks callbacks)
    : guard_(guard),
      workers_(workers),
      bounds_(bounds),
      callbacks_(std::move(callbacks)),
      exchange_(std::move(settings), bounds, events) {}

ProcessorStream::~ProcessorStream() { bounds_.Leave(held_); }

void ProcessorStream::Start() {
  self_ = shared_from_this();
  Apply([](GuardedExchange&, Transfers&) {});
}

void ProcessorStream::Refuse(const absl::Status& why) {
  Apply([why](GuardedExchange& exchange, Transfers&) { exchange.Refuse(why); });
}

void ProcessorStream::OnReadDone(bool ok) {
  if (!ok) {
    return Apply([](GuardedExchange& exchange, Transfers& transfers) {
      transfers.reading = false;
      transfers.half_closed = true;
      exchange.OnEndOfStream();
    });
  }
  if (read_.Length() > kMaxInlineBytes && IsLarge(read_.Length())) {
    return ApplyOnWorker([this](GuardedExchange& exchange, Transfers& transfers) {
      transfers.reading = false;
      Deliver(TakeMessage(read_), exchange);
    });
  }
  auto message = std::make_shared<std::optional<Exchange::Request>>(TakeMessage(read_));
  const bool is_last = message->has_value() && IsLast(**message);
  Change change = [message = std::move(message)](GuardedExchange& exchange, Transfers& transfers) {
    transfers.reading = false;
    Deliver(std::move(*message), exchange);
  };
  if (is_last && IsLarge(0)) return ApplyOnWorker(std::move(change));
  Apply(std::move(change));
}

void ProcessorStream::OnWriteDone(bool ok) {
  Apply([ok](GuardedExchange& exchange, Transfers& transfers) {
    transfers.writing = false;
    if (!ok) exchange.OnEndOfStream();
  });
}

void ProcessorStream::OnCancel() {
  Apply([](GuardedExchange& exchange, Transfers&) { exchange.OnEndOfStream(); });
}

void ProcessorStream::OnDone() {
  callbacks_.done(this);
  // May be the last owner.
  const std::shared_ptr<ProcessorStream> self = std::move(self_);
}

void ProcessorStream::Apply(Change change) {
  const std::shared_ptr<ProcessorStream> self = shared_from_this();
  Next next;
  {
    MutexLock lock(mutex_);
    if (worker_has_it_) {
      changes_.push_back(std::move(change));
      return;
    }
    change(exchange_, transfers_);
    next = Step();
  }
  Do(std::move(next));
}

void ProcessorStream::ApplyOnWorker(Change change) {
  {
    MutexLock lock(mutex_);
    worker_has_it_ = true;
  }
  auto shared = std::make_shared<const Change>(std::move(change));
  const auto taken = workers_.Run([self = shared_from_this(), shared] { self->Work(*shared); });
  // Its threads cannot be started, or it has stopped.
  if (taken != WorkerPool::Outcome::kTaken) Work(*shared);
}

void ProcessorStream::Work(const Change& change) {
  GuardedExchange* exchange = nullptr;
  Transfers* transfers = nullptr;
  {
    MutexLock lock(mutex_);
    exchange = &exchange_;
    transfers = &transfers_;
  }
  change(*exchange, *transfers);
  Next next;
  {
    MutexLock lock(mutex_);
    worker_has_it_ = false;
    for (const Change& later : std::exchange(changes_, {})) later(exchange_, transfers_);
    next = Step();
  }
  Do(std::move(next));
}

bool ProcessorStream::IsLarge(std::size_t bytes) const {
  MutexLock lock(mutex_);
  return !worker_has_it_ && exchange_.holds_messages() &&
         exchange_.held().bytes + bytes > kMaxInlineBytes;
}

void ProcessorStream::Account() {
  ExchangeBounds::Held now = exchange_.held();
  const bool fits = bounds_.Hold(held_, now);
  held_ = std::move(now);
  if (fits) return;
  exchange_.OnNoRoom();
  ExchangeBounds::Held after = exchange_.held();
  bounds_.Hold(held_, after);
  held_ = std::move(after);
}

ProcessorStream::Next ProcessorStream::Step() {
  Account();
  Next next;
  next.misconfigured = exchange_.proxy_misconfigured();
  while (std::optional<GuardedExchange::Task> task = exchange_.TakeTask()) {
    next.tasks.push_back(*std::move(task));
  }
  if (finished_) return next;
  const std::optional<absl::Status>& end = exchange_.end();
  const bool broken = end.has_value() && !end->ok();
  if (!transfers_.writing && !broken) {
    if (std::optional<Exchange::Response> response = exchange_.TakeResponse()) {
      write_ = BytesOf(*response);
      transfers_.writing = true;
      next.write = true;
    }
  }
  if (!transfers_.reading && !transfers_.half_closed && !end.has_value() &&
      exchange_.response_bytes() <= kMaxUnwrittenBytes) {
    transfers_.reading = true;
    next.read = true;
  }
  if (end.has_value() && !transfers_.writing && starting_ == 0 && !next.read) {
    finished_ = true;
    finish_with_ = *end;
    next.finish = true;
  }
  if (next.read || next.write) ++starting_;
  return next;
}

void ProcessorStream::Do(Next next) {
  const bool starts = next.read || next.write;
  if (next.read) StartRead(&read_);
  if (next.write) StartWrite(&write_);
  if (next.finish) {
    absl::Status status;
    {
      MutexLock lock(mutex_);
      status = finish_with_;
    }
    Finish(ToGrpcStatus(status));
  }
  if (next.misconfigured) callbacks_.misconfigured();
  for (GuardedExchange::Task& task : next.tasks) Perform(std::move(task));
  if (!starts) return;
  Next after;
  {
    MutexLock lock(mutex_);
    --starting_;
    if (!worker_has_it_) after = Step();
  }
  // Bounded: it starts something only after an event.
  if (after.read || after.write || after.finish || !after.tasks.empty()) Do(std::move(after));
}

void ProcessorStream::Perform(GuardedExchange::Task task) {
  const std::shared_ptr<ProcessorStream> self = shared_from_this();
  if (auto* admit = std::get_if<GuardedExchange::Admit>(&task)) {
    std::shared_ptr<const ProcessorSettings> settings;
    {
      MutexLock lock(mutex_);
      settings = exchange_.shared_settings();
    }
    guard_.Perform(settings, std::move(*admit), [self](Admission::Decision decision) {
      auto shared = std::make_shared<Admission::Decision>(std::move(decision));
      self->Apply([shared = std::move(shared)](GuardedExchange& exchange, Transfers&) {
        exchange.OnDecision(std::move(*shared));
      });
    });
    return;
  }
  const auto settled = [self](const Settlement::Outcome& outcome) {
    self->Apply([outcome](GuardedExchange& exchange, Transfers&) { exchange.OnSettled(outcome); });
  };
  if (auto* settle = std::get_if<GuardedExchange::Settle>(&task)) {
    ExchangeGuard::Perform(std::move(*settle), settled);
  } else {
    ExchangeGuard::Perform(std::move(std::get<GuardedExchange::ReleaseWithoutEffect>(task)),
                           settled);
  }
}

}  // namespace idempotency::internal
