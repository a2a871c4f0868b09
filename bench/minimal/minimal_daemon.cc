// The daemon of minimal_server: sessions of frames on one completion queue with one thread, and the
// records in Postgres. It has no leases, deadlines, tenants, errors, waiters or metrics: what it
// costs is what a daemon cannot do without. Prints its address on one line when it serves.
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

#include "bench/minimal/operation.h"
#include "bench/minimal/record_store.h"
#include "bench/stop_signals.h"

ABSL_FLAG(std::string, store, "", "Location of the records, postgresql://...");
ABSL_FLAG(int, connections, 1, "Connections to Postgres, besides the one of lone operations.");
ABSL_FLAG(bool, wait_alone, true,
          "An operation that a session says is its only one is performed by the thread that reads "
          "it, which waits.");

namespace idempotency::internal::bench {
namespace {

constexpr char kListen[] = "127.0.0.1:0";

// What a completion queue returns.
class Tag {
 public:
  virtual void Proceed(bool ok) = 0;

 protected:
  ~Tag() = default;
};

class Daemon;

// A stream. It is destroyed with its last tag or operation.
class Session final {
 public:
  // Requests the next stream.
  static void Accept(Daemon& daemon);

  explicit Session(Daemon& daemon) : daemon_(daemon) {}

  // The answer goes with Flush().
  void Gather(std::uint64_t cookie, const Operation& operation) {
    WriteAnswer(cookie, operation, gathered_);
  }

 private:
  friend class DaemonOperation;
  friend class Daemon;

  class Step final : public Tag {
   public:
    Step(Session& session, void (Session::*next)(bool)) : session_(session), next_(next) {}
    void Proceed(bool ok) override { (session_.*next_)(ok); }

   private:
    Session& session_;
    void (Session::*const next_)(bool);
  };

  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool /*ok*/) { Release(); }

  void Read() { stream_.Read(&read_, &on_read_); }
  // Writes what has gathered, unless a frame is being written.
  void Flush();
  void Retain() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::unique_ptr<Session>(this).reset();
    }
  }

  Daemon& daemon_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  Step on_accepted_{*this, &Session::OnAccepted};
  Step on_read_{*this, &Session::OnRead};
  Step on_written_{*this, &Session::OnWritten};
  Step on_finished_{*this, &Session::OnFinished};
  grpc::ByteBuffer read_;
  // Of its tags and its operations.
  std::atomic<int> uses_ = 1;

  std::mutex mutex_;
  FrameWriter gathered_;
  bool writing_ = false;
  bool closed_ = false;
};

// An operation of a session at the store. It deletes itself.
class DaemonOperation final : public Operation {
 public:
  DaemonOperation(Session& session, FrameReader& frame) : session_(session) {
    cookie_ = ReadOperation(frame, *this);
    session_.Retain();
  }
  ~DaemonOperation() override { session_.Release(); }

  void Done() override;
  void Answer() {
    const std::lock_guard<std::mutex> lock(session_.mutex_);
    session_.Gather(cookie_, *this);
  }
  Session& session() { return session_; }

 private:
  Session& session_;
  std::uint64_t cookie_ = 0;
};

class Daemon {
 public:
  Daemon()
      : store_(absl::GetFlag(FLAGS_store), absl::GetFlag(FLAGS_connections),
               [this] { FlushBatch(); }),
        wait_alone_(absl::GetFlag(FLAGS_wait_alone)) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    builder.AddListeningPort(kListen, grpc::InsecureServerCredentials(), &port_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) Die("cannot listen");
    Session::Accept(*this);
    thread_ = std::thread([this] { Poll(); });
  }
  ~Daemon() {
    stopping_ = true;
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    thread_.join();
  }

  int port() const { return port_; }

 private:
  friend class Session;
  friend class DaemonOperation;

  void Poll() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
  }

  // On the store's thread: one frame for each session.
  void FlushBatch() {
    for (auto& operation : batch_) operation->Answer();
    for (auto& operation : batch_) operation->session().Flush();
    batch_.clear();
  }

  grpc::AsyncGenericService service_;
  // Answered, and not yet written. Of the store's thread.
  std::vector<std::unique_ptr<DaemonOperation>> batch_;
  RecordStore store_;
  const bool wait_alone_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

void DaemonOperation::Done() { session_.daemon_.batch_.emplace_back(this); }

void Session::Accept(Daemon& daemon) {
  Session* const next = std::make_unique<Session>(daemon).release();
  daemon.service_.RequestCall(&next->context_, &next->stream_, daemon.queue_.get(),
                              daemon.queue_.get(), &next->on_accepted_);
}

void Session::OnAccepted(bool ok) {
  if (!ok) return Release();
  if (!daemon_.stopping_) Accept(daemon_);
  Read();
}

void Session::OnRead(bool ok) {
  if (!ok) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    return stream_.Finish(grpc::Status::OK, &on_finished_);
  }
  FrameReader frame(read_);
  std::vector<Operation*> operations;
  // The last byte is no operation.
  while (frame.size() > 1) {
    operations.push_back(std::make_unique<DaemonOperation>(*this, frame).release());
  }
  if (frame.Number<bool>() && daemon_.wait_alone_) {
    const std::unique_ptr<DaemonOperation> only(static_cast<DaemonOperation*>(operations[0]));
    daemon_.store_.Perform(*only);
    only->Answer();
    Flush();
    // Behind the write, whose packet extends the window.
    return Read();
  }
  daemon_.store_.Submit(operations);
  Read();
}

void Session::Flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (writing_ || closed_ || gathered_.empty()) return;
  writing_ = true;
  Retain();
  stream_.Write(gathered_.Take(), &on_written_);
}

void Session::OnWritten(bool ok) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok) closed_ = true;
  }
  Flush();
  Release();
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("the least that a daemon can do for guarded calls.");
  absl::ParseCommandLine(argc, argv);
  const sigset_t stop_signals = idempotency::internal::bench::BlockStopSignals();
  const idempotency::internal::bench::Daemon daemon;
  std::cout << "minimal_daemon: serving on 127.0.0.1:" << daemon.port() << std::endl;
  int signal = 0;
  sigwait(&stop_signals, &signal);
  return 0;
}
