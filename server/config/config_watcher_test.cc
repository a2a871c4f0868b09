#include "server/config/config_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "server/config/config_safeguards.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LastValidity final : public Observer {
 public:
  void ConfigRead(bool valid) override { valid_ = valid; }
  bool valid() const { return valid_; }

 private:
  bool valid_ = true;
};

std::string ConfigOf(const std::string& namespaces) {
  return absl::StrCat("identities { name: \"machine\" local: true }\n",
                      "rules { identity: \"machine\" namespaces: \"*\" permissions: READ }\n",
                      namespaces);
}

class ConfigWatcherTest : public ::testing::Test {
 protected:
  // The test reads the file, not the watcher's thread.
  ConfigWatcherTest() {
    Write(ConfigOf("namespaces { name: \"a\" }"));
    const LoadedConfig loaded = LoadConfig(path_).value();
    access_.Restrict(std::make_shared<AccessPolicy>(loaded.access), Clock::System());
    tenants_.Configure(loaded.namespaces, loaded.not_before);
    watcher_ = std::make_unique<ConfigWatcher>(path_, loaded, access_, tenants_, observer_, nullptr,
                                               absl::Hours(1));
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("config.textproto");
  LastValidity observer_;
  AccessControl access_;
  Tenants tenants_{observer_};
  std::unique_ptr<ConfigWatcher> watcher_;
};

TEST_F(ConfigWatcherTest, AChangeAppliesOnceTwoReadingsAgree) {
  Write(ConfigOf("namespaces { name: \"a\" }\nnamespaces { name: \"b\" }"));
  watcher_->Refresh();
  EXPECT_THAT(tenants_.Names(), ElementsAre("a"));
  EXPECT_TRUE(observer_.valid());
  watcher_->Refresh();
  EXPECT_THAT(tenants_.Names(), ElementsAre("a", "b"));
}

// Valid as far as it was written.
TEST_F(ConfigWatcherTest, AFileThatIsBeingWrittenIsNotApplied) {
  const std::string whole = ConfigOf("namespaces { name: \"a\" }\nnamespaces { name: \"b\" }");
  for (const char* const part : {"", "namespaces { name: \"a\" }\n"}) {
    Write(ConfigOf(part));
    watcher_->Refresh();
    EXPECT_THAT(tenants_.Names(), ElementsAre("a")) << part;
  }
  Write(whole);
  watcher_->Refresh();
  EXPECT_THAT(tenants_.Names(), ElementsAre("a"));
  watcher_->Refresh();
  EXPECT_THAT(tenants_.Names(), ElementsAre("a", "b"));
  // There and back between two readings.
  Write(ConfigOf(""));
  watcher_->Refresh();
  Write(whole);
  watcher_->Refresh();
  Write(ConfigOf(""));
  watcher_->Refresh();
  EXPECT_THAT(tenants_.Names(), ElementsAre("a", "b"));
}

TEST_F(ConfigWatcherTest, AFileWithoutRulesIsNotApplied) {
  for (const char* const text : {"", "identities { name: \"machine\" local: true }"}) {
    Write(text);
    for (int i = 0; i < 3; ++i) watcher_->Refresh();
    EXPECT_THAT(tenants_.Names(), ElementsAre("a")) << text;
    EXPECT_FALSE(observer_.valid()) << text;
  }
}

TEST(ConfigSafeguardsTest, WhatAChangeTakesAway) {
  const testing::TempFolder folder;
  const auto of = [&folder](const std::string& text) {
    std::ofstream(folder.File("c")) << ConfigOf(text);
    return ConfigSafeguards(LoadConfig(folder.File("c")).value());
  };
  const ConfigSafeguards before =
      of("identities { name: \"b\" anonymous: true }\n"
         "not_before: \"2026-01-02T00:00:00Z\"\n"
         "namespaces { name: \"late\" not_before: \"2026-01-03T00:00:00Z\" }\n"
         "namespaces { name: \"early\" not_before: \"2026-01-01T00:00:00Z\" }");
  EXPECT_THAT(before.IdentitiesLostIn(before), IsEmpty());
  EXPECT_THAT(before.NotBeforeLostIn(before), IsEmpty());
  EXPECT_THAT(before.IdentitiesLostIn(of("")), ElementsAre("b"));
  EXPECT_THAT(of("").IdentitiesLostIn(before), IsEmpty());
  EXPECT_THAT(before.NotBeforeLostIn(of("")), ElementsAre("*", "early", "late"));
  EXPECT_THAT(of("").NotBeforeLostIn(before), IsEmpty());
  // That of every namespace is at least the one of a namespace.
  EXPECT_THAT(before.NotBeforeLostIn(of("not_before: \"2026-01-03T00:00:00Z\"")), IsEmpty());
  EXPECT_THAT(before.NotBeforeLostIn(of("not_before: \"2026-01-02T00:00:00Z\"")),
              ElementsAre("late"));
  EXPECT_THAT(before.NotBeforeLostIn(of("not_before: \"2026-01-01T00:00:00Z\"")),
              ElementsAre("*", "late"));
}

std::string At(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

TEST(ConfigSafeguardsTest, TighterBoundsOfTheRetentionRefuseGuards) {
  const testing::TempFolder folder;
  const auto of = [&folder](const std::string& text) {
    std::ofstream(folder.File("c")) << ConfigOf(text);
    return ConfigSafeguards(LoadConfig(folder.File("c")).value());
  };
  const auto a = [&of](const std::string& retention) {
    return of("namespaces { name: \"a\" retention { " + retention + " } }");
  };
  const ConfigSafeguards month = a("min { seconds: 60 } max { seconds: 2592000 }");
  EXPECT_THAT(month.RetentionsTightenedIn(month), IsEmpty());
  EXPECT_THAT(month.RetentionsTightenedIn(a("min { seconds: 60 } max { seconds: 86400 }")),
              ElementsAre("a"));
  EXPECT_THAT(month.RetentionsTightenedIn(a("min { seconds: 61 } max { seconds: 2592000 }")),
              ElementsAre("a"));
  EXPECT_THAT(month.RetentionsTightenedIn(a("min { seconds: 30 } max { seconds: 2592001 }")),
              IsEmpty());
  // One that is not listed has the widest bounds.
  EXPECT_THAT(month.RetentionsTightenedIn(of("")), IsEmpty());
  EXPECT_THAT(of("").RetentionsTightenedIn(month), ElementsAre("a"));
}

// Records of a shorter window are forgotten by then: also where the longer window is the default.
TEST(ConfigSafeguardsTest, ALongerWindowNeedsANotBefore) {
  const testing::TempFolder folder;
  const auto of = [&folder](const std::string& text) {
    std::ofstream(folder.File("c")) << ConfigOf(text);
    return ConfigSafeguards(LoadConfig(folder.File("c")).value());
  };
  const absl::Time now = absl::Now();
  const std::string hour = "namespaces { name: \"a\" window { seconds: 3600 } ";
  const ConfigSafeguards before = of(hour + "}");
  const auto raised = [&before, &of, now](const std::string& text) {
    return before.WindowsRaisedIn(of(text), now);
  };
  EXPECT_THAT(raised(hour + "}"), IsEmpty());
  EXPECT_THAT(raised("namespaces { name: \"a\" window { seconds: 3601 } }"), ElementsAre("a"));
  EXPECT_THAT(raised("namespaces { name: \"a\" window { seconds: 3599 } }"), IsEmpty());
  EXPECT_THAT(raised("namespaces { name: \"a\" }"), ElementsAre("a"));
  EXPECT_THAT(raised(""), ElementsAre("a"));
  // A name that is mistyped.
  EXPECT_THAT(raised("namespaces { name: \"c\" window { seconds: 3600 } }"), ElementsAre("a"));
  // One that was not listed had the default.
  EXPECT_THAT(raised(hour + "} namespaces { name: \"b\" window { seconds: 86401 } }"),
              ElementsAre("b"));
  EXPECT_THAT(raised(hour + "} namespaces { name: \"b\" window { seconds: 86400 } }"), IsEmpty());

  const auto with = [](absl::Time time) {
    return absl::StrCat("not_before: \"", At(time), "\"\n");
  };
  EXPECT_THAT(raised(with(now + absl::Minutes(1))), IsEmpty());
  // Records were kept for the shorter window until now.
  EXPECT_THAT(raised(with(now - absl::Minutes(1))), ElementsAre("a"));
  EXPECT_THAT(raised(absl::StrCat("namespaces { name: \"a\" ", with(now + absl::Minutes(1)), "}")),
              IsEmpty());
}

// Records were kept for the least retention.
TEST(ConfigSafeguardsTest, AWindowBelowTheFormerLeastRetentionNeedsNoNotBefore) {
  const testing::TempFolder folder;
  const auto a = [&folder](const std::string& text) {
    std::ofstream(folder.File("c")) << ConfigOf("namespaces { name: \"a\" " + text + " }");
    return ConfigSafeguards(LoadConfig(folder.File("c")).value());
  };
  const std::string week = "retention { min { seconds: 604800 } }";
  const ConfigSafeguards before = a("window { seconds: 86400 } " + week);
  const auto raised = [&before, &a](const std::string& text) {
    return before.WindowsRaisedIn(a(text), absl::Now());
  };
  EXPECT_THAT(raised("window { seconds: 172800 } " + week), IsEmpty());
  EXPECT_THAT(raised("window { seconds: 172800 }"), IsEmpty());
  EXPECT_THAT(raised("window { seconds: 604800 }"), IsEmpty());
  EXPECT_THAT(raised("window { seconds: 604801 }"), ElementsAre("a"));
  // The new one is not that of the records before.
  EXPECT_THAT(a("window { seconds: 86400 }")
                  .WindowsRaisedIn(a("window { seconds: 172800 } " + week), absl::Now()),
              ElementsAre("a"));
}

TEST(ConfigSafeguardsTest, PeerScopesAreLostWithTheirNamespace) {
  const testing::TempFolder folder;
  const auto of = [&folder](const std::string& text) {
    std::ofstream(folder.File("c")) << ConfigOf(text);
    return ConfigSafeguards(LoadConfig(folder.File("c")).value());
  };
  const ConfigSafeguards before =
      of("namespaces { name: \"a\" scope_from: PEER }\n"
         "namespaces { name: \"b\" scope_from: PEER }\nnamespaces { name: \"c\" }");
  EXPECT_THAT(before.PeerScopesLostIn(before), IsEmpty());
  EXPECT_THAT(before.PeerScopesLostIn(of("namespaces { name: \"b\" scope_from: PEER }")),
              ElementsAre("a"));
  EXPECT_THAT(before.PeerScopesLostIn(
                  of("namespaces { name: \"a\" scope_from: CALLER }\n"
                     "namespaces { name: \"b\" }\nnamespaces { name: \"c\" scope_from: PEER }")),
              ElementsAre("a", "b"));
}

}  // namespace
}  // namespace idempotency::internal
