#include "tests/simulation/stream_wire.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/slice.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/limits.h"
#include "server/rpc/session_call.h"

namespace idempotency::internal::simulation {
namespace {

using ServerReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr Nanos kBufferDelay = 20 * kMicrosecond;
// The interval in which a frame that a partition holds back is tried again.
constexpr Nanos kPartitionPoll = 50 * kMillisecond;
constexpr Nanos kSlowestBreak = 3 * kSecond;

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return {};
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Frames in one direction, in order.
class Pipe {
 public:
  Pipe(Network& network, std::string from, std::string to)
      : network_(network), from_(std::move(from)), to_(std::move(to)) {}

  // `deliver` runs in `process` after that of the last frame.
  void Send(Process* process, std::function<void()> deliver) {
    waiting_.push_back(std::move(deliver));
    if (waiting_.size() == 1) Next(process);
  }

 private:
  void Next(Process* process) {
    const bool cut = network_.IsCut(from_, to_);
    network_.scheduler().After(cut ? kPartitionPoll : network_.Latency(), process,
                               [this, cut, process] {
                                 if (cut) return Next(process);
                                 const auto deliver = std::move(waiting_.front());
                                 waiting_.pop_front();
                                 deliver();
                                 if (!waiting_.empty()) Next(process);
                               });
  }

  Network& network_;
  const std::string from_;
  const std::string to_;
  std::deque<std::function<void()>> waiting_;
};

class Stream;

// The daemon's end, in place of gRPC.
class ServerEnd final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit ServerEnd(Stream& stream) : stream_(stream) {}

  void Accept(Daemon& daemon);
  void OnFrame(std::string frame) {
    incoming_.push_back(std::move(frame));
    Deliver();
  }
  // The caller sends no more.
  void OnHalfClose() {
    half_closed_ = true;
    Deliver();
  }
  // The caller has ended.
  void OnBreak();

  void Read(grpc::ByteBuffer* into) override {
    reading_ = into;
    Deliver();
  }
  void Write(const grpc::ByteBuffer* frame, grpc::WriteOptions) override;
  void Finish(grpc::Status status) override;
  void SendInitialMetadata() override {}
  void WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions, grpc::Status) override {
    std::abort();
  }

 private:
  ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  // Runs an event of the reactor on a thread of the daemon.
  void Post(std::function<void()> event);
  void Deliver();
  void EndWrite(bool ok);
  void EndIfDone();

  Stream& stream_;
  Daemon* daemon_ = nullptr;
  ServerReactor* reactor_ = nullptr;
  std::deque<std::string> incoming_;
  grpc::ByteBuffer* reading_ = nullptr;
  bool writing_ = false;
  bool half_closed_ = false;
  bool broken_ = false;
  bool finished_ = false;
  bool done_ = false;
  int events_ = 0;
};

// The application server's end, under the rules of a SessionStream.
class ClientEnd final : public SessionStream {
 public:
  ClientEnd(Stream& stream, Events& events) : stream_(stream), events_to_(events) {}

  void Start() override;
  void Read() override {
    reading_ = true;
    Deliver();
  }
  void Write(std::string frame) override;
  void HalfClose() override;
  void Cancel() override;
  void Release() override {
    released_ = true;
    EndIfDone();
  }

  void OnFrame(std::string frame) {
    if (status_) return;
    incoming_.push_back(std::move(frame));
    Deliver();
  }
  void OnStatus(const grpc::Status& status);

 private:
  void Post(std::function<void()> event);
  void Deliver();
  void EndWrite(bool ok);
  void EndIfDone();

  Stream& stream_;
  Events& events_to_;
  std::deque<std::string> incoming_;
  std::optional<grpc::Status> status_;
  bool started_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool released_ = false;
  bool ended_ = false;
  int events_ = 0;
};

// Both ends and the network between them. Kept as long as the run: there are few.
class Stream {
 public:
  Stream(Network& network, Daemons& daemons, Process& client, const Plan& plan,
         SessionStream::Events& events)
      : network_(network),
        daemons_(daemons),
        client_process_(client),
        plan_(plan),
        client_(*this, events),
        server_(*this) {}

  ClientEnd& client() { return client_; }
  Network& network() { return network_; }
  Scheduler& scheduler() { return network_.scheduler(); }
  Process& client_process() { return client_process_; }

  void Connect() {
    daemon_ = daemons_.Pick(scheduler().random());
    scheduler().After(network_.Latency(), &client_process_, [this] {
      if (!Daemons::IsUp(daemon_)) {
        return client_.OnStatus({grpc::StatusCode::UNAVAILABLE, "connection refused"});
      }
      if (!plan_.sessions) {
        network_.journal().Counted(Count::kDaemonWithoutSessions);
        return client_.OnStatus({grpc::StatusCode::UNIMPLEMENTED, "no such method"});
      }
      up_.emplace(network_, client_process_.name(), daemon_->name());
      down_.emplace(network_, daemon_->name(), client_process_.name());
      up_->Send(&daemon_->process(), [this] { server_.Accept(*daemon_); });
      for (std::string& frame : early_) ToServer(std::move(frame));
      early_.clear();
      Watch();
    });
  }

  void ToServer(std::string frame) {
    if (!up_) return early_.push_back(std::move(frame));
    if (broken_) return;
    const bool breaks = network_.BreaksStream();
    // The last frame may arrive, and its answer be lost.
    if (!breaks || scheduler().random().Chance(0.5)) {
      up_->Send(&daemon_->process(),
                [this, frame = std::move(frame)]() mutable { server_.OnFrame(std::move(frame)); });
    }
    if (breaks) Break();
  }
  void ToClient(std::string frame) {
    if (broken_) return;
    if (network_.BreaksStream()) return Break();
    down_->Send(&client_process_,
                [this, frame = std::move(frame)]() mutable { client_.OnFrame(std::move(frame)); });
  }
  void HalfCloseToServer() {
    if (up_ && !broken_) up_->Send(&daemon_->process(), [this] { server_.OnHalfClose(); });
  }
  void CancelToServer() {
    if (up_ && !broken_) up_->Send(&daemon_->process(), [this] { server_.OnBreak(); });
  }
  void StatusToClient(const grpc::Status& status) {
    if (!broken_) down_->Send(&client_process_, [this, status] { client_.OnStatus(status); });
  }

  void Break() {
    if (broken_) return;
    broken_ = true;
    network_.journal().Counted(Count::kStreamBroken);
    Random& random = scheduler().random();
    scheduler().After(random.Between(0, kSlowestBreak), &client_process_, [this] {
      client_.OnStatus({grpc::StatusCode::UNAVAILABLE, "the stream broke"});
    });
    scheduler().After(random.Between(0, kSlowestBreak), &daemon_->process(),
                      [this] { server_.OnBreak(); });
  }

 private:
  // A killed process at either end breaks it.
  void Watch() {
    if (broken_) return;
    if (!daemon_->process().alive() || !client_process_.alive()) return Break();
    scheduler().After(100 * kMillisecond, nullptr, [this] { Watch(); });
  }

  Network& network_;
  Daemons& daemons_;
  Process& client_process_;
  const Plan& plan_;
  ClientEnd client_;
  ServerEnd server_;
  Daemon* daemon_ = nullptr;
  std::optional<Pipe> up_;
  std::optional<Pipe> down_;
  std::vector<std::string> early_;
  bool broken_ = false;
};

// The daemon's end.

void ServerEnd::Accept(Daemon& daemon) {
  daemon_ = &daemon;
  // It deletes itself in OnDone.
  auto* const session =
      std::make_unique<SessionCall>(daemon.operations(), daemon.sessions(), daemon.unread_answers(),
                                    SessionOptions(), [this] { stream_.Break(); })
          .release();
  reactor_ = session;
  session->Start();
  BindReactor(session);
}

void ServerEnd::Post(std::function<void()> event) {
  ++events_;
  stream_.scheduler().After(0, &daemon_->process(), [this, event = std::move(event)] {
    event();
    --events_;
    EndIfDone();
  });
}

void ServerEnd::Deliver() {
  if (reading_ == nullptr || reactor_ == nullptr) return;
  grpc::ByteBuffer* const into = reading_;
  if (broken_ || (half_closed_ && incoming_.empty())) {
    reading_ = nullptr;
    Post([this] { reactor_->OnReadDone(false); });
  } else if (!incoming_.empty()) {
    reading_ = nullptr;
    const grpc::Slice slice(incoming_.front());
    *into = grpc::ByteBuffer(&slice, 1);
    incoming_.pop_front();
    Post([this] { reactor_->OnReadDone(true); });
  }
}

void ServerEnd::Write(const grpc::ByteBuffer* frame, grpc::WriteOptions) {
  writing_ = true;
  if (broken_) return EndWrite(false);
  stream_.ToClient(BytesOf(*frame));
  stream_.scheduler().After(kBufferDelay, &daemon_->process(), [this] {
    if (writing_) EndWrite(!broken_);
  });
}

void ServerEnd::EndWrite(bool ok) {
  writing_ = false;
  Post([this, ok] { reactor_->OnWriteDone(ok); });
}

void ServerEnd::OnBreak() {
  if (broken_ || reactor_ == nullptr || done_) return;
  broken_ = true;
  if (writing_) EndWrite(false);
  if (!finished_) Post([this] { reactor_->OnCancel(); });
  Deliver();
}

void ServerEnd::Finish(grpc::Status status) {
  finished_ = true;
  stream_.StatusToClient(status);
  EndIfDone();
}

void ServerEnd::EndIfDone() {
  if (!finished_ || done_ || events_ > 0 || writing_ || reading_ != nullptr) return;
  done_ = true;
  stream_.scheduler().After(0, &daemon_->process(), [this] { reactor_->OnDone(); });
}

// The application server's end.

void ClientEnd::Start() {
  started_ = true;
  reading_ = true;
  stream_.Connect();
}

void ClientEnd::Write(std::string frame) {
  writing_ = true;
  if (status_) {
    if (started_) EndWrite(false);
    return;
  }
  stream_.ToServer(std::move(frame));
  stream_.scheduler().After(kBufferDelay, &stream_.client_process(), [this] {
    if (writing_) EndWrite(!status_);
  });
}

void ClientEnd::HalfClose() {
  writing_ = true;
  if (!status_) stream_.HalfCloseToServer();
  EndWrite(!status_);
}

void ClientEnd::Cancel() {
  if (status_) return;
  stream_.CancelToServer();
  OnStatus({grpc::StatusCode::CANCELLED, "cancelled"});
}

void ClientEnd::OnStatus(const grpc::Status& status) {
  if (status_) return;
  status_ = status;
  incoming_.clear();
  if (writing_) EndWrite(false);
  Deliver();
  EndIfDone();
}

void ClientEnd::Post(std::function<void()> event) {
  ++events_;
  stream_.scheduler().After(0, &stream_.client_process(), [this, event = std::move(event)] {
    event();
    --events_;
    EndIfDone();
  });
}

void ClientEnd::Deliver() {
  if (!reading_) return;
  if (status_) {
    reading_ = false;
    Post([this] { events_to_.OnReadEnd(*this); });
  } else if (!incoming_.empty()) {
    reading_ = false;
    v1::SessionResponse frame;
    if (!frame.ParseFromString(incoming_.front())) std::abort();
    incoming_.pop_front();
    Post([this, frame = std::move(frame)] { events_to_.OnFrame(*this, frame); });
  }
}

void ClientEnd::EndWrite(bool ok) {
  writing_ = false;
  Post([this, ok] { events_to_.OnWritten(*this, ok); });
}

void ClientEnd::EndIfDone() {
  if (!status_ || !released_ || reading_ || writing_ || events_ > 0 || ended_) return;
  ended_ = true;
  stream_.scheduler().After(0, &stream_.client_process(),
                            [this] { events_to_.OnEnd(*this, *status_); });
}

}  // namespace

SessionStreamFactory StreamsOver(Network& network, Daemons& daemons, Process& client,
                                 const Plan& plan) {
  return [&network, &daemons, &client, &plan](SessionStream::Events& events) {
    // Kept until the program ends, like all objects of a killed process.
    auto* const stream = std::make_unique<Stream>(network, daemons, client, plan, events).release();
    return std::shared_ptr<SessionStream>(&stream->client(), [](SessionStream*) {});
  };
}

}  // namespace idempotency::internal::simulation
