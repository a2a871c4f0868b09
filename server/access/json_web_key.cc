#include "server/access/json_web_key.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/limits.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using BigNumber = std::unique_ptr<BIGNUM, decltype(&BN_free)>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, decltype(&OSSL_PARAM_BLD_free)>;
using Parameters = std::unique_ptr<OSSL_PARAM, decltype(&OSSL_PARAM_free)>;
using KeyPointer = std::shared_ptr<EVP_PKEY>;

// RFC 7518, 3.3.
constexpr int kMinRsaBits = 2048;
// One coordinate of P-256, and one half of its signature.
constexpr std::size_t kP256Bytes = 32;
constexpr std::size_t kEd25519Bytes = 32;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Empty if the field is absent or not text.
std::string TextOf(const Struct& object, const std::string& field) {
  const auto found = object.fields().find(field);
  return found == object.fields().end() ? "" : found->second.string_value();
}

std::optional<std::string> BytesOf(const Struct& object, const std::string& field) {
  std::string bytes;
  const std::string text = TextOf(object, field);
  if (text.empty() || !absl::WebSafeBase64Unescape(text, &bytes)) return std::nullopt;
  return bytes;
}

KeyPointer FromParameters(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder), &OSSL_PARAM_free);
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr), &EVP_PKEY_CTX_free);
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  return KeyPointer(key, &EVP_PKEY_free);
}

KeyPointer RsaKey(const Struct& object) {
  const std::optional<std::string> modulus = BytesOf(object, "n");
  const std::optional<std::string> exponent = BytesOf(object, "e");
  if (!modulus.has_value() || !exponent.has_value()) return nullptr;
  const BigNumber n(BN_bin2bn(Bytes(*modulus), static_cast<int>(modulus->size()), nullptr),
                    &BN_free);
  const BigNumber e(BN_bin2bn(Bytes(*exponent), static_cast<int>(exponent->size()), nullptr),
                    &BN_free);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return nullptr;
  }
  KeyPointer key = FromParameters("RSA", builder.get());
  return key != nullptr && EVP_PKEY_get_bits(key.get()) >= kMinRsaBits ? key : nullptr;
}

KeyPointer EcKey(const Struct& object) {
  const std::optional<std::string> x = BytesOf(object, "x");
  const std::optional<std::string> y = BytesOf(object, "y");
  if (!x.has_value() || !y.has_value() || x->size() != kP256Bytes || y->size() != kP256Bytes) {
    return nullptr;
  }
  // An uncompressed point (SEC 1, 2.3.3).
  const std::string point = absl::StrCat("\x04", *x, *y);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return FromParameters("EC", builder.get());
}

KeyPointer Ed25519Key(const Struct& object) {
  const std::optional<std::string> x = BytesOf(object, "x");
  if (!x.has_value() || x->size() != kEd25519Bytes) return nullptr;
  return KeyPointer(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(*x), x->size()),
                    &EVP_PKEY_free);
}

std::optional<JsonWebKey::Algorithm> AlgorithmOf(const Struct& object) {
  const std::string use = TextOf(object, "use");
  const std::string named = TextOf(object, "alg");
  if (!use.empty() && use != "sig") return std::nullopt;
  const auto only = [&named](absl::string_view name, JsonWebKey::Algorithm algorithm) {
    return named.empty() || named == name ? std::make_optional(algorithm) : std::nullopt;
  };
  const std::string type = TextOf(object, "kty");
  const std::string curve = TextOf(object, "crv");
  if (type == "RSA") return only("RS256", JsonWebKey::Algorithm::kRs256);
  if (type == "EC" && curve == "P-256") return only("ES256", JsonWebKey::Algorithm::kEs256);
  if (type == "OKP" && curve == "Ed25519") return only("EdDSA", JsonWebKey::Algorithm::kEdDsa);
  return std::nullopt;
}

KeyPointer KeyOf(const Struct& object, JsonWebKey::Algorithm algorithm) {
  switch (algorithm) {
    case JsonWebKey::Algorithm::kRs256:
      return RsaKey(object);
    case JsonWebKey::Algorithm::kEs256:
      return EcKey(object);
    case JsonWebKey::Algorithm::kEdDsa:
      return Ed25519Key(object);
  }
  return nullptr;
}

// The signature of ES256 as OpenSSL reads it; empty if it has another length.
std::string DerSignature(absl::string_view signature) {
  if (signature.size() != 2 * kP256Bytes) return "";
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> parts(ECDSA_SIG_new(),
                                                                    &ECDSA_SIG_free);
  BIGNUM* const r = BN_bin2bn(Bytes(signature), kP256Bytes, nullptr);
  BIGNUM* const s = BN_bin2bn(Bytes(signature.substr(kP256Bytes)), kP256Bytes, nullptr);
  ECDSA_SIG_set0(parts.get(), r, s);
  std::string der(static_cast<std::size_t>(i2d_ECDSA_SIG(parts.get(), nullptr)), '\0');
  auto* out = reinterpret_cast<unsigned char*>(der.data());
  i2d_ECDSA_SIG(parts.get(), &out);
  return der;
}

}  // namespace

absl::string_view JsonWebKey::algorithm_name() const {
  switch (algorithm_) {
    case Algorithm::kRs256:
      return "RS256";
    case Algorithm::kEs256:
      return "ES256";
    case Algorithm::kEdDsa:
      return "EdDSA";
  }
  return "";
}

bool JsonWebKey::Verifies(absl::string_view text, absl::string_view signature) const {
  const std::string der = algorithm_ == Algorithm::kEs256 ? DerSignature(signature) : "";
  if (algorithm_ == Algorithm::kEs256) signature = der;
  if (signature.empty()) return false;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const EVP_MD* const digest = algorithm_ == Algorithm::kEdDsa ? nullptr : EVP_sha256();
  const bool verified =
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(text),
                       text.size()) == 1;
  ERR_clear_error();
  return verified;
}

absl::StatusOr<std::vector<JsonWebKey>> ParseJsonWebKeySet(absl::string_view json) {
  Struct set;
  if (!google::protobuf::util::JsonStringToMessage(std::string(json), &set).ok()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  const auto keys = set.fields().find("keys");
  if (keys == set.fields().end() || !keys->second.has_list_value()) {
    return absl::InvalidArgumentError("has no list \"keys\": it must be a JSON Web Key Set");
  }
  if (keys->second.list_value().values_size() > static_cast<int>(limits::kMaxJsonWebKeys)) {
    return absl::InvalidArgumentError(absl::StrCat("has more than ", limits::kMaxJsonWebKeys,
                                                   " keys: remove those that are not used"));
  }
  std::vector<JsonWebKey> usable;
  for (const Value& value : keys->second.list_value().values()) {
    const Struct& object = value.struct_value();
    const std::optional<JsonWebKey::Algorithm> algorithm = AlgorithmOf(object);
    if (!algorithm.has_value()) continue;
    std::shared_ptr<EVP_PKEY> key = KeyOf(object, *algorithm);
    if (key == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the key \"", absl::CHexEscape(TextOf(object, "kid")),
                       "\" is malformed, or an RSA key of less than ", kMinRsaBits, " bits"));
    }
    usable.emplace_back(TextOf(object, "kid"), *algorithm, std::move(key));
  }
  if (usable.empty()) {
    return absl::InvalidArgumentError(
        "has no key that verifies signatures of RS256, ES256 or EdDSA");
  }
  return usable;
}

}  // namespace idempotency::internal
