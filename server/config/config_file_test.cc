#include "server/config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "server/access/testing/token_signer.h"
#include "server/config/config_faults.h"
#include "server/config/config_notes.h"
#include "server/limits.h"
#include "server/store/limits.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr char kValid[] = R"(
# Comments are allowed.
identities {
  name: "payments"
  certificates { uri: "spiffe://example/payments" }
  certificates { dns: "payments.example" }
  certificates { subject: "CN=payments" }
  tokens { sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }
  token_subjects { issuer: "https://issuer.example" subject: "payments" }
}
identities { name: "others" certificates { any: true } }
identities { name: "machine" local: true }
identities { name: "network" anonymous: true }
token_issuers {
  issuer: "https://issuer.example" audience: "idempotencyd" keys_file: "keys.json"
}
rules { identity: "payments" namespaces: ["payments", "orders"] permissions: [WRITE, READ] }
rules { identity: "machine" namespaces: "*" permissions: [READ_CONTENT, ADMIN] }
namespaces { name: "payments" scope_from: PEER }
namespaces { name: "orders" scope_from: CALLER }
)";

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() { Write("keys.json", signer_.KeySet()); }

  std::string Write(const std::string& name, const std::string& content) const {
    // A new file: the file system may write one that is truncated to the disk at once.
    std::filesystem::remove(folder_.File(name));
    std::ofstream(folder_.File(name)) << content;
    return folder_.File(name);
  }
  absl::StatusOr<LoadedConfig> Load(const std::string& text) const {
    return LoadConfig(Write("config.textproto", text));
  }
  // The faults without the file's name: "LINE: fault".
  std::vector<std::string> FaultsOf(const std::string& text) const {
    const absl::Status status = Load(text).status();
    EXPECT_FALSE(status.ok()) << text;
    return FaultsIn(status);
  }
  std::vector<std::string> FaultsIn(const absl::Status& status) const {
    std::vector<std::string> faults;
    for (const auto line : absl::StrSplit(status.message(), '\n')) {
      const std::string start = absl::StrCat(folder_.File("config.textproto"), ":");
      EXPECT_THAT(std::string(line), HasSubstr(start));
      faults.emplace_back(line.substr(std::min(start.size(), line.size())));
    }
    return faults;
  }

  testing::TempFolder folder_;
  testing::TokenSigner signer_{testing::TokenSigner::Kind::kEd25519};
};

TEST_F(ConfigFileTest, ReportsABoundedNumberOfFaultsOfAFileThatIsNoText) {
  std::string noise;
  for (std::size_t i = 0; i < 2 * kMaxFaults; ++i) noise += "\x01 ";
  EXPECT_EQ(FaultsOf(noise).size(), kMaxFaults);
}

TEST_F(ConfigFileTest, IsTranslated) {
  const auto loaded = Load(kValid);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const AccessRules& access = loaded->access;
  ASSERT_EQ(access.identities.size(), 4u);
  EXPECT_TRUE(access.identities[3].anonymous);
  EXPECT_THAT(access.identities[0].uris, ElementsAre("spiffe://example/payments"));
  EXPECT_THAT(access.identities[0].dns_names, ElementsAre("payments.example"));
  EXPECT_THAT(access.identities[0].subjects, ElementsAre("CN=payments"));
  EXPECT_THAT(access.identities[0].token_digests, ElementsAre(Sha256("test")));
  ASSERT_EQ(access.identities[0].token_subjects.size(), 1u);
  EXPECT_TRUE(access.identities[1].any_certificate);
  EXPECT_TRUE(access.identities[2].local);
  EXPECT_FALSE(access.identities[0].local || access.identities[0].any_certificate ||
               access.identities[0].anonymous);
  EXPECT_THAT(access.peer_scoped, ElementsAre("payments"));
  ASSERT_EQ(access.issuers.size(), 1u);
  const AccessPolicy policy(access);
  EXPECT_TRUE(policy.Allows(0, "orders", Permission::kWrite));
  EXPECT_TRUE(policy.Allows(0, "orders", Permission::kRead));
  EXPECT_FALSE(policy.Allows(0, "orders", Permission::kReadContent));
  EXPECT_FALSE(policy.Allows(0, "orders", Permission::kAdmin));
  EXPECT_TRUE(policy.Allows(2, "anything", Permission::kReadContent));
  EXPECT_TRUE(policy.Allows(2, "anything", Permission::kAdmin));
  EXPECT_FALSE(policy.Allows(2, "anything", Permission::kWrite));
}

TEST_F(ConfigFileTest, SettingsOfNamespaces) {
  const auto loaded = Load(R"(
identities { name: "machine" local: true }
rules { identity: "machine" namespaces: "*" permissions: READ }
not_before: "2026-01-02T00:00:00Z"
namespaces { name: "all" window { seconds: 3600 } unknown_life { seconds: 86400 } not_before: "2026-01-01T00:00:00Z"
  limits { max_rate: 10.5 max_in_flight: 7 max_waiting: 0 max_records: 9
           max_reply_bytes: 1000000000000000 }
  retention { min { seconds: 60 } max { seconds: 3600 } } }
namespaces { name: "burst" limits { max_rate: 10 burst: 99 } }
namespaces { name: "half" limits { max_in_flight: 7 } }
namespaces { name: "most" limits { max_in_flight: 7 max_waiting: 6 } }
namespaces { name: "waiting" limits { max_waiting: 7 } }
namespaces { name: "defaults" })");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const NamespaceSettings& all = loaded->namespaces.at("all");
  EXPECT_EQ(all.window, absl::Hours(1));
  EXPECT_EQ(all.unknown_life, absl::Hours(24));
  EXPECT_EQ(all.not_before, absl::FromUnixSeconds(1767225600));
  EXPECT_EQ(loaded->not_before, absl::FromUnixSeconds(1767312000));
  EXPECT_EQ(all.max_rate, 10.5);
  EXPECT_EQ(all.burst, 11u);
  EXPECT_EQ(all.max_in_flight, 7u);
  EXPECT_EQ(all.max_waiting, 0u);
  EXPECT_EQ(all.max_records, 9);
  EXPECT_EQ(all.max_reply_bytes, 1'000'000'000'000'000);
  EXPECT_EQ(all.min_retention, absl::Minutes(1));
  EXPECT_EQ(all.max_retention, absl::Hours(1));
  EXPECT_EQ(all.default_retention, absl::Hours(1)) << "the nearest bound";
  EXPECT_EQ(loaded->namespaces.at("burst").burst, 99u);
  EXPECT_EQ(loaded->namespaces.at("half").max_waiting, 3u) << "places are left for the others";
  EXPECT_EQ(loaded->namespaces.at("most").max_waiting, 6u);
  EXPECT_EQ(loaded->namespaces.at("waiting").max_waiting, 7u);
  const NamespaceSettings& defaults = loaded->namespaces.at("defaults");
  EXPECT_FALSE(defaults.max_rate || defaults.max_in_flight || defaults.max_waiting ||
               defaults.max_records || defaults.max_reply_bytes || defaults.unknown_life ||
               defaults.not_before);
  EXPECT_EQ(defaults.default_retention, limits::kDefaultRetention);
  EXPECT_EQ(defaults.window, limits::kDefaultWindow);
}

// By clocks that may be ahead of this one.
TEST_F(ConfigFileTest, NotBeforeMayBeALittleLater) {
  const absl::Time later = absl::Now() + limits::kClockStepMargin - absl::Minutes(1);
  const auto loaded = Load(absl::StrCat(
      "identities { name: \"machine\" local: true }\n"
      "rules { identity: \"machine\" namespaces: \"*\" permissions: READ }\nnot_before: \"",
      absl::FormatTime(absl::RFC3339_full, later, absl::UTCTimeZone()), "\""));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->not_before, later);
}

TEST_F(ConfigFileTest, NotesNamePartsThatAreProbablyNotMeant) {
  const auto notes_on = [this](const std::string& rules, const std::string& rest) {
    const auto loaded =
        Load(absl::StrCat("identities { name: \"m\" anonymous: true }\n",
                          "identities { name: \"here\" local: true }\nrules { identity: \"m\" ",
                          "permissions: READ namespaces: ", rules, " }\n", rest));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? NotesOn(*loaded) : std::vector<std::string>();
  };
  const std::string listed = "namespaces { name: \"payments\" }";
  EXPECT_THAT(notes_on("\"*\"", listed), IsEmpty());
  EXPECT_THAT(notes_on("\"payments\"", listed), IsEmpty());
  EXPECT_THAT(notes_on("\"payment\"", ""), IsEmpty());
  EXPECT_THAT(notes_on("\"payment\"", listed),
              ElementsAre(HasSubstr("\"payment\" is in use"), HasSubstr("\"payments\" is in no")));
  EXPECT_THAT(notes_on("[\"*\", \"payment\"]", listed),
              ElementsAre(HasSubstr("\"payment\" is in use")));

  const auto processor = [](const std::string& fields) {
    return absl::StrCat("external_processor { namespace: \"p\" scope { shared: \"s\" } ", fields,
                        " }");
  };
  const std::string proxies = "proxies: \"m\" ";
  EXPECT_THAT(notes_on("\"*\"", processor(proxies)), IsEmpty());
  EXPECT_THAT(notes_on("\"*\"", processor(proxies + "proxies: \"here\" ")),
              ElementsAre(HasSubstr("\"here\" in external_processor.proxies has no credential but "
                                    "`local`")));
  EXPECT_THAT(notes_on("\"*\"", processor("")), ElementsAre(HasSubstr("proxies is empty")));
  EXPECT_THAT(notes_on("\"*\"", processor(proxies) + listed),
              ElementsAre(HasSubstr("\"p\" is in use")));
  EXPECT_THAT(notes_on("\"payments\"", processor(proxies) + "namespaces { name: \"p\" }"),
              ElementsAre(HasSubstr("\"payments\" is in use")));
  EXPECT_THAT(notes_on("\"*\"", processor(proxies + "max_request_bytes: 8388608")),
              ElementsAre(HasSubstr("max_held_bytes is below 52 times")));
  const std::string million = proxies + "max_request_bytes: 1000000 max_held_bytes: ";
  EXPECT_THAT(notes_on("\"*\"", processor(million + "52000000")), IsEmpty());
  EXPECT_THAT(notes_on("\"*\"", processor(million + "51999999")),
              ElementsAre(HasSubstr("max_held_bytes is below 52 times")));
}

// It would permit nothing: it was cut, or emptied.
TEST_F(ConfigFileTest, AFileWithoutRulesIsRefused) {
  for (const char* const text : {"", "# nothing\n", "identities { name: \"a\" local: true }",
                                 "namespaces { name: \"n\" }"}) {
    EXPECT_THAT(FaultsOf(text), ElementsAre(::testing::StartsWith("1: there are no rules")));
  }
  // The processor's calls need none.
  EXPECT_TRUE(Load("external_processor { namespace: \"n\" scope { shared: \"s\" } }").ok());
}

struct BadFile {
  std::string text;
  // The start of its first fault: the line, and what is wrong.
  std::string fault;

  friend void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.text; }
};

class ConfigFaultTest : public ConfigFileTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(ConfigFaultTest, NamesItsLineAndTheRemedy) {
  const std::vector<std::string> found = FaultsOf(GetParam().text);
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front(), ::testing::StartsWith(GetParam().fault));
}

// A line before the fault.
const char kIdentity[] = "identities { name: \"a\" local: true }\n";

INSTANTIATE_TEST_SUITE_P(
    Syntax, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"identities { name: \"a\"\n", "2:1: "},
        {"identity { }", "1:10: "},
        {"rules { permissions: FLY }", "1:26: "},
        {"identities: [\n{ name: \"a\" local: true }, { name: \"b\" }]", "2: a list of messages"},
        {"identities: []", "1: a list of messages, or an empty list"},
        {"identities { name: \"a\" local: true tokens: [] }", "1: a list of messages, or"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Identities, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"\nidentities { local: true }", "2: identities.name must be 1 to 64"},
        {"identities {\n local: true\n name: \"a b\" }", "3: identities.name must be"},
        {"identities { name: \"a/b\" local: true }", "1: identities.name must be"},
        {absl::StrCat(kIdentity, kIdentity), "2: identity \"a\" is listed twice"},
        {"identities { name: \"a\" }", "1: identity \"a\" has no credential; add"},
        {"identities { name: \"a\" certificates { } }", "1: certificates needs one of"},
        {"identities { name: \"a\"\n certificates { uri: \"\" } }", "2: uri must not be empty"},
        {"identities { name: \"a\" certificates { any: false } }", "1: any must be true"},
        {"identities { name: \"a\"\n\n tokens { sha256: \"abc\" } }", "3: sha256 must be 64"},
        {absl::StrCat("identities { name: \"a\" tokens { sha256: \"", std::string(64, 'g'),
                      "\" } }"),
         "1: sha256 must be 64"},
        {"identities { name: \"a\" tokens { sha256: "
         "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\" } }",
         "1: sha256 is that of an empty token"},
        {"identities { name: \"a\" token_subjects { issuer: \"x\" subject: \"y\" } }",
         "1: issuer must be that of an entry of token_issuers"},
        {absl::StrCat(kIdentity, "identities { name: \"b\" local: true }"),
         "2: this credential is also identity \"a\"'s"},
        {"identities { name: \"a\" certificates { dns: \"x\" } }\n"
         "identities { name: \"b\" certificates { dns: \"x\" } }",
         "2: this credential is also identity \"a\"'s"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Rules, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"rules { identity: \"a\" namespaces: \"n\" permissions: READ }",
         "1: identity must be the name of one"},
        {absl::StrCat(kIdentity, "rules { identity: \"a\" permissions: READ }"),
         "2: namespaces must not be empty"},
        {absl::StrCat(
             kIdentity,
             "rules { identity: \"a\"\n namespaces: [\n\"n\",\n\"n n\"] permissions: READ }"),
         "3: each of namespaces must be 1-64 characters of a-z, 0-9, '.', '_' and '-', or be "
         "\"*\""},
        {absl::StrCat(kIdentity, "rules { identity: \"a\" namespaces: \"n\" }"),
         "2: permissions must not be empty"},
        {absl::StrCat(
             kIdentity,
             "rules { identity: \"a\" namespaces: \"n\" permissions: PERMISSION_UNSPECIFIED }"),
         "2: must be WRITE"},
        {absl::StrCat(kIdentity, "rules { identity: \"a\" namespaces: \"n\" permissions: 7 }"),
         "2: must be WRITE"},
        {absl::StrCat(kIdentity,
                      "rules { identity: \"a\" namespaces: \"n\"\n permissions: [READ, -1] }"),
         "3: must be WRITE"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Namespaces, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"namespaces { name: \"n\"\n scope_from: 7 }", "2: scope_from must be CALLER or PEER"},
        {"namespaces { }", "1: name must be 1-64 characters of a-z, 0-9"},
        {"namespaces {\n name: \"Payments\" }", "2: name must be 1-64 characters of a-z, 0-9"},
        {"external_processor {\n namespace: \"Payments\" }",
         "2: namespace must be 1-64 characters of a-z, 0-9, '.', '_' and '-'"},
        {"namespaces { name: \"n\" scope_from: PEER }\n"
         "external_processor {\n namespace: \"n\" scope { header: \"x-user\" } }",
         "3: namespace \"n\" has scope_from: PEER"},
        {"namespaces { name: \"n\"\n retention {\n min { seconds: 0 } } }", "3: min must be 1s to"},
        {"namespaces { name: \"n\" retention { max { seconds: 99999999 } } }", "1: max must be 1s"},
        {"namespaces { name: \"n\" retention { max { seconds: 1 nanos: -1 } } }", "1: max must be"},
        {"namespaces { name: \"n\"\n retention { min { seconds: 2 } max { seconds: 1 } } }",
         "2: min must not be over max"},
        {"namespaces { name: \"n\" retention { max { seconds: 9 } default { seconds: 10 } } }",
         "1: default must be 1s to 9s"},
        {"namespaces { name: \"n\"\n unknown_life { seconds: 59 } }", "2: unknown_life must be 1m"},
        {"namespaces { name: \"n\" window { seconds: 1 } }", "1: window must be 1m to"},
        {"namespaces { name: \"n\"\n not_before: \"yesterday\" }", "2: not_before must be a time"},
        {"namespaces { name: \"n\" not_before: \"2126-01-01T00:00:00Z\" }",
         "1: not_before must not be in the future by more than 5m"},
        {"\nnot_before: \"yesterday\"", "2: not_before must be a time"},
        {"not_before: \"infinite-past\"", "1: not_before must be a time"},
        {"not_before: \"infinite-future\"", "1: not_before must be a time"},
        {"\nnot_before: \"2126-01-01T00:00:00Z\"",
         "2: not_before must not be in the future by more than 5m"},
        {"namespaces { name: \"n\" }\nnamespaces { name: \"n\" }",
         "2: this namespace is listed twice"},
    }));

INSTANTIATE_TEST_SUITE_P(
    ExternalProcessor, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"external_processor { namespace: \"n\"\n scope { shared: \"s\" } scope {} }",
         "2: scope needs one of peer, header, metadata and shared"},
        {"external_processor { namespace: \"n\" scope { shared: \"s\" }\n on_unknown_outcome: 7 }",
         "2: on_unknown_outcome must be LEASE_EXPIRY_TAKE_OVER or"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Limits, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"namespaces { name: \"n\"\n limits {\n max_rate: 0 } }", "3: max_rate must be"},
        {"namespaces { name: \"n\" limits { max_rate: nan } }", "1: max_rate must be"},
        {"namespaces { name: \"n\" limits { max_rate: 1e9 } }", "1: max_rate must be"},
        {"namespaces { name: \"n\" limits { max_rate: 1 burst: 0 } }", "1: burst must be at least"},
        {"namespaces { name: \"n\" limits { burst: 1 } }", "1: burst has no effect without"},
        {"namespaces { name: \"n\" limits { max_records: 0 } }", "1: max_records must be 1 to"},
        {"namespaces { name: \"n\" limits { max_records: 10000001 } }",
         "1: max_records must be 1 to 10000000"},
        {"namespaces { name: \"n\" limits { max_reply_bytes: 1000000000000001 } }",
         "1: max_reply_bytes must be 1 to"},
        {"namespaces { name: \"n\" limits { max_in_flight: 0 } }", "1: max_in_flight must be"},
        {"namespaces { name: \"n\" limits { max_in_flight: 7\n max_waiting: 7 } }",
         "2: max_waiting must be below max_in_flight"},
    }));

INSTANTIATE_TEST_SUITE_P(
    TokenIssuers, ConfigFaultTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"token_issuers { issuer: \"x\" }",
         "1: token_issuers needs issuer, audience and keys_file"},
        {"token_issuers { issuer: \"x\" audience: \"y\"\n keys_file: \"none.json\" }",
         "2: keys_file "},
    }));

TEST_F(ConfigFileTest, AllFaultsAreListedUpToABound) {
  EXPECT_EQ(FaultsOf("namespaces { }\nrules { identity: \"x\" }").size(), 4u);
  std::string many;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, "identities { name: \"\" }\n");
  EXPECT_EQ(FaultsOf(many).size(), 20u);
}

// A file is valid, or it is refused with a line and a reason for each fault.
TEST_F(ConfigFileTest, ACutOrChangedFileIsValidOrRefusedWithReasons) {
  const std::string valid = kValid;
  std::size_t refused = 0;
  std::size_t tried = 0;
  const auto try_file = [&](const std::string& text) {
    ++tried;
    const absl::Status status = Load(text).status();
    if (status.ok()) return;
    ++refused;
    EXPECT_THAT(FaultsIn(status), Each(MatchesRegex("[0-9]+:([0-9]+:)? .+"))) << text;
  };
  for (std::size_t i = 0; i < valid.size(); ++i) {
    try_file(valid.substr(0, i));
    for (const char byte : {'[', ']', '{', '}', '<', '\0', '"', '\xff', '1'}) {
      std::string changed = valid;
      changed[i] = byte;
      try_file(changed);
    }
  }
  // Most changes of a file that means something are faults: the rest are in names and white space.
  EXPECT_GT(refused, tried / 2);
}

TEST_F(ConfigFileTest, FilesThatCannotBeRead) {
  EXPECT_THAT(std::string(LoadConfig(folder_.File("none")).status().message()),
              HasSubstr(folder_.File("none")));
  EXPECT_FALSE(LoadConfig(folder_.path()).ok());
  EXPECT_FALSE(Load(std::string(limits::kMaxConfigBytes + 1, '#')).ok());
  Write("keys.json", "{}");
  EXPECT_THAT(FaultsOf(kValid).front(), HasSubstr("keys.json has no list \"keys\""));
}

TEST_F(ConfigFileTest, TheDigestChangesWithEveryFile) {
  const Sha256Digest first = Load(kValid).value().digest;
  EXPECT_EQ(Load(kValid).value().digest, first);
  EXPECT_NE(Load(absl::StrCat(kValid, "\n")).value().digest, first);
  Write("keys.json", testing::TokenSigner(testing::TokenSigner::Kind::kEc).KeySet());
  EXPECT_NE(Load(kValid).value().digest, first);
}

TEST_F(ConfigFileTest, PrintsNoDigestOfAToken) {
  const std::string printed = PrintConfig(Load(kValid).value().config);
  EXPECT_THAT(printed, HasSubstr("spiffe://example/payments"));
  EXPECT_THAT(printed, HasSubstr("REDACTED"));
  EXPECT_THAT(printed, ::testing::Not(HasSubstr("9f86d081884c")));
}

}  // namespace
}  // namespace idempotency::internal
