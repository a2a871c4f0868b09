#include "server/process/socket_streams.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace idempotency::internal {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

// Of a page of sockets.
constexpr std::intptr_t kPage = 500;

struct FreeText {
  void operator()(char* text) const { gpr_free(text); }
};

// Parses the JSON that gRPC has written; an empty object for nullptr.
Struct Parse(char* json) {
  const std::unique_ptr<char, FreeText> text(json);
  Struct parsed;
  if (text != nullptr) google::protobuf::util::JsonStringToMessage(text.get(), &parsed).ok();
  return parsed;
}

const Value& At(const Struct& object, const char* name) {
  const auto found = object.fields().find(name);
  return found != object.fields().end() ? found->second : Value::default_instance();
}

// A 64-bit number is a text in protobuf's JSON, and left out where it is 0.
std::int64_t NumberAt(const Struct& object, const char* name) {
  const Value& value = At(object, name);
  std::int64_t number = 0;
  if (value.kind_case() == Value::kNumberValue) {
    return static_cast<std::int64_t>(value.number_value());
  }
  return absl::SimpleAtoi(value.string_value(), &number) ? number : 0;
}

std::intptr_t IdAt(const Struct& object, const char* ref, const char* name) {
  return static_cast<std::intptr_t>(NumberAt(At(object, ref).struct_value(), name));
}

std::optional<SocketStreams> StreamsOf(std::intptr_t socket) {
  const Struct page = Parse(grpc_channelz_get_socket(socket));
  const Struct& parsed = At(page, "socket").struct_value();
  const Struct& address = At(At(parsed, "remote").struct_value(), "tcpip_address").struct_value();
  SocketStreams streams;
  if (!absl::Base64Unescape(At(address, "ip_address").string_value(), &streams.remote.first)) {
    return std::nullopt;
  }
  streams.remote.second = static_cast<int>(NumberAt(address, "port"));
  const Struct& data = At(parsed, "data").struct_value();
  streams.begun = NumberAt(data, "streamsStarted");
  streams.answered = NumberAt(data, "streamsSucceeded");
  streams.failed = NumberAt(data, "streamsFailed");
  return streams;
}

void AppendStreamsOf(std::intptr_t server, std::vector<SocketStreams>& all) {
  std::intptr_t next = 0;
  while (true) {
    const Struct page = Parse(grpc_channelz_get_server_sockets(server, next, kPage));
    const ListValue& sockets = At(page, "socketRef").list_value();
    for (const Value& socket : sockets.values()) {
      const auto id = static_cast<std::intptr_t>(NumberAt(socket.struct_value(), "socketId"));
      next = id + 1;
      std::optional<SocketStreams> streams = StreamsOf(id);
      if (streams) all.push_back(*std::move(streams));
    }
    if (At(page, "end").bool_value() || sockets.values().empty()) return;
  }
}

Struct Servers() { return Parse(grpc_channelz_get_servers(0)); }

}  // namespace

std::int64_t CallsBegun() {
  std::int64_t begun = 0;
  const Struct servers = Servers();
  for (const Value& server : At(servers, "server").list_value().values()) {
    begun += NumberAt(At(server.struct_value(), "data").struct_value(), "callsStarted");
  }
  return begun;
}

std::vector<SocketStreams> AllSocketStreams() {
  std::vector<SocketStreams> all;
  const Struct servers = Servers();
  for (const Value& server : At(servers, "server").list_value().values()) {
    AppendStreamsOf(IdAt(server.struct_value(), "ref", "serverId"), all);
  }
  return all;
}

}  // namespace idempotency::internal
