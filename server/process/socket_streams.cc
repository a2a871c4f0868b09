#include "server/process/socket_streams.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {
namespace {

// Of a page of sockets.
constexpr std::intptr_t kPage = 500;

struct FreeText {
  void operator()(char* text) const { gpr_free(text); }
};
using Json = std::unique_ptr<char, FreeText>;

absl::string_view TextOf(const Json& json) {
  return json != nullptr ? absl::string_view(json.get()) : absl::string_view();
}

// The next value of `name`, which is given with its quotes; a text without them. `json` begins with
// that value afterwards. nullopt if there is no such name.
std::optional<absl::string_view> TakeValue(absl::string_view& json, absl::string_view name) {
  const std::size_t at = json.find(name);
  if (at == absl::string_view::npos) return std::nullopt;
  json.remove_prefix(at + name.size());
  const std::size_t begin = json.find_first_not_of(": \n\"");
  if (begin == absl::string_view::npos) return std::nullopt;
  json.remove_prefix(begin);
  return json.substr(0, json.find_first_of("\",}] \n"));
}

std::optional<std::int64_t> TakeNumber(absl::string_view& json, absl::string_view name) {
  const std::optional<absl::string_view> text = TakeValue(json, name);
  std::int64_t number = 0;
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

// 0 where gRPC leaves it out.
std::int64_t NumberIn(absl::string_view json, absl::string_view name) {
  return TakeNumber(json, name).value_or(0);
}

std::optional<SocketStreams> StreamsOf(std::int64_t socket) {
  const Json json(grpc_channelz_get_socket(static_cast<std::intptr_t>(socket)));
  const absl::string_view text = TextOf(json);
  SocketStreams streams;
  streams.socket = socket;
  streams.begun = NumberIn(text, "\"streamsStarted\"");
  if (streams.begun == 0) return std::nullopt;
  streams.answered = NumberIn(text, "\"streamsSucceeded\"");
  streams.failed = NumberIn(text, "\"streamsFailed\"");
  return streams;
}

void AppendStreamsOf(std::int64_t server, std::vector<SocketStreams>& all) {
  std::int64_t next = 0;
  while (true) {
    const Json page(grpc_channelz_get_server_sockets(static_cast<std::intptr_t>(server),
                                                     static_cast<std::intptr_t>(next), kPage));
    absl::string_view rest = TextOf(page);
    const bool last = absl::StrContains(rest, "\"end\":true");
    const std::int64_t before = next;
    while (const std::optional<std::int64_t> socket = TakeNumber(rest, "\"socketId\"")) {
      next = *socket + 1;
      if (const std::optional<SocketStreams> streams = StreamsOf(*socket)) all.push_back(*streams);
    }
    if (last || next == before) return;
  }
}

Json Servers() { return Json(grpc_channelz_get_servers(0)); }

}  // namespace

std::int64_t CallsBegun() {
  const Json servers = Servers();
  absl::string_view rest = TextOf(servers);
  std::int64_t begun = 0;
  while (const std::optional<std::int64_t> calls = TakeNumber(rest, "\"callsStarted\"")) {
    begun += *calls;
  }
  return begun;
}

std::vector<SocketStreams> AllSocketStreams() {
  std::vector<SocketStreams> all;
  const Json servers = Servers();
  absl::string_view rest = TextOf(servers);
  while (const std::optional<std::int64_t> server = TakeNumber(rest, "\"serverId\"")) {
    AppendStreamsOf(*server, all);
  }
  return all;
}

std::optional<RemoteAddress> RemoteAddressOf(const SocketStreams& streams) {
  const Json json(grpc_channelz_get_socket(static_cast<std::intptr_t>(streams.socket)));
  absl::string_view rest = TextOf(json);
  RemoteAddress remote;
  if (!TakeValue(rest, "\"remote\"")) return std::nullopt;
  const std::optional<absl::string_view> address = TakeValue(rest, "\"ip_address\"");
  if (!address || !absl::Base64Unescape(*address, &remote.first)) return std::nullopt;
  const std::optional<std::int64_t> port = TakeNumber(rest, "\"port\"");
  if (!port) return std::nullopt;
  remote.second = static_cast<int>(*port);
  return remote;
}

}  // namespace idempotency::internal
