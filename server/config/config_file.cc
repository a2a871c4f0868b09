#include "server/config/config_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "core/length_prefix.h"
#include "core/record_key_parts.h"
#include "grpc_idempotency/errors.h"
#include "server/config/config_faults.h"
#include "server/config/config_place.h"
#include "server/config/namespace_config.h"
#include "server/files/file_content.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

using config::v1::CertificateName;
using config::v1::Config;
using config::v1::Identity;
using config::v1::Namespace;
using config::v1::Rule;
using google::protobuf::TextFormat;
using Tree = ConfigPlace::Tree;

constexpr std::size_t kMaxIdentityName = 64;
bool IsIdentityName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxIdentityName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

// By the rule for requests, with its text: nullopt if a request can have this namespace.
std::optional<std::string> FaultOfNamespace(const std::string& name) {
  const absl::Status valid = ValidateNamespace(name);
  if (valid.ok()) return std::nullopt;
  return DetailsOf(valid).violations.front().description;
}

Permission FromProto(Rule::Permission permission) {
  switch (permission) {
    case Rule::READ:
      return Permission::kRead;
    case Rule::READ_CONTENT:
      return Permission::kReadContent;
    case Rule::ADMIN:
      return Permission::kAdmin;
    default:
      return Permission::kWrite;
  }
}

// The parser keeps one location for a list in brackets, whatever its length, so that the lines of
// messages in one are not known. Messages are written as a block each.
bool HasListOfMessages(const std::string& text, ConfigFaults& faults) {
  google::protobuf::io::ArrayInputStream in(text.data(), static_cast<int>(text.size()));
  ConfigFaults of_tokens("");
  google::protobuf::io::Tokenizer tokens(&in, &of_tokens);
  tokens.set_comment_style(google::protobuf::io::Tokenizer::SH_COMMENT_STYLE);
  bool found = false;
  for (bool opened = false; tokens.Next();) {
    const std::string& token = tokens.current().text;
    if (opened && (token == "{" || token == "<" || token == "]")) {
      found = true;
      faults.Add(tokens.current().line + 1,
                 "a list of messages, or an empty list: write one block for each entry");
    }
    opened = token == "[";
  }
  return found;
}

// Checks a parsed file and translates it.
class Translation {
 public:
  Translation(const Config& config, Tree& tree, std::string path, ConfigFaults& faults)
      : config_(config),
        root_(*Config::descriptor(), &tree, 1),
        path_(std::move(path)),
        faults_(faults) {}

  AccessRules Run() {
    for (int i = 0; i < config_.token_issuers_size(); ++i) AddIssuer(i);
    for (int i = 0; i < config_.identities_size(); ++i) AddIdentity(i);
    for (int i = 0; i < config_.rules_size(); ++i) AddRule(i);
    for (int i = 0; i < config_.namespaces_size(); ++i) AddNamespace(i);
    not_before_ = ReadNotBefore(config_.not_before(), root_, faults_);
    if (config_.has_external_processor()) AddExternalProcessor();
    // Also what is left of a file that was cut, or emptied.
    if (config_.rules().empty() && !config_.has_external_processor()) {
      faults_.Add(root_.own_line(),
                  "there are no rules: nobody may do anything; add identities and rules");
    }
    return std::move(access_);
  }
  std::optional<absl::Time> not_before() const { return not_before_; }
  NamespaceSettingsMap namespaces() { return std::move(namespaces_); }
  std::vector<std::string> descriptor_sets() { return std::move(descriptor_sets_); }
  // Of the files that the configuration names.
  const std::string& files() const { return files_; }

 private:
  void AddIssuer(int index) {
    const auto& issuer = config_.token_issuers(index);
    const ConfigPlace place = root_.At("token_issuers", index);
    if (issuer.issuer().empty() || issuer.audience().empty() || issuer.keys_file().empty()) {
      faults_.Add(place.LineOf("issuer"), "token_issuers needs issuer, audience and keys_file");
      return;
    }
    if (!issuers_.insert(issuer.issuer()).second) {
      faults_.Add(place.LineOf("issuer"), "this issuer is listed twice; remove one");
      return;
    }
    const std::string file =
        (std::filesystem::path(path_).parent_path() / issuer.keys_file()).string();
    const absl::StatusOr<std::string> json = FileContent(file);
    if (!json.ok() || json->size() > limits::kMaxConfigBytes) {
      faults_.Add(place.LineOf("keys_file"),
                  absl::StrCat("keys_file ", file, " cannot be read: ",
                               json.ok() ? "it is too large" : json.status().message()));
      return;
    }
    AppendPart(*json, files_);
    absl::StatusOr<std::vector<JsonWebKey>> keys = ParseJsonWebKeySet(*json);
    if (!keys.ok()) {
      faults_.Add(place.LineOf("keys_file"),
                  absl::StrCat("keys_file ", file, " ", keys.status().message()));
      return;
    }
    access_.issuers.emplace_back(issuer.issuer(), issuer.audience(), *std::move(keys));
  }

  void AddIdentity(int index) {
    const Identity& identity = config_.identities(index);
    const ConfigPlace place = root_.At("identities", index);
    if (!IsIdentityName(identity.name())) {
      faults_.Add(place.LineOf("name"),
                  absl::StrCat("identities.name must be 1 to ", kMaxIdentityName,
                               " letters, digits, '.', '_' or '-'"));
      return;
    }
    if (!names_.insert(identity.name()).second) {
      faults_.Add(place.LineOf("name"),
                  absl::StrCat("identity \"", identity.name(), "\" is listed twice; join the two"));
      return;
    }
    AccessRules::Identity made;
    made.name = identity.name();
    for (int i = 0; i < identity.certificates_size(); ++i) {
      AddCertificate(identity.certificates(i), place.At("certificates", i), made);
    }
    for (int i = 0; i < identity.tokens_size(); ++i) {
      AddToken(identity.tokens(i).sha256(), place.At("tokens", i), made);
    }
    for (int i = 0; i < identity.token_subjects_size(); ++i) {
      AddTokenSubject(identity.token_subjects(i), place.At("token_subjects", i), made);
    }
    made.local = identity.local();
    made.anonymous = identity.anonymous();
    if (made.anonymous) Unique("anonymous", place.LineOf("anonymous"), made.name);
    if (made.local) Unique("local", place.LineOf("local"), made.name);
    if (identity.certificates().empty() && identity.tokens().empty() &&
        identity.token_subjects().empty() && !identity.local() && !identity.anonymous()) {
      faults_.Add(place.LineOf("name"), absl::StrCat("identity \"", identity.name(),
                                                     "\" has no credential; add certificates, "
                                                     "tokens, token_subjects, local or anonymous"));
    }
    access_.identities.push_back(std::move(made));
  }

  void AddCertificate(const CertificateName& name, const ConfigPlace& place,
                      AccessRules::Identity& identity) {
    switch (name.name_case()) {
      case CertificateName::kUri:
        return AddName("uri", name.uri(), place, identity.name, identity.uris);
      case CertificateName::kDns:
        return AddName("dns", name.dns(), place, identity.name, identity.dns_names);
      case CertificateName::kSubject:
        return AddName("subject", name.subject(), place, identity.name, identity.subjects);
      case CertificateName::kAny:
        identity.any_certificate = name.any();
        if (!name.any()) faults_.Add(place.LineOf("any"), "any must be true, or left out");
        return Unique("any", place.LineOf("any"), identity.name);
      case CertificateName::NAME_NOT_SET:
        return faults_.Add(place.LineOf("uri"),
                           "certificates needs one of uri, dns, subject and any");
    }
  }

  void AddName(const std::string& kind, const std::string& text, const ConfigPlace& place,
               const std::string& identity, std::vector<std::string>& names) {
    if (text.empty()) return faults_.Add(place.LineOf(kind), kind + " must not be empty");
    Unique(absl::StrCat(kind, " ", text), place.LineOf(kind), identity);
    names.push_back(text);
  }

  void AddToken(const std::string& hex, const ConfigPlace& place, AccessRules::Identity& identity) {
    const bool valid =
        hex.size() == 2 * Sha256Digest().size() && std::all_of(hex.begin(), hex.end(), [](char c) {
          return absl::ascii_isxdigit(static_cast<unsigned char>(c));
        });
    if (!valid) {
      return faults_.Add(place.LineOf("sha256"),
                         "sha256 must be 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum");
    }
    const std::string bytes = absl::HexStringToBytes(hex);
    Sha256Digest digest;
    std::copy(bytes.begin(), bytes.end(), digest.begin());
    if (digest == Sha256("")) {
      return faults_.Add(place.LineOf("sha256"),
                         "sha256 is that of an empty token; was the variable set?");
    }
    Unique(absl::StrCat("token ", bytes), place.LineOf("sha256"), identity.name);
    identity.token_digests.push_back(digest);
  }

  void AddTokenSubject(const config::v1::TokenSubject& token, const ConfigPlace& place,
                       AccessRules::Identity& identity) {
    if (issuers_.count(token.issuer()) == 0) {
      return faults_.Add(place.LineOf("issuer"),
                         "issuer must be that of an entry of token_issuers; add one");
    }
    if (token.subject().empty()) {
      return faults_.Add(place.LineOf("subject"), "subject must not be empty");
    }
    Unique(absl::StrCat("subject ", token.issuer(), " ", token.subject()), place.LineOf("subject"),
           identity.name);
    identity.token_subjects.push_back({token.issuer(), token.subject()});
  }

  // A credential identifies one caller.
  void Unique(const std::string& credential, int line, const std::string& identity) {
    const auto [found, added] = credentials_.emplace(credential, identity);
    if (added) return;
    faults_.Add(line, absl::StrCat("this credential is also identity \"", found->second,
                                   "\"'s; list it once"));
  }

  void AddRule(int index) {
    const Rule& rule = config_.rules(index);
    const ConfigPlace place = root_.At("rules", index);
    if (names_.count(rule.identity()) == 0) {
      faults_.Add(place.LineOf("identity"), "identity must be the name of one of identities");
    }
    if (rule.namespaces().empty()) {
      faults_.Add(place.own_line(),
                  "namespaces must not be empty; write \"*\" for every namespace");
    }
    for (int i = 0; i < rule.namespaces_size(); ++i) {
      if (rule.namespaces(i) == kEveryNamespace) continue;
      if (const auto fault = FaultOfNamespace(rule.namespaces(i)); fault.has_value()) {
        faults_.Add(place.FirstLineOf("namespaces"),
                    absl::StrCat("each of namespaces ", *fault, ", or be \"*\""));
      }
    }
    AccessRules::Rule made{
        rule.identity(), {rule.namespaces().begin(), rule.namespaces().end()}, Permissions()};
    if (rule.permissions().empty()) {
      faults_.Add(place.own_line(),
                  "permissions must not be empty: WRITE, READ, READ_CONTENT, ADMIN");
    }
    for (int i = 0; i < rule.permissions_size(); ++i) {
      // The text format accepts any number for an enum.
      if (rule.permissions(i) == Rule::PERMISSION_UNSPECIFIED ||
          !Rule::Permission_IsValid(rule.permissions(i))) {
        faults_.Add(place.FirstLineOf("permissions"), "must be WRITE, READ, READ_CONTENT or ADMIN");
        continue;
      }
      made.permissions.Add(FromProto(static_cast<Rule::Permission>(rule.permissions(i))));
    }
    access_.rules.push_back(std::move(made));
  }

  void AddNamespace(int index) {
    const Namespace& name_space = config_.namespaces(index);
    const ConfigPlace place = root_.At("namespaces", index);
    if (const auto fault = FaultOfNamespace(name_space.name()); fault.has_value()) {
      faults_.Add(place.LineOf("name"), absl::StrCat("name ", *fault));
    }
    if (!listed_.insert(name_space.name()).second) {
      faults_.Add(place.LineOf("name"), "this namespace is listed twice; join the two");
    }
    if (!Namespace::ScopeSource_IsValid(name_space.scope_from())) {
      faults_.Add(place.LineOf("scope_from"), "scope_from must be CALLER or PEER");
    }
    if (name_space.scope_from() == Namespace::PEER) {
      access_.peer_scoped.push_back(name_space.name());
    }
    namespaces_[name_space.name()] = ReadNamespace(name_space, place, faults_);
  }

  // Its policies are checked by the program that serves it.
  void AddExternalProcessor() {
    const config::v1::ExternalProcessor& processor = config_.external_processor();
    const ConfigPlace place = root_.In("external_processor");
    if (const auto fault = FaultOfNamespace(processor.namespace_()); fault.has_value()) {
      faults_.Add(place.LineOf("namespace"), absl::StrCat("namespace ", *fault));
    }
    // The proxy states the scope of each call, and could name that of any identity.
    const std::vector<std::string>& peer_scoped = access_.peer_scoped;
    if (std::find(peer_scoped.begin(), peer_scoped.end(), processor.namespace_()) !=
        peer_scoped.end()) {
      faults_.Add(
          place.LineOf("namespace"),
          absl::StrCat("namespace \"", processor.namespace_(),
                       "\" has scope_from: PEER, by which a scope is an identity's, and the "
                       "external processor has the scopes of its own callers; use another"));
    }
    for (const std::string& name : processor.proxies()) {
      if (names_.count(name) > 0) continue;
      faults_.Add(place.FirstLineOf("proxies"), "proxies must be names of identities");
    }
    if (!v1::LeaseExpiry_IsValid(processor.on_unknown_outcome())) {
      faults_.Add(place.LineOf("on_unknown_outcome"),
                  "on_unknown_outcome must be LEASE_EXPIRY_TAKE_OVER or "
                  "LEASE_EXPIRY_REQUIRE_RECOVERY");
    }
    bool has_scope = !processor.scope().empty();
    for (const config::v1::ScopeOfCall& scope : processor.scope()) {
      has_scope = has_scope && scope.source_case() != config::v1::ScopeOfCall::SOURCE_NOT_SET;
    }
    if (!has_scope) {
      faults_.Add(place.FirstLineOf("scope"),
                  "scope needs one of peer, header, metadata and shared");
    }
    for (const std::string& named : processor.descriptor_sets()) {
      const std::string file = (std::filesystem::path(path_).parent_path() / named).string();
      absl::StatusOr<std::string> content = FileContent(file);
      if (!content.ok() || content->size() > limits::kMaxConfigBytes) {
        faults_.Add(place.FirstLineOf("descriptor_sets"),
                    absl::StrCat("descriptor_sets ", file, " cannot be read: ",
                                 content.ok() ? "it is too large" : content.status().message()));
        continue;
      }
      AppendPart(*content, files_);
      descriptor_sets_.push_back(*std::move(content));
    }
  }

  const Config& config_;
  const ConfigPlace root_;
  const std::string path_;
  ConfigFaults& faults_;
  AccessRules access_;
  NamespaceSettingsMap namespaces_;
  std::optional<absl::Time> not_before_;
  std::string files_;
  std::vector<std::string> descriptor_sets_;
  std::set<std::string> issuers_;
  std::set<std::string> names_;
  std::set<std::string> listed_;
  // The identity of each credential.
  std::map<std::string, std::string> credentials_;
};

}  // namespace

absl::StatusOr<LoadedConfig> LoadConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = FileContent(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", text.status().message()));
  }
  if (text->size() > limits::kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than ", limits::kMaxConfigBytes, " bytes"));
  }
  ConfigFaults faults(path);
  Tree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&faults);
  parser.WriteLocationsTo(&tree);
  LoadedConfig loaded;
  google::protobuf::io::ArrayInputStream in(text->data(), static_cast<int>(text->size()));
  if (!parser.Parse(&in, &loaded.config)) return faults.status();
  if (HasListOfMessages(*text, faults)) return faults.status();
  Translation translation(loaded.config, tree, path, faults);
  loaded.access = translation.Run();
  loaded.namespaces = translation.namespaces();
  loaded.not_before = translation.not_before();
  loaded.descriptor_sets = translation.descriptor_sets();
  if (absl::Status status = faults.status(); !status.ok()) return status;
  std::string content;
  AppendPart(*text, content);
  loaded.digest = Sha256(content + translation.files());
  return loaded;
}

std::string PrintConfig(const Config& config) {
  Config redacted = config;
  for (Identity& identity : *redacted.mutable_identities()) {
    for (auto& token : *identity.mutable_tokens()) token.set_sha256("REDACTED");
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(redacted, &text);
  return text;
}

}  // namespace idempotency::internal
