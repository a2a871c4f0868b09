#include "tests/chaos/proxy/control.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace idempotency::internal::chaos {
namespace {

using Milliseconds = std::chrono::milliseconds;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<Direction> DirectionOf(const std::string& word) {
  if (word == "up") return Direction::kUp;
  if (word == "down") return Direction::kDown;
  return Bad(absl::StrCat("neither up nor down: ", word));
}

absl::StatusOr<std::uint32_t> NumberOf(const std::string& word) {
  std::uint32_t number = 0;
  if (!absl::SimpleAtoi(word, &number)) return Bad(absl::StrCat("no number: ", word));
  return number;
}

// One of bytes=, match=, answer=, hold=, times=.
absl::Status SetOption(CutRule& rule, const std::string& word) {
  const std::pair<std::string, std::string> option = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto& [name, value] = option;
  if (value.empty()) return Bad(absl::StrCat("not an option: ", word));
  if (name == "match") {
    rule.trigger = ByteTrigger::AfterText(value);
    return absl::OkStatus();
  }
  if (name == "answer" && rule.forward) {
    rule.answer = value;
    return absl::OkStatus();
  }
  const absl::StatusOr<std::uint32_t> number = NumberOf(value);
  if (!number.ok()) return number.status();
  if (name == "bytes" && *number > 0) {
    rule.trigger = ByteTrigger::AfterBytes(*number);
  } else if (name == "times" && *number > 0) {
    rule.times = static_cast<int>(*number);
  } else if (name == "hold" && rule.forward) {
    rule.hold = Milliseconds(*number);
  } else {
    return Bad(absl::StrCat("not an option: ", word));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Control::Answer(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() == 1 && words[0] == "stats") return Stats();
  if (words.size() < 2) return "error: COMMAND LINK ... is wanted";
  bool found = false;
  for (const auto& link : links_) {
    if (words[1] != "*" && words[1] != link->name()) continue;
    found = true;
    const absl::Status done = Apply(*link, words[0], Words(words).subspan(2));
    if (!done.ok()) return absl::StrCat("error: ", std::string(done.message()));
  }
  return found ? "ok" : absl::StrCat("error: no link ", words[1]);
}

std::string Control::Stats() const {
  return absl::StrCat("[",
                      absl::StrJoin(links_, ",",
                                    [](std::string* out, const auto& link) {
                                      absl::StrAppend(out, link->Stats());
                                    }),
                      "]");
}

absl::Status Control::Apply(Link& link, const std::string& command, Words words) {
  if (command == "delay") return Delay(link, words);
  if (command == "drop" || command == "forward-then-cut") {
    return Cut(link, command == "forward-then-cut", words);
  }
  if (command == "stall" || command == "one-way") {
    if (words.size() > 1) return Bad("one direction is wanted");
    const bool both = command == "stall" && (words.empty() || words[0] == "both");
    const absl::StatusOr<Direction> one =
        both ? Direction::kUp : DirectionOf(words.empty() ? "" : words[0]);
    if (!one.ok()) return one.status();
    command == "stall" ? link.Stall(*one) : link.Vanish(*one);
    if (both) link.Stall(Direction::kDown);
    return absl::OkStatus();
  }
  if (command == "target") {
    const absl::StatusOr<SocketAddress> target =
        SocketAddress::Parse(words.empty() ? "" : words[0]);
    if (target.ok()) link.Retarget(*target);
    return target.status();
  }
  if (!words.empty()) return Bad(absl::StrCat("too much: ", words[0]));
  if (command == "refuse") return link.Refuse();
  if (command == "heal") return link.Heal();
  if (command != "cut") return Bad(absl::StrCat("no command ", command));
  link.Cut();
  return absl::OkStatus();
}

absl::Status Control::Delay(Link& link, Words words) {
  if (words.empty() || words.size() > 2) return Bad("delay LINK MS [JITTER_MS]");
  const absl::StatusOr<std::uint32_t> delay = NumberOf(words[0]);
  const absl::StatusOr<std::uint32_t> jitter = NumberOf(words.size() > 1 ? words[1] : "0");
  if (!delay.ok()) return delay.status();
  if (!jitter.ok()) return jitter.status();
  link.Delay(Milliseconds(*delay), Milliseconds(*jitter));
  return absl::OkStatus();
}

absl::Status Control::Cut(Link& link, bool forward, Words words) {
  CutRule rule;
  rule.forward = forward;
  if (!forward) {
    const absl::StatusOr<Direction> direction = DirectionOf(words.empty() ? "" : words[0]);
    if (!direction.ok()) return direction.status();
    rule.direction = *direction;
    words.remove_prefix(1);
  }
  for (const std::string& word : words) {
    if (const absl::Status set = SetOption(rule, word); !set.ok()) return set;
  }
  link.Set(std::move(rule));
  return absl::OkStatus();
}

}  // namespace idempotency::internal::chaos
