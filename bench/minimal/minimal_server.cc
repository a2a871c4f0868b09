// The Charges service on gRPC's callback API, unguarded on one port and, on another one, with the
// least that a guard can do: a key's record is made, the handler runs, its reply is kept, and a
// retry gets it. There are no leases, deadlines, tenants, errors, waiters or metrics. Prints the
// same line as charges_server, for the same load generator.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

#include "bench/charges.grpc.pb.h"
#include "bench/charges_service.h"
#include "bench/minimal/daemon_session.h"
#include "bench/minimal/operation.h"
#include "bench/minimal/record_store.h"
#include "bench/stop_signals.h"
#include "core/sha256.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/uuid.h"

ABSL_FLAG(std::string, daemon, "", "Address of minimal_daemon.");
ABSL_FLAG(std::string, store, "", "Location of the records, postgresql://..., without a daemon.");
ABSL_FLAG(int, connections, 1, "Connections to Postgres, with --store.");
ABSL_FLAG(bool, wait_alone, true,
          "With --store, a call that is the only one waits for Postgres on gRPC's thread.");
ABSL_FLAG(bool, cache, false, "Replies are kept in the process, too, and never forgotten.");
ABSL_FLAG(std::size_t, reply_bytes, 256, "Size of a reply's receipt.");

namespace idempotency::internal::bench {
namespace {

constexpr char kListen[] = "127.0.0.1:0";
constexpr std::chrono::seconds kDrain(5);
constexpr std::int64_t kRetention = 24 * 3600;

// Keys of the load are UUIDs.
RecordId IdOf(std::string_view key) {
  if (const std::optional<Uuid> parsed = Uuid::Parse(key)) return *parsed;
  RecordId::Bytes bytes;
  std::memcpy(bytes.data(), Sha256(key).data(), bytes.size());
  return RecordId(bytes);
}

std::string Rfc3339(std::int64_t seconds) {
  const time_t time = seconds;
  tm parts;
  char text[sizeof("2000-01-01T00:00:00Z")];
  return {text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time, &parts))};
}

// The replies of completed records. Thread-safe.
class Cache {
 public:
  struct Entry {
    Sha256Digest fingerprint;
    std::int64_t expires_at;
    std::string reply;
  };

  std::shared_ptr<const Entry> Find(const RecordId& id) {
    Shard& shard = ShardOf(id);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.entries.find(id);
    return found == shard.entries.end() ? nullptr : found->second;
  }
  void Insert(const RecordId& id, Entry entry) {
    Shard& shard = ShardOf(id);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.entries.emplace(id, std::make_shared<const Entry>(std::move(entry)));
  }

 private:
  struct Shard {
    std::mutex mutex;
    absl::flat_hash_map<RecordId, std::shared_ptr<const Entry>> entries;
  };
  // The last bits of an id are random.
  Shard& ShardOf(const RecordId& id) { return shards_[id.bytes()[15] % kShards]; }

  static constexpr std::size_t kShards = 16;
  Shard shards_[kShards];
};

struct Guarding {
  Operations& operations;
  // Null without one.
  Cache* cache;
  const std::string receipt;
  // The store, if calls that are alone wait for it.
  RecordStore* waiting_store = nullptr;
  std::atomic<std::int64_t> next_token = 1;
  std::atomic<int> in_flight = 0;
};

// A guarded call from its request to its reply. It is the operation too: its reservation, then its
// completion. It deletes itself.
class GuardedCall final : public grpc::ServerUnaryReactor, private Operation {
 public:
  GuardedCall(Guarding& guarding, grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
      : guarding_(guarding), context_(context), response_(response) {}

  void Start(const grpc::ByteBuffer& request) {
    const auto key =
        context_.client_metadata().find(grpc::string_ref(kKeyMetadata.data(), kKeyMetadata.size()));
    if (key == context_.client_metadata().end()) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no idempotency-key"));
    }
    request_ = BytesOf(request, request_slice_);
    id = IdOf({key->second.data(), key->second.size()});
    fingerprint = Sha256(request_);
    if (guarding_.cache != nullptr) {
      if (const auto entry = guarding_.cache->Find(id)) {
        if (entry->fingerprint != fingerprint) return Refuse();
        return Answer(entry->reply, entry->expires_at, /*replayed=*/true);
      }
    }
    token = guarding_.next_token.fetch_add(1, std::memory_order_relaxed);
    expires_at = time(nullptr) + kRetention;
    counted_ = guarding_.waiting_store != nullptr;
    if (counted_ && guarding_.in_flight.fetch_add(1, std::memory_order_relaxed) == 0) {
      guarding_.waiting_store->Perform(*this);
      return Done();
    }
    Submit();
  }

 private:
  void OnDone() override { std::unique_ptr<GuardedCall>(this).reset(); }

  void Submit() {
    if (counted_ && kind == Kind::kComplete &&
        guarding_.in_flight.load(std::memory_order_relaxed) == 1) {
      guarding_.waiting_store->Perform(*this);
      return Done();
    }
    Operation* const only = this;
    guarding_.operations.Submit({&only, 1});
  }

  void Done() override {
    switch (verdict) {
      case Verdict::kGranted:
        Handle();
        kind = Kind::kComplete;
        return Submit();
      case Verdict::kReplay:
      case Verdict::kCompleted:
        if (guarding_.cache != nullptr) {
          guarding_.cache->Insert(id, {fingerprint, expires_at, reply});
        }
        return Answer(reply, expires_at, verdict == Verdict::kReplay);
      case Verdict::kRefused:
        return Refuse();
    }
  }

  // As ChargesService.
  void Handle() {
    charges::v1::ChargeRequest request;
    if (!request.ParseFromArray(request_.data(), static_cast<int>(request_.size()))) {
      Die("a request cannot be parsed");
    }
    charges::v1::ChargeReply made;
    made.set_receipt(guarding_.receipt);
    made.SerializeToString(&reply);
  }

  void Answer(const std::string& bytes, std::int64_t expires, bool replayed) {
    response_ = BufferOf(bytes);
    context_.AddTrailingMetadata(std::string(kRecordMetadata), id.ToString());
    context_.AddTrailingMetadata(std::string(kExpiresMetadata), Rfc3339(expires));
    if (replayed) context_.AddTrailingMetadata(std::string(kReplayedMetadata), "true");
    End(grpc::Status::OK);
  }

  void Refuse() { End(grpc::Status(grpc::StatusCode::ABORTED, "another call has this key")); }

  void End(const grpc::Status& status) {
    // Before the caller can send its next call.
    if (counted_) guarding_.in_flight.fetch_sub(1, std::memory_order_relaxed);
    Finish(status);
  }

  Guarding& guarding_;
  // Among those in flight.
  bool counted_ = false;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  grpc::Slice request_slice_;
  std::string_view request_;
};

class GuardedService final
    : public charges::v1::Charges::WithRawCallbackMethod_Charge<charges::v1::Charges::Service> {
 public:
  explicit GuardedService(Guarding& guarding) : guarding_(guarding) {}

  grpc::ServerUnaryReactor* Charge(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    auto* const call = std::make_unique<GuardedCall>(guarding_, *context, *response).release();
    call->Start(*request);
    return call;
  }

 private:
  Guarding& guarding_;
};

// A server with its service. Stops when destroyed.
class Serving {
 public:
  explicit Serving(grpc::Service& service) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    builder.AddListeningPort(kListen, grpc::InsecureServerCredentials(), &port_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) Die("cannot listen");
  }
  ~Serving() { server_->Shutdown(std::chrono::system_clock::now() + kDrain); }
  int port() const { return port_; }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<Operations> OperationsOfFlags() {
  const std::string daemon = absl::GetFlag(FLAGS_daemon);
  if (!daemon.empty()) return std::make_unique<DaemonSession>(daemon);
  const std::string store = absl::GetFlag(FLAGS_store);
  if (store.empty()) Die("neither --daemon nor --store");
  return std::make_unique<RecordStore>(store, absl::GetFlag(FLAGS_connections));
}

void Serve(const sigset_t& stop_signals) {
  ChargesService service(absl::GetFlag(FLAGS_reply_bytes));
  const std::unique_ptr<Operations> operations = OperationsOfFlags();
  Cache cache;
  Guarding guarding{*operations, absl::GetFlag(FLAGS_cache) ? &cache : nullptr,
                    std::string(absl::GetFlag(FLAGS_reply_bytes), 'r')};
  if (absl::GetFlag(FLAGS_wait_alone)) {
    guarding.waiting_store = dynamic_cast<RecordStore*>(operations.get());
  }
  GuardedService guarded_service(guarding);
  const Serving bare(service);
  const Serving guarded(guarded_service);
  std::cout << "charges: serving on 127.0.0.1:" << bare.port()
            << ", guarded on 127.0.0.1:" << guarded.port() << std::endl;
  int signal = 0;
  sigwait(&stop_signals, &signal);
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("the Charges service with the least that a guard can do.");
  absl::ParseCommandLine(argc, argv);
  const sigset_t stop_signals = idempotency::internal::bench::BlockStopSignals();
  idempotency::internal::bench::Serve(stop_signals);
  return 0;
}
