// The daemon's log: one line per event on stderr, as key=value pairs for people
// and log collectors:
//
//   time=2025-01-31T12:00:00.000Z level=info event="serving" listen=127.0.0.1:7411
//
// or, for log collectors that parse JSON, one object per line. All values are strings:
//
//   {"time":"2025-01-31T12:00:00.000Z","severity":"info","message":"serving","listen":"127.0.0.1:7411"}
//
// The names time, level, severity, event, message and cut are the log's own; no field has them.
//
// Never logged: idempotency keys, scopes, tokens, requests, replies, connection
// strings. A record appears by its record id.
#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_H_

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

// One key=value pair. The name is a word; the value is quoted where necessary,
// so that it neither ends the line nor starts another pair.
struct LogField {
  LogField(absl::string_view field_name, const absl::AlphaNum& field_value)
      : name(field_name), value(field_value.Piece()) {}

  std::string name;
  std::string value;
};

// Sends the process's log, and gRPC's own, to stderr in one of the forms above, on a thread of its
// own. Called once, before there are other threads.
void StartLog(LogLevel level, LogFormat format = LogFormat::kText);

// Writes what is left, for limits::kLogFlushTime at most, and ends the log's thread: the process is
// about to end, and nothing is logged any more. False if lines were left.
bool StopLog();

// Thread-safe, and waits for no reader of stderr. Does nothing below the level given to StartLog(),
// and nothing before it.
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});

// The text of an event, without time and level; as JSON, without the braces. At most
// limits::kMaxLogLineBytes: a value that does not fit is cut between two characters, the fields
// after it are left out, and the field `cut` reports it.
std::string FormatLogLine(LogFormat format, absl::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_H_
