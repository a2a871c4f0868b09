#ifndef IDEMPOTENCY_POSTGRES_LIBPQXX_H_
#define IDEMPOTENCY_POSTGRES_LIBPQXX_H_

#include <libpq-fe.h>

#include <pqxx/pqxx>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// The differences between libpqxx 6.4 (Debian 12), 7.10 (Debian 13) and 8, which needs C++20.
// Nothing else here depends on the version.
#define IDEMPOTENCY_LIBPQXX_6 (PQXX_VERSION_MAJOR < 7)

namespace idempotency::internal {

// pqxx::connection, or what it is derived from.
using PostgresConnectionBase =
    std::remove_reference_t<decltype(std::declval<pqxx::transaction_base&>().conn())>;

// A connection whose libpq handle is known: libpqxx has no counterpart of libpq's pipelines, in
// which each statement is a transaction of its own. The handle belongs to it.
#if IDEMPOTENCY_LIBPQXX_6
class LibpqConnection final : public pqxx::connection_base {
 public:
  explicit LibpqConnection(const std::string& conninfo)
      : pqxx::connection_base(policy_), policy_(conninfo) {
    init();
  }
  ~LibpqConnection() noexcept { close(); }
  LibpqConnection(const LibpqConnection&) = delete;
  LibpqConnection& operator=(const LibpqConnection&) = delete;

  PostgresConnectionBase& libpqxx() { return *this; }
  PGconn* handle() const { return policy_.connected; }

 private:
  class Policy final : public pqxx::connect_direct {
   public:
    using pqxx::connect_direct::connect_direct;
    handle do_startconnect(handle original) override {
      connected = pqxx::connect_direct::do_startconnect(original);
      return connected;
    }
    handle do_disconnect(handle original) noexcept override {
      connected = nullptr;
      return pqxx::connect_direct::do_disconnect(original);
    }
    PGconn* connected = nullptr;
  };
  Policy policy_;
};
#else
// Nothing can be derived from a connection of libpqxx 8.
class LibpqConnection final {
 public:
  explicit LibpqConnection(const std::string& conninfo)
      : handle_(Connect(conninfo)), connection_(pqxx::connection::seize_raw_connection(handle_)) {}

  PostgresConnectionBase& libpqxx() { return connection_; }
  PGconn* handle() const { return handle_; }

 private:
  static PGconn* Connect(const std::string& conninfo) {
    PGconn* const handle = PQconnectdb(conninfo.c_str());
    if (handle != nullptr && PQstatus(handle) == CONNECTION_OK) return handle;
    const std::string failure = handle == nullptr ? "no memory" : PQerrorMessage(handle);
    PQfinish(handle);
    throw pqxx::broken_connection(failure);
  }

  PGconn* handle_;
  pqxx::connection connection_;
};
#endif

// libpqxx's headers that switch its deprecation warnings are made to be included again and again.
// NOLINTBEGIN(readability-duplicate-include)

// Receives the notices of a connection until it is destroyed, before that connection.
class PostgresNotices : public pqxx::errorhandler {
 public:
  // Deprecated since 7.10 in favour of a function of the connection, which would replace that
  // of the application.
#include <pqxx/internal/ignore-deprecated-pre.hxx>
  explicit PostgresNotices(PostgresConnectionBase& connection) : pqxx::errorhandler(connection) {}
#include <pqxx/internal/ignore-deprecated-post.hxx>
};

// A lost connection stays lost. libpqxx 7 and later never reconnect.
inline void NeverReconnect([[maybe_unused]] PostgresConnectionBase& connection) {
#if IDEMPOTENCY_LIBPQXX_6
#include <pqxx/internal/ignore-deprecated-pre.hxx>
  connection.inhibit_reactivation(true);
#include <pqxx/internal/ignore-deprecated-post.hxx>
#endif
}

// Makes messages contain the function of the server that they come from.
inline void MakeMessagesVerbose(PostgresConnectionBase& connection) {
#if IDEMPOTENCY_LIBPQXX_6
  connection.set_verbosity(pqxx::connection_base::verbose);
#else
  connection.set_verbosity(pqxx::error_verbosity::verbose);
#endif
}

// Sends the definition of a statement. libpqxx 6.4 by itself sends it with the first execution.
inline void PrepareNow(PostgresConnectionBase& connection, const std::string& name,
                       const std::string& sql) {
  connection.prepare(name, sql);
#if IDEMPOTENCY_LIBPQXX_6
  connection.prepare_now(name);
#endif
}

// A parameter in binary form. Valid as long as `bytes`.
inline auto BinaryParameter(std::string_view bytes) {
#if IDEMPOTENCY_LIBPQXX_6
  return pqxx::binarystring(bytes.data(), bytes.size());
#else
  return pqxx::binary_cast(bytes);
#endif
}

// The content of a bytea in hex format. Throws if it has another format.
template <typename Field>
std::string ByteaOf(const Field& field) {
#if IDEMPOTENCY_LIBPQXX_6
  return pqxx::binarystring(field).str();
#else
  const auto bytes = field.template as<pqxx::bytes>();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
#endif
}

// The elements of an array of texts that are not NULL. Throws if it cannot be parsed.
inline std::vector<std::string> TextArrayIn(const char* text) {
  std::vector<std::string> texts;
#include <pqxx/internal/ignore-deprecated-pre.hxx>
  // Its replacement, pqxx::array, refuses NULL and arrays of several dimensions.
  pqxx::array_parser array(text);
#include <pqxx/internal/ignore-deprecated-post.hxx>
  for (auto next = array.get_next(); next.first != pqxx::array_parser::juncture::done;
       next = array.get_next()) {
    if (next.first == pqxx::array_parser::juncture::string_value) {
      texts.push_back(std::move(next.second));
    }
  }
  return texts;
}

// NOLINTEND(readability-duplicate-include)

template <typename Field>
std::vector<std::string> TextArrayOf(const Field& field) {
  return TextArrayIn(field.c_str());
}

// Runs one statement with parameters. Throws what libpqxx throws, as the others below.
template <typename... Arguments>
pqxx::result ExecuteWith(pqxx::transaction_base& transaction, const char* statement,
                         const Arguments&... arguments) {
#if IDEMPOTENCY_LIBPQXX_6
  return transaction.exec_params(statement, arguments...);
#else
  return transaction.exec(statement, pqxx::params(arguments...));
#endif
}

// Runs a prepared statement whose parameters are all in binary form.
inline pqxx::result ExecutePrepared(pqxx::transaction_base& transaction, const std::string& name,
                                    const std::vector<std::string>& parameters) {
#if IDEMPOTENCY_LIBPQXX_6
  std::vector<pqxx::binarystring> values;
  values.reserve(parameters.size());
  for (const std::string& parameter : parameters) values.emplace_back(parameter);
  return transaction.exec_prepared(
      name, pqxx::prepare::make_dynamic_params(values.begin(), values.end()));
#else
  pqxx::params values;
  values.reserve(parameters.size());
  for (const std::string& parameter : parameters) values.append(pqxx::binary_cast(parameter));
  return transaction.exec(pqxx::prepped(name), values);
#endif
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_LIBPQXX_H_
