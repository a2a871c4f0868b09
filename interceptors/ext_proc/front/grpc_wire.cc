#include "interceptors/ext_proc/front/grpc_wire.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "core/absl_view.h"
#include "core/hex.h"
#include "core/length_prefix.h"

namespace idempotency::internal {
namespace {

// A flag, and the length of the message as a big-endian number.
constexpr std::size_t kPrefixBytes = 5;
constexpr char kHexDigits[] = "0123456789ABCDEF";

bool IsPlain(char c) { return c >= 0x20 && c <= 0x7E && c != '%'; }

}  // namespace

std::optional<GrpcMessages> ReadGrpcMessages(std::string_view body) {
  GrpcMessages read;
  while (!body.empty()) {
    if (body.size() < kPrefixBytes) return std::nullopt;
    const char flag = body[0];
    if (flag != 0 && flag != 1) return std::nullopt;
    const std::size_t length = ReadBigEndian32(body.substr(1));
    body.remove_prefix(kPrefixBytes);
    if (body.size() < length) return std::nullopt;
    read.compressed |= flag == 1;
    read.messages.push_back(body.substr(0, length));
    body.remove_prefix(length);
  }
  return read;
}

void AppendGrpcMessage(std::string_view message, std::string& body) {
  body.push_back(0);
  AppendBigEndian32(static_cast<std::uint32_t>(message.size()), body);
  body.append(message);
}

std::string EncodeStatusMessage(std::string_view message) {
  std::string encoded;
  encoded.reserve(message.size());
  for (const char c : message) {
    if (IsPlain(c)) {
      encoded.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded.push_back('%');
    encoded.push_back(kHexDigits[byte >> 4]);
    encoded.push_back(kHexDigits[byte & 15]);
  }
  return encoded;
}

std::string DecodeStatusMessage(std::string_view encoded) {
  std::string message;
  message.reserve(encoded.size());
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const bool escape = encoded[i] == '%' && i + 2 < encoded.size() &&
                        HexValue(encoded[i + 1]) >= 0 && HexValue(encoded[i + 2]) >= 0;
    if (!escape) {
      message.push_back(encoded[i]);
      continue;
    }
    message.push_back(static_cast<char>(HexValue(encoded[i + 1]) * 16 + HexValue(encoded[i + 2])));
    i += 2;
  }
  return message;
}

bool IsBinaryHeader(std::string_view name) {
  return name.size() > 4 && name.substr(name.size() - 4) == "-bin";
}

std::string EncodeBinaryHeader(std::string_view value) {
  std::string encoded;
  absl::Base64Escape(AbslView(value), &encoded);
  return std::string(encoded.substr(0, encoded.find_last_not_of('=') + 1));
}

std::optional<std::string> DecodeBinaryHeader(std::string_view encoded) {
  std::string value;
  if (!absl::Base64Unescape(AbslView(encoded), &value)) return std::nullopt;
  return value;
}

absl::Duration ParseGrpcTimeout(std::string_view text) {
  // At most 8 digits and a unit.
  std::int64_t number = 0;
  if (text.size() < 2 || text.size() > 9 ||
      !absl::SimpleAtoi(AbslView(text.substr(0, text.size() - 1)), &number) || number < 0) {
    return absl::InfiniteDuration();
  }
  switch (text.back()) {
    case 'H':
      return absl::Hours(number);
    case 'M':
      return absl::Minutes(number);
    case 'S':
      return absl::Seconds(number);
    case 'm':
      return absl::Milliseconds(number);
    case 'u':
      return absl::Microseconds(number);
    case 'n':
      return absl::Nanoseconds(number);
    default:
      return absl::InfiniteDuration();
  }
}

bool IsGrpcContentType(std::string_view content_type) {
  absl::string_view type = AbslView(content_type);
  type = absl::StripAsciiWhitespace(type.substr(0, type.find(';')));
  const std::string lower = absl::AsciiStrToLower(type);
  return lower == "application/grpc" || lower == "application/grpc+proto";
}

}  // namespace idempotency::internal
