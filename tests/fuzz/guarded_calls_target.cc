// Whole calls of a guarded method, as any caller may make them: any metadata, any message, any key.
// They are sent over a socket, through the guard and its one session, to the real service in this
// process; gRPC's own clients would refuse to send most of them. The invariant: another caller is
// never affected.
//
// An input is a list of calls. Each has a byte that selects its parts; then, if selected, a key, a
// traceparent, a parent, a scope, an entry of any name, and a message, each a block.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/server_guard/scope.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"
#include "tests/integration/memory_service.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/raw_http2_client.h"

namespace idempotency::internal::fuzz {
namespace {

using testing::MemoryService;
using testing::Outcome;
using testing::ProbeClient;
using testing::ProbeServer;
using testing::RawHttp2Client;

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr char kScope[] = "x-tenant";
constexpr int kMaxCalls = 4;
// The limit for the headers of a call together.
constexpr std::size_t kMaxHeaderBytes = 4 * 1024;
constexpr std::size_t kMaxMessageBytes = 8 * 1024;
// Far longer than a call takes, also on a loaded machine.
constexpr std::chrono::seconds kInTime(20);
// After this many calls all records are forgotten at once.
constexpr std::uint64_t kCallsOfOneService = 2'000;

// Not allowed in a header: HTTP/2 forbids these, and gRPC ends the connection for them.
std::string AsHeaderValue(std::string_view bytes) {
  std::string value(bytes.substr(0, kMaxHeaderBytes));
  std::replace_if(
      value.begin(), value.end(), [](char c) { return c == '\0' || c == '\r' || c == '\n'; }, '?');
  return value;
}

// A name that gRPC accepts and does not use itself.
std::string AsHeaderName(std::string_view bytes) {
  std::string name = "x-";
  for (const char c : bytes.substr(0, 64)) {
    name.push_back(static_cast<char>('a' + static_cast<std::uint8_t>(c) % 26));
  }
  return name;
}

// A guarded server in front of the service, its hostile caller, and the innocent one.
class World {
 public:
  World() : server_(Options()) {}

  void Send(Input& input) {
    RawHttp2Client::Headers headers;
    const std::uint8_t carries = input.Byte();
    if ((carries & 1) != 0) headers.emplace_back("idempotency-key", AsHeaderValue(input.Block()));
    if ((carries & 2) != 0) headers.emplace_back("traceparent", AsHeaderValue(input.Block()));
    if ((carries & 4) != 0) {
      headers.emplace_back("idempotency-parent-bin", absl::Base64Escape(BlockOf(input)));
    }
    // Never the innocent caller's own: its authentication must prevent that.
    if ((carries & 8) != 0) {
      headers.emplace_back(kScope, absl::StrCat("h", AsHeaderValue(input.Block())));
    }
    if ((carries & 16) != 0) {
      std::string name = AsHeaderName(input.Block());
      headers.emplace_back(std::move(name), AsHeaderValue(input.Block()));
    }
    const std::string message = BlockOf(input).substr(0, kMaxMessageBytes);
    const auto end = hostile_.Call(kAct, headers, message, kInTime);
    Require(end != RawHttp2Client::End::kNoAnswer, "every call is answered, or is none");
    ++calls_;
  }

  void CheckInnocent() {
    const std::string key = absl::StrCat("innocent-", ++calls_);
    const int runs = innocent_runs_;
    testing::Call call;
    call.keys = {key};
    call.metadata = {{kScope, kInnocent}};
    call.timeout = kInTime;
    const Outcome first = innocent_.Send(call);
    Require(first.status.ok(), "another caller is served");
    call.context = std::make_shared<grpc::ClientContext>();
    const Outcome again = innocent_.Send(call);
    Require(again.status.ok() && again.replayed() && again.body == first.body,
            "another caller's reply is kept");
    Require(innocent_runs_ == runs + 1, "another caller's handler runs once");
    Require(server_.guard().calls_failed_open() == 0,
            "nothing runs unguarded while the service is there");
  }

  bool old() const { return calls_ >= kCallsOfOneService; }

 private:
  static constexpr char kInnocent[] = "innocent";

  static std::string BlockOf(Input& input) { return std::string(input.Block()); }

  ProbeServer::Options Options() {
    ProbeServer::Options options;
    options.channel = service_.channel();
    options.guard.scope = MetadataScope(kScope);
    // A refusal that was treated as a missing answer would show.
    options.guard.methods[kAct].MutableReplacementPolicy().fail_open = true;
    options.guard.verdict_timeout = absl::FromChrono(kInTime);
    options.handler = [this](grpc::ServerContextBase& context, const testing::ActRequest& request,
                             testing::ActReply& reply) {
      const auto scope = context.client_metadata().find(kScope);
      if (scope != context.client_metadata().end() && scope->second == kInnocent) {
        ++innocent_runs_;
      }
      reply.set_effect(request.account());
      return grpc::Status::OK;
    };
    return options;
  }

  std::atomic<int> innocent_runs_{0};
  std::uint64_t calls_ = 0;
  MemoryService service_;
  ProbeServer server_;
  RawHttp2Client hostile_{server_.address()};
  ProbeClient innocent_{server_.address()};
};

// One for many inputs, as one service has many callers.
std::unique_ptr<World>& TheWorld() {
  static auto& world = *std::make_unique<std::unique_ptr<World>>().release();
  if (world == nullptr || world->old()) {
    world.reset();
    world = std::make_unique<World>();
  }
  return world;
}

}  // namespace

void GuardedCalls(std::string_view bytes) {
  Input input(bytes);
  World& world = *TheWorld();
  for (int calls = 0; calls < kMaxCalls && !input.empty(); ++calls) world.Send(input);
  world.CheckInnocent();
}

}  // namespace idempotency::internal::fuzz
