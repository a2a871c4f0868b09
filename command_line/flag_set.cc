#include "command_line/flag_set.h"

#include <cstddef>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

}  // namespace

void FlagSet::AddText(absl::string_view name, absl::string_view placeholder, std::string* value,
                      absl::string_view help) {
  const auto set = [value](absl::string_view text) {
    *value = std::string(text);
    return absl::OkStatus();
  };
  flags_.push_back({std::string(name), std::string(placeholder), std::string(help), *value, set});
}

void FlagSet::AddName(absl::string_view name, absl::string_view placeholder, std::string* value,
                      absl::string_view help) {
  const auto set = [value](absl::string_view text) {
    if (text.empty()) return Invalid("must not be empty; leave it out to give none");
    *value = std::string(text);
    return absl::OkStatus();
  };
  flags_.push_back({std::string(name), std::string(placeholder), std::string(help), *value, set});
}

void FlagSet::AddInt(absl::string_view name, int* value, int min, int max, absl::string_view help) {
  const std::string limits = absl::StrCat(min, " to ", max);
  const auto set = [=](absl::string_view text) {
    int parsed = 0;
    if (!absl::SimpleAtoi(text, &parsed) || parsed < min || parsed > max) {
      return Invalid(absl::StrCat("must be a number, ", limits));
    }
    *value = parsed;
    return absl::OkStatus();
  };
  flags_.push_back(
      {std::string(name), "N", absl::StrCat(help, "\n", limits, "."), absl::StrCat(*value), set});
}

template <typename Value>
FlagSet::Flag FlagSet::DurationFlag(absl::string_view name, Value* value, absl::Duration min,
                                    absl::Duration max, absl::string_view help) {
  const std::string limits =
      absl::StrCat(absl::FormatDuration(min), " to ", absl::FormatDuration(max));
  const auto set = [=](absl::string_view text) {
    absl::Duration parsed;
    if (!absl::ParseDuration(text, &parsed) || parsed < min || parsed > max) {
      return Invalid(
          absl::StrCat("must be a duration with its unit, such as 500ms, 30s or 5m: ", limits));
    }
    *value = parsed;
    return absl::OkStatus();
  };
  return {std::string(name), "DURATION", absl::StrCat(help, "\n", limits, "."), "", set};
}

void FlagSet::AddDuration(absl::string_view name, absl::Duration* value, absl::Duration min,
                          absl::Duration max, absl::string_view help) {
  flags_.push_back(DurationFlag(name, value, min, max, help));
  flags_.back().default_text = absl::FormatDuration(*value);
}

void FlagSet::AddDuration(absl::string_view name, std::optional<absl::Duration>* value,
                          absl::Duration min, absl::Duration max, absl::string_view help) {
  flags_.push_back(DurationFlag(name, value, min, max, help));
}

void FlagSet::AddSwitch(absl::string_view name, bool* value, absl::string_view help) {
  const auto set = [value](absl::string_view text) {
    if (text != "true" && text != "false") return Invalid("must be true, false or without a value");
    *value = text == "true";
    return absl::OkStatus();
  };
  flags_.push_back({std::string(name), "", std::string(help), "", set});
}

FlagSet::Flag* FlagSet::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagSet::Parse(absl::Span<const absl::string_view> args, absl::string_view* operand) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    absl::string_view rest = args[i];
    if (operand != nullptr && operand->empty() && !rest.empty() && !absl::StartsWith(rest, "--")) {
      *operand = rest;
      continue;
    }
    if (!absl::ConsumePrefix(&rest, "--") || rest.empty()) {
      return Invalid(absl::StrCat("'", args[i], "' is not a flag; flags start with --"));
    }
    const std::size_t equals = rest.find('=');
    const absl::string_view name = rest.substr(0, equals);
    Flag* flag = Find(name);
    if (flag == nullptr) return Invalid(absl::StrCat("there is no flag --", name));
    if (flag->seen) return Invalid(absl::StrCat("--", name, " is given twice"));
    flag->seen = true;

    absl::string_view text = "true";
    if (equals != absl::string_view::npos) {
      text = rest.substr(equals + 1);
    } else if (!flag->placeholder.empty()) {
      if (i + 1 == args.size() || absl::StartsWith(args[i + 1], "--")) {
        return Invalid(
            absl::StrCat("--", name, " has no value; write --", name, "=", flag->placeholder));
      }
      text = args[++i];
    }
    if (const absl::Status set = flag->set(text); !set.ok()) {
      return Invalid(absl::StrCat("--", name, " ", set.message()));
    }
  }
  return absl::OkStatus();
}

std::vector<FlagSet::Description> FlagSet::Describe() const {
  std::vector<Description> descriptions;
  descriptions.reserve(flags_.size());
  for (const Flag& flag : flags_) descriptions.push_back({flag.name, flag.placeholder, flag.help});
  return descriptions;
}

std::string FlagSet::Help() const {
  std::string text;
  for (const Flag& flag : flags_) {
    absl::StrAppend(&text, "  --", flag.name);
    if (!flag.placeholder.empty()) absl::StrAppend(&text, "=", flag.placeholder);
    if (!flag.default_text.empty()) absl::StrAppend(&text, "  (default ", flag.default_text, ")");
    absl::StrAppend(&text, "\n      ", absl::StrReplaceAll(flag.help, {{"\n", "\n      "}}), "\n");
  }
  return text;
}

}  // namespace idempotency::internal
