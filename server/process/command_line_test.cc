#include "server/process/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(const std::vector<absl::string_view>& args) {
  return ParseCommandLine(args);
}

// Arguments that must be read as `serve`, or as `migrate`.
template <typename Options>
Options ParseAs(const std::vector<absl::string_view>& args) {
  const absl::StatusOr<CommandLine> command_line = Parse(args);
  EXPECT_TRUE(command_line.ok()) << command_line.status();
  if (!command_line.ok() || !std::holds_alternative<Options>(*command_line)) {
    ADD_FAILURE() << "read as something else";
    return {};
  }
  return std::get<Options>(*command_line);
}

std::string TextOf(const std::vector<absl::string_view>& args) {
  return ParseAs<ShowText>(args).text;
}

TEST(CommandLineTest, ServeHasDefaultsForEverythingButTheStore) {
  const auto options = ParseAs<ServeOptions>({"serve", "--store=sqlite:r.db"});
  EXPECT_EQ(options.store.location, "r.db");
  EXPECT_EQ(options.listen.ToString(), "127.0.0.1:7411");
  ASSERT_TRUE(options.metrics.has_value());
  EXPECT_EQ(options.metrics->ToString(), "127.0.0.1:9464");
  EXPECT_EQ(options.store_connections, ServiceOptions::DefaultStoreConnections());
  EXPECT_EQ(options.sweep_interval, absl::Minutes(1));
  EXPECT_EQ(options.drain_timeout, absl::Seconds(25));
  EXPECT_EQ(options.log_level, LogLevel::kInfo);
  EXPECT_EQ(options.tls.certificate, "");
}

TEST(CommandLineTest, OnlyAnEmptyRedisCanBeAccepted) {
  EXPECT_FALSE(ParseAs<ServeOptions>({"serve", "--store=redis://h"}).store.accept_empty);
  EXPECT_TRUE(ParseAs<ServeOptions>({"serve", "--store=redis://h", "--accept_empty_store"})
                  .store.accept_empty);
  const std::vector<absl::string_view> args = {"serve", "--store=sqlite:r.db",
                                               "--accept_empty_store"};
  EXPECT_FALSE(ParseCommandLine(args).ok());
}

TEST(CommandLineTest, ServeTestingHasAPortAndNoAddress) {
  const auto options = ParseAs<ServeTestingOptions>({"serve-testing"});
  EXPECT_EQ(options.port, 0);
  EXPECT_TRUE(options.exit_with_parent);
  EXPECT_FALSE(options.exit_with_stdin);
  EXPECT_EQ(options.log_level, LogLevel::kWarn);
  const auto chosen =
      ParseAs<ServeTestingOptions>({"serve-testing", "--port=65535", "--exit_with_parent=false",
                                    "--exit_with_stdin", "--log_level=debug"});
  EXPECT_EQ(chosen.port, 65'535);
  EXPECT_FALSE(chosen.exit_with_parent);
  EXPECT_TRUE(chosen.exit_with_stdin);
  EXPECT_EQ(chosen.log_level, LogLevel::kDebug);
  for (const absl::string_view flag :
       {"--listen=0.0.0.0:1", "--port=0.0.0.0:1", "--port=65536", "--store=sqlite:r.db"}) {
    EXPECT_FALSE(Parse({"serve-testing", flag}).ok()) << flag;
  }
  EXPECT_THAT(TextOf({"serve-testing", "--help"}), HasSubstr("127.0.0.1 only"));
}

TEST(CommandLineTest, ServeTakesEveryFlagInBothForms) {
  const auto options = ParseAs<ServeOptions>(
      {"serve", "--store", "postgresql://db/records", "--listen=unix:/run/d.sock",
       "--metrics=", "--store_connections", "64", "--sweep_interval=500ms", "--drain_timeout=0",
       "--log_level=debug", "--log_format=json", "--tls_cert=c.pem", "--tls_key", "k.pem",
       "--tls_client_ca=ca.pem", "--config=c.textproto", "--allow_plaintext",
       "--console=localhost:7412", "--ext_proc=localhost:7413"});
  EXPECT_EQ(options.store.kind, StoreAddress::Kind::kPostgres);
  EXPECT_EQ(options.listen.unix_path, "/run/d.sock");
  EXPECT_FALSE(options.metrics.has_value());
  EXPECT_EQ(options.store_connections, 64);
  EXPECT_EQ(options.sweep_interval, absl::Milliseconds(500));
  EXPECT_EQ(options.drain_timeout, absl::ZeroDuration());
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.log_format, LogFormat::kJson);
  EXPECT_EQ(options.tls.certificate, "c.pem");
  EXPECT_EQ(options.tls.key, "k.pem");
  EXPECT_EQ(options.tls.client_ca, "ca.pem");
  EXPECT_EQ(options.config, "c.textproto");
  EXPECT_TRUE(options.allow_plaintext);
  EXPECT_EQ(options.console->ToString(), "localhost:7412");
  EXPECT_EQ(options.ext_proc->ToString(), "localhost:7413");
}

// A guarded request behind a proxy may take a day; a session moves after a minute all the same.
TEST(CommandLineTest, TheGraceOfExchangesIsAnHourOrMoreAndThatOfOperationsAnHourAtMost) {
  const auto listener = [](absl::string_view flag) {
    return ParseAs<ServeOptions>({"serve", "--store=sqlite:r.db", flag}).listener;
  };
  EXPECT_EQ(listener("--connection_grace=2m").ForExchanges().connection_grace, absl::Hours(1));
  const ListenerOptions day = listener("--connection_grace=24h");
  EXPECT_EQ(day.ForExchanges().connection_grace, absl::Hours(24));
  EXPECT_EQ(day.ForOperations().connection_grace, absl::Hours(1));
  EXPECT_EQ(listener("--connection_grace=2m").ForOperations().connection_grace, absl::Minutes(2));
  EXPECT_EQ(day.session_age(), absl::Minutes(1));
  EXPECT_EQ(listener("--connection_grace=10s").session_age(), absl::Seconds(5));
}

// Beyond this machine: rules, and TLS unless the operator forgoes it.
TEST(CommandLineTest, AnAddressThatOthersReachNeedsRulesAndTls) {
  const std::vector<absl::string_view> all = {"serve", "--store=sqlite:r.db",
                                              "--config=c.textproto", "--tls_cert=c.pem",
                                              "--tls_key=k.pem"};
  for (const char* listen : {"--listen=0.0.0.0:1", "--listen=[::]:1", "--listen=10.0.0.1:1",
                             "--listen=idempotencyd.example:1", "--console=0.0.0.0:1"}) {
    SCOPED_TRACE(listen);
    std::vector<absl::string_view> args = all;
    args.push_back(listen);
    EXPECT_TRUE(Parse(args).ok());
    args.erase(args.begin() + 2);
    EXPECT_THAT(std::string(Parse(args).status().message()), HasSubstr("--config must state"));
    args = {all[0], all[1], all[2], listen};
    EXPECT_THAT(std::string(Parse(args).status().message()), HasSubstr("or --allow_plaintext"));
    args.push_back("--allow_plaintext");
    EXPECT_TRUE(Parse(args).ok());
  }
  for (const char* listen : {"--listen=127.0.0.1:1", "--listen=[::1]:1", "--listen=unix:/run/d"}) {
    EXPECT_TRUE(Parse({all[0], all[1], listen}).ok()) << listen;
  }
}

TEST(CommandLineTest, AnExternalProcessorNeedsAConfiguration) {
  EXPECT_THAT(
      std::string(
          Parse({"serve", "--store=sqlite:r.db", "--ext_proc=127.0.0.1:1"}).status().message()),
      HasSubstr("--ext_proc needs --config"));
  EXPECT_THAT(std::string(Parse({"serve", "--store=sqlite:r.db", "--ext_proc=0.0.0.0:1",
                                 "--config=c.textproto"})
                              .status()
                              .message()),
              HasSubstr("--ext_proc is reached by other machines"));
}

// Every guarded request would be refused.
TEST(CommandLineTest, AnExternalProcessorIsNotReadOnly) {
  EXPECT_THAT(std::string(Parse({"serve", "--store=postgresql://h/d", "--ext_proc=127.0.0.1:1",
                                 "--config=c.textproto", "--read_only"})
                              .status()
                              .message()),
              HasSubstr("--read_only makes no reservation"));
}

TEST(CommandLineTest, CheckConfigTakesAFile) {
  const auto options = ParseAs<CheckConfigOptions>({"check-config", "--config=c.textproto"});
  EXPECT_EQ(options.config, "c.textproto");
  EXPECT_FALSE(options.print);
  EXPECT_TRUE(ParseAs<CheckConfigOptions>({"check-config", "--config=c", "--print_config"}).print);
}

TEST(CommandLineTest, MigrateTakesATargetOrPrintsTheStatus) {
  const auto newest = ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db"});
  EXPECT_FALSE(newest.to.has_value());
  EXPECT_FALSE(newest.status);
  EXPECT_EQ(ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db", "--to=0"}).to, 0);
  EXPECT_FALSE(newest.yes);
  EXPECT_TRUE(
      ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db", "--to=0", "--yes"}).yes);
  EXPECT_EQ(
      ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db", "--grant_to=served"}).grant_to,
      "served");
  EXPECT_TRUE(ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db", "--status"}).status);
}

TEST(CommandLineTest, TheStatementsAreChosenByTheSchemaUnlessTheyAreNamed) {
  const auto statements = [](absl::string_view flag) {
    return ParseAs<ServeOptions>({"serve", "--store=postgresql://db", flag}).store.statements;
  };
  EXPECT_EQ(ParseAs<ServeOptions>({"serve", "--store=postgresql://db"}).store.statements,
            std::nullopt);
  EXPECT_EQ(statements("--statements=auto"), std::nullopt);
  EXPECT_EQ(statements("--statements=batched"), PostgresStatementMode::kBatched);
  EXPECT_EQ(statements("--statements=single-row"), PostgresStatementMode::kSingleRow);
  const auto options =
      ParseAs<ServeOptions>({"serve", "--store=postgresql://db", "--clock_margin=200ms"});
  EXPECT_EQ(options.store.clock_margin, absl::Milliseconds(200));
  EXPECT_TRUE(
      ParseAs<MigrateOptions>({"migrate", "--store=postgresql://db", "--distribute"}).distribute);
}

TEST(CommandLineTest, HealthTakesAnAddress) {
  const auto options = ParseAs<HealthOptions>(
      {"health", "--address=127.0.0.1:7411", "--service=a.B", "--timeout=1s", "--wait=1m"});
  ASSERT_TRUE(options.address.has_value());
  EXPECT_EQ(options.address->ToString(), "127.0.0.1:7411");
  EXPECT_EQ(options.service, "a.B");
  EXPECT_EQ(options.timeout, absl::Seconds(1));
  EXPECT_EQ(options.wait, absl::Minutes(1));
  EXPECT_FALSE(ParseAs<HealthOptions>({"health"}).address.has_value());
}

struct BadCommandLine {
  // Split at spaces.
  std::string args;
  std::string message;

  friend void PrintTo(const BadCommandLine& bad, std::ostream* out) { *out << bad.args; }
};

class CommandLineFaultTest : public ::testing::TestWithParam<BadCommandLine> {};

TEST_P(CommandLineFaultTest, IsReported) {
  const std::vector<absl::string_view> args = absl::StrSplit(GetParam().args, ' ');
  const absl::Status status = Parse(args).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Command, CommandLineFaultTest,
                         ::testing::ValuesIn(std::vector<BadCommandLine>{
                             {"start", "'start' is not a command"},
                             {"--store=sqlite:r.db", "is not a command"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Serve, CommandLineFaultTest,
    ::testing::ValuesIn(std::vector<BadCommandLine>{
        {"serve", "--store is missing"},
        {"serve --store", "--store has no value; write --store=ADDRESS"},
        {"serve --store --metrics=", "--store has no value"},
        {"serve --store=r.db", "--store: the store must be sqlite:PATH"},
        {"serve --store=sqlite:r.db extra", "'extra' is not a flag"},
        {"serve --store=sqlite:r.db -v", "'-v' is not a flag"},
        {"serve --store=sqlite:r.db --", "'--' is not a flag"},
        {"serve --store=sqlite:r.db --lsten=x", "there is no flag --lsten"},
        {"serve --store=sqlite:r.db --to=1", "there is no flag --to"},
        {"serve --store=sqlite:r.db --store=sqlite:r.db", "--store is given twice"},
        {"serve --store=sqlite:r.db --listen=7411", "--listen: '7411' is not an address"},
        {"serve --store=sqlite:r.db --metrics=unix:/m", "--metrics: cannot be a unix socket"},
        {"serve --store=sqlite:r.db --store_connections=0", "must be a number, 1 to 64"},
        {"serve --store=sqlite:r.db --store_connections=65", "must be a number, 1 to 64"},
        {"serve --store=sqlite:r.db --store_connections=many", "must be a number, 1 to 64"},
        {"serve --store=sqlite:r.db --sweep_interval=60", "must be a duration with its unit"},
        {"serve --store=sqlite:r.db --sweep_interval=99ms", "100ms to 24h"},
        {"serve --store=sqlite:r.db --drain_timeout=-1s", "0 to 10m"},
        {"serve --store=sqlite:r.db --drain_timeout=inf", "0 to 10m"},
        {"serve --store=sqlite:r.db --connection_grace=9999ms", "10s to 24h"},
        {"serve --store=sqlite:r.db --log_level=loud", "--log_level: must be debug, info"},
        {"serve --store=sqlite:r.db --log_format=xml", "--log_format: must be text or json"},
        {"serve --store=sqlite:r.db --otlp_endpoint=collector", "--otlp_endpoint: "},
        {"serve --store=sqlite:r.db --otlp_plaintext", "need --otlp_endpoint"},
        {"serve --store=sqlite:r.db --otlp_endpoint=c:4317 --otlp_ca=f --otlp_plaintext",
         "exclude each other"},
        {"serve --store=sqlite:r.db --tls_cert=c.pem", "must be set together"},
        {"serve --store=sqlite:r.db --tls_key=k.pem", "must be set together"},
        {"serve --store=sqlite:r.db --tls_client_ca=ca.pem", "needs --tls_cert"},
    }));

// Of a variable that is not set: nothing is left out by it.
INSTANTIATE_TEST_SUITE_P(
    EmptyFiles, CommandLineFaultTest,
    ::testing::ValuesIn(std::vector<BadCommandLine>{
        {"serve --store=sqlite:r.db --config=", "--config must not be empty; leave it out"},
        {"serve --store=sqlite:r.db --keyring=", "--keyring must not be empty"},
        {"serve --store=sqlite:r.db --tls_cert= --tls_key=", "--tls_cert must not be empty"},
        {"serve --store=sqlite:r.db --tls_cert=c --tls_key=", "--tls_key must not be empty"},
        {"serve --store=sqlite:r.db --tls_cert=c --tls_key=k --tls_client_ca=",
         "--tls_client_ca must not be empty"},
        {"serve --store=sqlite:r.db --otlp_endpoint=c:4317 --otlp_ca=",
         "--otlp_ca must not be empty"},
        {"health --address=a:1 --tls --tls_ca=", "--tls_ca must not be empty"},
        {"health --address=a:1 --tls_cert= --tls_key=", "--tls_cert must not be empty"},
        {"health --address=a:1 --tls_cert=c --tls_key=", "--tls_key must not be empty"},
    }));

INSTANTIATE_TEST_SUITE_P(
    ServeStores, CommandLineFaultTest,
    ::testing::ValuesIn(std::vector<BadCommandLine>{
        {"serve --store=sqlite:r.db --read_only", "--read_only needs a Postgres store"},
        {"serve --store=postgresql://db --statements=single",
         "must be auto, batched or single-row"},
        {"serve --store=sqlite:r.db --statements=single-row",
         "--statements needs a Postgres store"},
        {"serve --store=redis://h --statements=batched", "--statements needs a Postgres store"},
        {"serve --store=postgresql://db --clock_margin=6m", "0 to 5m"},
        {"serve --store=sqlite:r.db --clock_margin=5s", "--clock_margin has no effect"},
        {"serve --store=redis://h --clock_margin=0", "--clock_margin has no effect"},
        {"serve --store=postgresql://db --statements=batched --clock_margin=5s",
         "--clock_margin has no effect"},
        {"serve --store=sqlite:r.db --maintenance_store=postgresql://db", "both it and --store"},
        {"serve --store=postgresql://db --maintenance_store=sqlite:r.db", "both it and --store"},
        {"serve --store=postgresql://db --maintenance_store=host=db", "--maintenance_store: "},
        {"serve --store=postgresql://db --maintenance_store=postgresql://db --read_only",
         "cannot be combined with --maintenance_store"},
    }));

INSTANTIATE_TEST_SUITE_P(Health, CommandLineFaultTest,
                         ::testing::ValuesIn(std::vector<BadCommandLine>{
                             {"health --address=a:1 --tls_cert=c",
                              "--tls_cert and --tls_key must be set together"},
                             {"health --address=a:1 --tls_name=n", "--tls_name needs --tls_ca"},
                             {"health --address=7411", "--address: '7411' is not an address"},
                             {"health --address=a:1 --timeout=2m", "10ms to 1m"},
                         }));

INSTANTIATE_TEST_SUITE_P(CheckConfig, CommandLineFaultTest,
                         ::testing::ValuesIn(std::vector<BadCommandLine>{
                             {"check-config", "--config is missing"},
                             {"check-config --config=c --store=sqlite:r.db",
                              "there is no flag --store"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Migrate, CommandLineFaultTest,
    ::testing::ValuesIn(std::vector<BadCommandLine>{
        {"migrate", "--store is missing"},
        {"migrate --store=postgresql://db --to=-2", "must be a number"},
        {"migrate --store=postgresql://db --status=maybe", "must be true, false"},
        {"migrate --store=postgresql://db --status --to=1", "cannot be combined with --to"},
        {"migrate --store=postgresql://db --status --yes", "cannot be combined with --yes"},
        {"migrate --store=postgresql://db --status --grant_to=r", "--grant_to or --create_roles"},
        {"migrate --store=postgresql://db --status --create_roles", "--grant_to or --create_roles"},
        {"migrate --store=postgresql://db --role_prefix=p", "names the roles of --create_roles"},
        {"migrate --store=postgresql://db --distribute --status",
         "cannot be combined with --status"},
        {"migrate --store=postgresql://db --distribute --to=7", "cannot be combined with --status"},
        {"migrate --store=sqlite:r.db --distribute", "--distribute needs a Postgres store"},
        {"migrate --store=postgresql://db --yes", "set the version with --to"},
        {"migrate --store=postgresql://db --listen=127.0.0.1:1", "there is no flag --listen"},
    }));

TEST(CommandLineTest, ACommandIsNeeded) {
  EXPECT_THAT(std::string(Parse({}).status().message()), HasSubstr("no command is given"));
}

TEST(CommandLineTest, HelpNamesEveryFlagWithItsDefaultAndLimits) {
  const std::string serve = TextOf({"serve", "--store=nonsense", "--help"});
  for (const char* text :
       {"--store=ADDRESS", "--listen=ADDRESS  (default 127.0.0.1:7411)",
        "--metrics=ADDRESS  (default 127.0.0.1:9464)", "--store_connections=N  (default ",
        "1 to 64", "--sweep_interval=DURATION  (default 1m)", "100ms to 24h",
        "--drain_timeout=DURATION  (default 25s)", "0 to 10m", "--tls_cert=FILE", "--tls_key=FILE",
        "--tls_client_ca=FILE", "--config=FILE", "--allow_plaintext", "--ext_proc=ADDRESS",
        "--log_level=LEVEL  (default info)"}) {
    EXPECT_THAT(serve, HasSubstr(text));
  }
  const std::string migrate = TextOf({"migrate", "--help"});
  for (const char* text : {"--store=ADDRESS", "--to=N", "--status"}) {
    EXPECT_THAT(migrate, HasSubstr(text));
  }
  EXPECT_THAT(TextOf({"--help"}), HasSubstr("idempotencyd serve --store="));
}

TEST(CommandLineTest, LinesOfTheHelpFitATerminal) {
  for (const std::string& text : {TextOf({"--help"}), TextOf({"serve", "--help"}),
                                  TextOf({"migrate", "--help"}), TextOf({"health", "--help"})}) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(line.size(), 90u) << line;
    }
  }
}

TEST(CommandLineTest, VersionIsThreeNumbers) {
  EXPECT_THAT(TextOf({"--version"}),
              ::testing::MatchesRegex("idempotencyd [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace idempotency::internal
