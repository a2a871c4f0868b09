#include "tests/chaos/workload/history_line.h"

#include <time.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace idempotency::internal::testing {
namespace {

void AppendQuoted(std::string_view value, std::string& text) {
  text.push_back('"');
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text.push_back('\\');
      text.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&text, "\\u%04x", static_cast<unsigned>(c));
    } else {
      text.push_back(c);
    }
  }
  text.push_back('"');
}

}  // namespace

HistoryLine::HistoryLine(std::string_view event) {
  text_ = "{\"event\":";
  AppendQuoted(event, text_);
  Number("t", Now());
}

void HistoryLine::Name(std::string_view name) {
  text_.push_back(',');
  AppendQuoted(name, text_);
  text_.push_back(':');
}

HistoryLine& HistoryLine::Text(std::string_view name, std::string_view value) {
  Name(name);
  AppendQuoted(value, text_);
  return *this;
}

HistoryLine& HistoryLine::Number(std::string_view name, std::int64_t value) {
  Name(name);
  absl::StrAppend(&text_, value);
  return *this;
}

HistoryLine& HistoryLine::Flag(std::string_view name, bool value) {
  Name(name);
  text_ += value ? "true" : "false";
  return *this;
}

HistoryLine& HistoryLine::Record(std::string_view name, const RecordKey& key) {
  Name(name);
  char before = '[';
  for (const std::string* part : {&key.name_space, &key.scope, &key.operation, &key.key}) {
    text_.push_back(before);
    AppendQuoted(*part, text_);
    before = ',';
  }
  text_.push_back(']');
  return *this;
}

std::string HistoryLine::ToString() const { return text_ + "}\n"; }

std::int64_t HistoryLine::Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace idempotency::internal::testing
