"""JSON Web Tokens of a test, made by openssl: an issuer, and what it signs with RS256."""

import base64
import json
import pathlib
import subprocess
import time


def _openssl(*arguments, **options):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60,
                          **options).stdout


def _base64(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _part(value):
    return _base64(json.dumps(value).encode())


class Issuer:
    """Its key is `name`.pem in the folder."""

    def __init__(self, folder, name):
        self.name = name
        self._key = pathlib.Path(folder) / f"{name}.pem"
        _openssl("genrsa", "-out", self._key, "2048")

    def key_set(self):
        """The JSON Web Key Set with which its tokens are verified."""
        modulus = _openssl("rsa", "-in", self._key, "-noout", "-modulus").strip().partition(b"=")[2]
        return json.dumps({"keys": [{
            "kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.name, "e": "AQAB",
            "n": _base64(bytes.fromhex(modulus.decode()))}]})

    def token(self, lives_s=600, algorithm="RS256", **claims):
        """With these claims, `iss` and `exp`. With another algorithm the signature is empty."""
        head = {"alg": algorithm, "typ": "JWT", "kid": self.name}
        body = {"iss": self.name, "exp": int(time.time()) + lives_s, **claims}
        text = f"{_part(head)}.{_part(body)}"
        if algorithm != "RS256":
            return f"{text}."
        signature = _openssl("dgst", "-sha256", "-sign", self._key, input=text.encode())
        return f"{text}.{_base64(signature)}"
