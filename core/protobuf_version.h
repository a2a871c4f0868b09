#ifndef IDEMPOTENCY_CORE_PROTOBUF_VERSION_H_
#define IDEMPOTENCY_CORE_PROTOBUF_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/stubs/common.h"
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#define IDEMPOTENCY_PROTOBUF_LOGS_ITSELF 1
#else
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#define IDEMPOTENCY_PROTOBUF_LOGS_ITSELF 0
#endif

// The differences between protobuf 3.21 (Debian 12) and later versions. Nothing else here depends
// on the version.

namespace idempotency::internal {

// A new message on the arena, with its submessages.
template <typename Message>
Message* NewOnArena(google::protobuf::Arena& arena) {
#if GOOGLE_PROTOBUF_VERSION < 4000000
  return google::protobuf::Arena::CreateMessage<Message>(&arena);
#else
  return google::protobuf::Arena::Create<Message>(&arena);
#endif
}

// The parameter type of DescriptorDatabase's functions.
#if GOOGLE_PROTOBUF_VERSION < 6031000
using DescriptorName = const std::string&;
#else
using DescriptorName = absl::string_view;
#endif

// Logs nothing about messages that do not parse, until it is destroyed. For the whole process.
class SilentProtobuf {
#if IDEMPOTENCY_PROTOBUF_LOGS_ITSELF
  const google::protobuf::LogSilencer silencer_;
#else
 public:
  SilentProtobuf() : before_(absl::MinLogLevel()) {
    absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
  }
  ~SilentProtobuf() { absl::SetMinLogLevel(before_); }
  SilentProtobuf(const SilentProtobuf&) = delete;
  SilentProtobuf& operator=(const SilentProtobuf&) = delete;

 private:
  const absl::LogSeverityAtLeast before_;
#endif
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_PROTOBUF_VERSION_H_
