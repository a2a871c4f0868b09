#include "ctl/completion.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "ctl/command_flags.h"

namespace idempotency::internal {
namespace {

// A command as the scripts need it.
struct Entry {
  // One or two words.
  std::string name;
  std::string summary;
  std::vector<FlagSet::Description> flags;
};

std::vector<Entry> Entries() {
  std::vector<Entry> entries;
  for (const std::unique_ptr<Command>& command : NewCommands()) {
    entries.push_back({std::string(command->name()), std::string(command->summary()),
                       CommandFlags(*command).set().Describe()});
  }
  return entries;
}

// The words that may follow `idempotencyctl`.
std::vector<std::string> FirstWords(const std::vector<Entry>& entries) {
  std::vector<std::string> words;
  for (const Entry& entry : entries) {
    std::string word(entry.name.substr(0, entry.name.find(' ')));
    if (words.empty() || words.back() != word) words.push_back(std::move(word));
  }
  words.insert(words.end(), {"completion", "--help", "--version"});
  return words;
}

std::string FirstLine(const std::string& help) { return help.substr(0, help.find('\n')); }

bool TakesFile(const FlagSet::Description& flag) { return flag.placeholder == "FILE"; }

std::string FlagWords(const Entry& entry) {
  std::vector<std::string> words;
  for (const FlagSet::Description& flag : entry.flags) {
    words.push_back(absl::StrCat("--", flag.name, flag.placeholder.empty() ? "" : "="));
  }
  words.emplace_back("--help");
  return absl::StrJoin(words, " ");
}

// In single quotes of a shell; fish alone needs backslashes escaped, and no text has one.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The names of the flags that take a file, each once, for a pattern of `case`.
std::string FilePattern(const std::vector<Entry>& entries) {
  std::set<std::string> names;
  for (const Entry& entry : entries) {
    for (const FlagSet::Description& flag : entry.flags) {
      if (TakesFile(flag)) names.insert("--" + flag.name);
    }
  }
  return absl::StrJoin(names, " | ");
}

constexpr absl::string_view kBashHead =
    R"(# Completion of idempotencyctl for bash.
_idempotencyctl() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flag='' words=''
  COMPREPLY=()
  # bash splits --flag=value at the =.
  if [[ $word == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 1]} word=''
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";

constexpr absl::string_view kBashTail =
    R"(      "keyring "*) words='check generate' ;;
      "completion "*) words='bash fish zsh' ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null || true; fi
}
complete -F _idempotencyctl idempotencyctl
)";

std::string Bash(const std::vector<Entry>& entries) {
  std::string script =
      absl::StrCat(kBashHead, "  case $flag in\n    ", FilePattern(entries),
                   ")\n      mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n      return ;;\n"
                   "    --*) return ;;\n  esac\n"
                   "  if ((COMP_CWORD == 1)); then\n    words=",
                   Quoted(absl::StrJoin(FirstWords(entries), " ")),
                   "\n  else\n    case \"$command ${COMP_WORDS[2]}\" in\n");
  for (const Entry& entry : entries) {
    const bool two_words = absl::StrContains(entry.name, ' ');
    absl::StrAppend(
        &script, "      ",
        two_words ? absl::StrCat("\"", entry.name, "\"") : absl::StrCat("\"", entry.name, " \"*"),
        ") words=", Quoted(FlagWords(entry)), " ;;\n");
  }
  absl::StrAppend(&script, kBashTail);
  return script;
}

// The text of a description inside the brackets and quotes of zsh's _arguments.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"[", "("}, {"]", ")"}, {":", " -"}, {"'", ""}});
}

std::string Zsh(const std::vector<Entry>& entries) {
  std::string script = "#compdef idempotencyctl\n_idempotencyctl() {\n  local -a commands=(\n";
  for (const Entry& entry : entries) {
    if (absl::StrContains(entry.name, ' ')) continue;
    absl::StrAppend(&script, "    '", entry.name, ":", ZshText(entry.summary), "'\n");
  }
  absl::StrAppend(&script,
                  "    'keyring:make and check keys that seal replies'\n"
                  "    'completion:print a script for a shell'\n"
                  "  )\n"
                  "  if ((CURRENT == 2)); then _describe command commands; return; fi\n"
                  "  case \"$words[2] $words[3]\" in\n");
  for (const Entry& entry : entries) {
    const bool two_words = absl::StrContains(entry.name, ' ');
    absl::StrAppend(
        &script, "    ",
        two_words ? absl::StrCat("\"", entry.name, "\"") : absl::StrCat("\"", entry.name, " \"*"),
        ") _arguments");
    for (const FlagSet::Description& flag : entry.flags) {
      absl::StrAppend(&script, " \\\n      '--", flag.name, flag.placeholder.empty() ? "" : "=",
                      "[", ZshText(FirstLine(flag.help)), "]",
                      flag.placeholder.empty() ? "" : ":" + flag.placeholder + ":",
                      TakesFile(flag) ? "_files" : "", "'");
    }
    absl::StrAppend(&script, " ;;\n");
  }
  absl::StrAppend(&script,
                  "    \"keyring \"*) _values action check generate ;;\n"
                  "    \"completion \"*) _values shell bash fish zsh ;;\n"
                  "  esac\n"
                  "}\n"
                  "# As a file that zsh loads by itself, and as one that is sourced.\n"
                  "if [ \"${funcstack[1]}\" = _idempotencyctl ]; then\n"
                  "  _idempotencyctl \"$@\"\n"
                  "else\n"
                  "  compdef _idempotencyctl idempotencyctl\n"
                  "fi\n");
  return script;
}

std::string Fish(const std::vector<Entry>& entries) {
  std::string script = "# Completion of idempotencyctl for fish.\ncomplete -c idempotencyctl -f\n";
  const auto add = [&](absl::string_view condition, absl::string_view rest) {
    absl::StrAppend(&script, "complete -c idempotencyctl -n ", Quoted(condition), " ", rest, "\n");
  };
  for (const Entry& entry : entries) {
    const std::vector<absl::string_view> words = absl::StrSplit(entry.name, ' ');
    const std::string summary = Quoted(entry.summary);
    std::string condition = absl::StrCat("__fish_seen_subcommand_from ", words.front());
    if (words.size() == 1) {
      add("__fish_use_subcommand", absl::StrCat("-a ", words.front(), " -d ", summary));
    } else {
      add(absl::StrCat(condition, "; and not __fish_seen_subcommand_from check generate"),
          absl::StrCat("-a ", words.back(), " -d ", summary));
      absl::StrAppend(&condition, "; and __fish_seen_subcommand_from ", words.back());
    }
    for (const FlagSet::Description& flag : entry.flags) {
      add(condition,
          absl::StrCat("-l ", flag.name, flag.placeholder.empty() ? "" : " -r",
                       TakesFile(flag) ? " -F" : "", " -d ", Quoted(FirstLine(flag.help))));
    }
  }
  add("__fish_use_subcommand", "-a 'keyring' -d 'make and check keys that seal replies'");
  add("__fish_use_subcommand", "-a 'completion' -d 'print a script for a shell'");
  add("__fish_seen_subcommand_from completion", "-a 'bash fish zsh'");
  return script;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(absl::string_view shell) {
  const std::vector<Entry> entries = Entries();
  if (shell == "bash") return Bash(entries);
  if (shell == "zsh") return Zsh(entries);
  if (shell == "fish") return Fish(entries);
  return absl::InvalidArgumentError("write `idempotencyctl completion bash`, `zsh` or `fish`");
}

}  // namespace idempotency::internal
