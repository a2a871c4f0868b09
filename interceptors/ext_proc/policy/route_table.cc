#include "interceptors/ext_proc/policy/route_table.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.pb.h"

#include "core/absl_view.h"
#include "core/record_key_parts.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/server/policy/policy_option.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/resolved_policy.h"

namespace idempotency::internal {
namespace {

using google::protobuf::MethodDescriptor;

// A unary method of unknown messages: its policies are those that need no descriptor.
const MethodDescriptor& UnknownMethod() {
  static const MethodDescriptor* const method = [] {
    google::protobuf::FileDescriptorProto file;
    file.set_name("unknown.proto");
    file.add_message_type()->set_name("Message");
    auto& service = *file.add_service();
    service.set_name("Service");
    auto& declared = *service.add_method();
    declared.set_name("Method");
    declared.set_input_type("Message");
    declared.set_output_type("Message");
    static auto* const pool = new google::protobuf::DescriptorPool();
    return pool->BuildFile(file)->service(0)->method(0);
  }();
  return *method;
}

// The fault of an entry whose every request the entry `earlier` gets.
std::string NeverUsed(const std::string& earlier) {
  return absl::StrCat("is never used: the entry ", earlier,
                      " before it matches all that it does; put the more specific one first, or "
                      "remove one of them");
}

// RFC 9110 permits further characters, which no registered method has.
bool IsHttpMethod(const std::string& method) {
  return !method.empty() && std::all_of(method.begin(), method.end(), [](unsigned char c) {
    return absl::ascii_isupper(c) || c == '-';
  });
}

// Without query, parameters and a slash at the end.
std::string PlainPath(std::string_view path) {
  std::vector<absl::string_view> segments;
  for (const absl::string_view segment :
       absl::StrSplit(AbslView(path.substr(0, path.find_first_of("?#"))), '/')) {
    segments.push_back(segment.substr(0, segment.find(';')));
  }
  if (segments.size() > 2 && segments.back().empty()) segments.pop_back();
  return absl::StrJoin(segments, "/");
}

std::string OperationOf(const GuardedRoute& route, const std::string& path) {
  return route.operation.empty() ? path : route.operation;
}

KeyValidator ValidatorOf(ProcessorConfig::KeyFormat format) {
  return format == ProcessorConfig::KeyFormat::kUuidv7 ? Uuidv7Keys() : nullptr;
}

// Options that need a guard inside the server: a proxy in front of it cannot apply them.
void AddFaultsOfProxy(const MethodPolicy& policy, bool declared, PolicyFaults& faults) {
  if (policy.key == MethodPolicy::Key::kNone) return;
  // A guard may need what the proto declares.
  const auto fault = [&](absl::string_view what) {
    faults.push_back(absl::StrCat(
        what, declared ? ": override it with a policy in grpc_methods" : ": leave it out"));
  };
  if (policy.fail_open) {
    fault("fail_open: the processor never forwards what it cannot record");
  }
  if (policy.reply == MethodPolicy::Reply::kReference) {
    fault("reply REFERENCE needs a loader, which only a guard in the server has");
  }
  if (policy.cancel_when_lost) {
    fault("cancel_when_lost: the processor cannot cancel the upstream");
  }
  if (policy.stream != MethodPolicy::Stream::kUnguarded) {
    fault("stream: the processor guards unary methods only");
  }
}

}  // namespace

// Collects all faults, so that they can be corrected together.
class RouteTable::Builder {
 public:
  explicit Builder(const ProcessorConfig& config) : config_(config), table_(new RouteTable()) {
    options_.name_space = config.name_space;
    options_.on_unknown_outcome = config.on_unknown_outcome;
  }

  absl::StatusOr<std::unique_ptr<const RouteTable>> Run() {
    const absl::Status name = ValidateNamespace(config_.name_space);
    if (!name.ok()) Fault("namespace", DetailsOf(name).violations.front().description);
    for (const ProcessorConfig::DescriptorSet& set : config_.descriptor_sets) {
      const absl::Status added = table_->described_.Add(set.content);
      if (!added.ok()) Fault(absl::StrCat("descriptor_sets ", set.file), added.message());
    }
    for (const ProcessorConfig::GrpcMethods& methods : config_.grpc_methods) AddPattern(methods);
    for (const MethodDescriptor* method : table_->described_.methods()) AddMethod(*method);
    for (const ProcessorConfig::HttpRoute& route : config_.http_routes) AddHttp(route);
    if (table_->methods_.empty() && table_->patterns_.empty() && table_->http_.empty()) {
      faults_.emplace_back("nothing is guarded: add descriptor_sets, grpc_methods or http_routes");
    }
    if (faults_.empty()) return std::unique_ptr<const RouteTable>(std::move(table_));
    return absl::InvalidArgumentError(absl::StrJoin(faults_, "; "));
  }

 private:
  struct Pattern {
    MethodPattern pattern;
    const ProcessorConfig::GrpcMethods& methods;
  };

  void Fault(std::string_view place, absl::string_view fault) {
    faults_.push_back(absl::StrCat(AbslView(place), ": ", fault));
  }

  void AddPattern(const ProcessorConfig::GrpcMethods& methods) {
    absl::StatusOr<MethodPattern> pattern = MethodPattern::Parse(methods.name);
    if (!pattern.ok()) {
      return Fault(absl::StrCat("grpc_methods ", methods.name), pattern.status().message());
    }
    const std::string place = absl::StrCat("grpc_methods ", methods.name);
    for (const Pattern& earlier : pattern_policies_) {
      if (!earlier.pattern.Covers(*pattern)) continue;
      Fault(place, NeverUsed(absl::StrCat("grpc_methods ", earlier.pattern.text())));
      break;
    }
    if (MissesItsService(*pattern)) {
      Fault(place,
            "descriptor_sets describe its service, which has no such method: correct the name, or "
            "make the descriptor set again");
    }
    CheckOperation(place, *pattern, methods.operation);
    pattern_policies_.push_back({*pattern, methods});
    if (IsDescribed(*pattern)) return;
    GuardedRoute route = RouteWithoutDescriptor(place, methods.policy);
    route.operation = methods.operation;
    route.key_validator = ValidatorOf(methods.key_format);
    table_->patterns_.emplace_back(*std::move(pattern), std::move(route));
  }

  void CheckOperation(const std::string& place, const MethodPattern& pattern,
                      const std::string& operation) {
    if (operation.empty()) return;
    // Two methods with one operation replay each other's replies: that must be intended.
    if (!pattern.is_exact()) Fault(place, "operation needs a name without '*'");
    // Operations of HTTP do not.
    if (operation[0] != '/') Fault(place, "operation must begin with '/'");
    if (!ValidateOperation(operation).ok()) {
      Fault(place, "operation is too long, or not a text that a record can have");
    }
  }

  // Its one service has a descriptor, in which no method matches: it would apply to none that the
  // service has.
  bool MissesItsService(const MethodPattern& pattern) const {
    bool is_described = false;
    for (const MethodDescriptor* method : table_->described_.methods()) {
      if (pattern.Matches(MethodPath(*method))) return false;
      is_described = is_described || method->service()->full_name() == AbslView(pattern.service());
    }
    return is_described;
  }

  // The only method that it names has a descriptor.
  bool IsDescribed(const MethodPattern& pattern) const {
    if (!pattern.is_exact()) return false;
    for (const MethodDescriptor* method : table_->described_.methods()) {
      if (pattern.Matches(MethodPath(*method))) return true;
    }
    return false;
  }

  GuardedRoute RouteWithoutDescriptor(const std::string& place,
                                      const std::optional<v1::Policy>& policy) {
    PolicyFaults faults;
    GuardedRoute route;
    route.policy = PolicyFromOption(UnknownMethod(), policy.value_or(v1::Policy()), faults);
    route.reply_type = ReplyType::Unmarked();
    for (std::string& fault : FaultsOf(route.policy)) faults.push_back(std::move(fault));
    for (std::string& fault : FaultsFor(UnknownMethod(), route.policy)) {
      faults.push_back(std::move(fault));
    }
    if (!route.policy.on_unknown_outcome) {
      route.policy.on_unknown_outcome = config_.on_unknown_outcome;
    }
    const auto chosen = ChosenUnknownOutcome(route.policy, nullptr, options_);
    std::string relaxation = RelaxationFault(route.policy, chosen, options_);
    if (!relaxation.empty()) faults.push_back(std::move(relaxation));
    Finish(place, chosen, /*declared=*/false, route, std::move(faults));
    return route;
  }

  void AddMethod(const MethodDescriptor& method) {
    const std::string path = MethodPath(method);
    const ProcessorConfig::GrpcMethods* configured = nullptr;
    for (const Pattern& pattern : pattern_policies_) {
      if (!pattern.pattern.Matches(path)) continue;
      configured = &pattern.methods;
      break;
    }
    PolicyFaults faults;
    if (configured != nullptr && configured->policy.has_value()) {
      options_.methods[path].policy = PolicyFromOption(method, *configured->policy, faults);
    }
    const ResolvedPolicy resolved = ResolvedPolicy::Of(method, options_, faults);
    if (method.client_streaming() || method.server_streaming()) {
      table_->streaming_.insert(path);
      if (resolved.policy().key == MethodPolicy::Key::kNone) return;
      return Fault(path, "it streams, and the processor guards unary methods only");
    }
    GuardedRoute route;
    route.operation =
        configured == nullptr || configured->operation.empty() ? path : configured->operation;
    route.policy = resolved.policy();
    if (configured != nullptr) route.key_validator = ValidatorOf(configured->key_format);
    route.request_type = &table_->described_.Prototype(*method.input_type());
    route.reply_type = ReplyType(table_->described_.Prototype(*method.output_type()));
    if (!route.policy.key_field.empty()) {
      absl::StatusOr<KeyField> field = KeyField::Resolve(method, route.policy.key_field);
      if (field.ok()) {
        route.key_field = *std::move(field);
      } else {
        faults.emplace_back(field.status().message());
      }
    }
    const bool declared = configured == nullptr || !configured->policy.has_value();
    Finish(path, resolved.unknown_outcome(), declared, route, std::move(faults));
    table_->methods_.emplace(path, std::move(route));
  }

  void AddHttp(const ProcessorConfig::HttpRoute& configured) {
    const std::string place = absl::StrCat("http_routes ", configured.path);
    absl::StatusOr<PathPattern> pattern = PathPattern::Parse(configured.path);
    if (!pattern.ok()) return Fault(place, pattern.status().message());
    if (configured.methods.empty()) return Fault(place, "methods must name one at least");
    // Routes of gRPC methods do, and their records are others.
    if (configured.operation.rfind('/', 0) == 0) Fault(place, "operation must not begin with '/'");
    GuardedRoute shared = RouteWithoutDescriptor(place, configured.policy);
    shared.key_validator = ValidatorOf(configured.key_format);
    const std::size_t earlier_entries = table_->http_.size();
    for (const std::string& method : configured.methods) {
      if (!IsHttpMethod(method)) {
        Fault(place, absl::StrCat("methods: \"", method,
                                  "\" is no method of HTTP; list each one, there is no pattern"));
        continue;
      }
      for (std::size_t i = 0; i < earlier_entries; ++i) {
        const HttpEntry& earlier = table_->http_[i];
        if (earlier.method != method || !earlier.pattern.Covers(*pattern)) continue;
        Fault(absl::StrCat("http_routes ", method, " ", configured.path),
              NeverUsed(absl::StrCat("http_routes ", earlier.pattern.Canonical())));
        break;
      }
      GuardedRoute route = shared;
      // Part of the record's id, so another method in the entry, or another name for a segment,
      // must not change it: a retry would then run again.
      route.operation = configured.operation.empty()
                            ? absl::StrCat(method, " ", pattern->Canonical())
                            : configured.operation;
      if (!ValidateOperation(route.operation).ok()) {
        Fault(place,
              "the operation of its records is too long, or not a text that a record can have");
      }
      table_->http_.push_back({method, *pattern, std::move(route)});
    }
  }

  // `declared`: the policy is the proto's, not one of the configuration.
  void Finish(const std::string& place, std::optional<UnknownOutcome> chosen, bool declared,
              GuardedRoute& route, PolicyFaults faults) {
    AddFaultsOfProxy(route.policy, declared, faults);
    if (chosen.has_value()) {
      route.on_unknown = *chosen;
    } else if (route.policy.key != MethodPolicy::Key::kNone) {
      faults.emplace_back(
          "the handling of an unknown outcome is not chosen: set on_lease_expiry in its policy, or "
          "on_unknown_outcome for all");
    }
    for (const std::string& fault : faults) Fault(place, fault);
  }

  const ProcessorConfig& config_;
  std::unique_ptr<RouteTable> table_;
  GuardOptions options_;
  std::vector<Pattern> pattern_policies_;
  std::vector<std::string> faults_;
};

absl::StatusOr<std::unique_ptr<const RouteTable>> RouteTable::Make(const ProcessorConfig& config) {
  return Builder(config).Run();
}

std::vector<std::pair<std::string, const GuardedRoute*>> RouteTable::Guarded() const {
  std::vector<std::pair<std::string, const GuardedRoute*>> guarded;
  const auto add = [&guarded](std::string name, const GuardedRoute& route) {
    if (route.policy.key != MethodPolicy::Key::kNone) guarded.emplace_back(std::move(name), &route);
  };
  for (const auto& [path, route] : methods_) add(path, route);
  for (const auto& [pattern, route] : patterns_) {
    add(absl::StrCat("grpc_methods ", pattern.text()), route);
  }
  for (const HttpEntry& entry : http_) {
    add(absl::StrCat("http_routes ", entry.method, " ", entry.pattern.Canonical()), entry.route);
  }
  return guarded;
}

std::vector<std::string> RouteTable::WithOtherFingerprints(const RouteTable& before) const {
  std::set<std::string> described;
  for (const RouteTable* table : {this, &before}) {
    for (const auto& [path, route] : table->methods_) described.insert(path);
  }
  std::vector<std::string> changed;
  for (const std::string& path : described) {
    const absl::StatusOr<const GuardedRoute*> now = ForGrpc(path);
    const absl::StatusOr<const GuardedRoute*> then = before.ForGrpc(path);
    if (!now.ok() || !then.ok()) continue;
    if ((*now)->policy.key == MethodPolicy::Key::kNone) continue;
    const bool is_described = (*now)->request_type != nullptr;
    const bool was_described = (*then)->request_type != nullptr;
    if (is_described != was_described) changed.push_back(path);
  }
  return changed;
}

std::set<std::string> RouteTable::NamedMethods() const {
  std::set<std::string> paths;
  for (const auto& [path, route] : methods_) paths.insert(path);
  for (const auto& [pattern, route] : patterns_) {
    if (pattern.is_exact()) paths.insert(absl::StrCat("/", pattern.text()));
  }
  return paths;
}

std::set<std::string> RouteTable::ChangedSince(const RouteTable& before,
                                               const Change& change) const {
  const auto changed_route = [&change](const GuardedRoute& now, const GuardedRoute& then,
                                       const std::string& grpc_path) {
    return now.policy.key != MethodPolicy::Key::kNone &&
           then.policy.key != MethodPolicy::Key::kNone && change(now, then, grpc_path);
  };
  std::set<std::string> changed;
  std::set<std::string> methods = NamedMethods();
  methods.merge(before.NamedMethods());
  for (const std::string& path : methods) {
    const auto now = ForGrpc(path);
    const auto then = before.ForGrpc(path);
    if (now.ok() && then.ok() && changed_route(**now, **then, path)) changed.insert(path);
  }
  for (const HttpEntry& entry : http_) {
    for (const HttpEntry& former : before.http_) {
      if (entry.method != former.method || !changed_route(entry.route, former.route, "")) continue;
      const std::optional<std::string> common = entry.pattern.CommonWith(former.pattern);
      if (!common.has_value()) continue;
      // Unless an entry before one of the two has these requests.
      const auto now = ForHttp(entry.method, *common);
      const auto then = before.ForHttp(entry.method, *common);
      if (now.ok() && *now == &entry.route && then.ok() && *then == &former.route) {
        changed.insert(absl::StrCat(entry.method, " ", *common));
      }
    }
  }
  return changed;
}

std::vector<std::string> RouteTable::WithOtherOperations(const RouteTable& before) const {
  const std::set<std::string> changed = ChangedSince(
      before, [](const GuardedRoute& now, const GuardedRoute& then, const std::string& grpc_path) {
        return OperationOf(now, grpc_path) != OperationOf(then, grpc_path);
      });
  return {changed.begin(), changed.end()};
}

const GuardedRoute* RouteTable::ForPattern(const MethodPattern& pattern) const {
  for (const auto& [known, route] : patterns_) {
    if (known.Covers(pattern)) return &route;
  }
  return nullptr;
}

std::vector<std::string> RouteTable::WithStricterKeys(const RouteTable& before) const {
  const auto is_stricter = [](const GuardedRoute& now, const GuardedRoute& then,
                              const std::string& /*grpc_path*/) {
    return now.key_validator && !then.key_validator;
  };
  std::set<std::string> changed = ChangedSince(before, is_stricter);
  for (const RouteTable* table : {this, &before}) {
    for (const auto& [pattern, route] : table->patterns_) {
      if (pattern.is_exact()) continue;
      const GuardedRoute* const now = ForPattern(pattern);
      const GuardedRoute* const then = before.ForPattern(pattern);
      if (now == nullptr || then == nullptr || now->policy.key == MethodPolicy::Key::kNone ||
          then->policy.key == MethodPolicy::Key::kNone) {
        continue;
      }
      if (is_stricter(*now, *then, "")) changed.insert(pattern.text());
    }
  }
  return {changed.begin(), changed.end()};
}

absl::StatusOr<const GuardedRoute*> RouteTable::ForGrpc(std::string_view path) const {
  if (const auto found = methods_.find(path); found != methods_.end()) return &found->second;
  if (streaming_.find(path) != streaming_.end()) {
    return InvalidField(":path",
                        "is a streaming method, which the processor does not guard: leave it out "
                        "by a route of the proxy");
  }
  for (const auto& [pattern, route] : patterns_) {
    if (pattern.Matches(path)) return &route;
  }
  return InvalidField(":path",
                      "matches no method of the processor's configuration: add it there, "
                      "or leave it out by a route of the proxy");
}

absl::StatusOr<const GuardedRoute*> RouteTable::ForHttp(std::string_view method,
                                                        std::string_view path) const {
  const std::string_view without_query = path.substr(0, path.find_first_of("?#"));
  for (const HttpEntry& entry : http_) {
    if (entry.method == method && entry.pattern.Matches(without_query)) return &entry.route;
  }
  return InvalidField(":path",
                      "matches no route of the processor's configuration: add it there, "
                      "or leave it out by a route of the proxy");
}

bool RouteTable::NamesGrpcMethod(std::string_view path) const {
  const std::string plain = PlainPath(path);
  // Whatever pattern it matches, it has no route.
  if (streaming_.find(plain) != streaming_.end()) return false;
  for (const auto& [method, route] : methods_) {
    if (absl::EqualsIgnoreCase(method, plain)) return true;
  }
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&plain](const auto& entry) { return entry.first.MatchesInAnyCase(plain); });
}

bool RouteTable::NamesHttpRequest(std::string_view method, std::string_view path) const {
  return ForHttp(absl::AsciiStrToUpper(AbslView(method)), PlainPath(path)).ok();
}

}  // namespace idempotency::internal
