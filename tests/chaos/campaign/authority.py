"""Certificates for the links to the daemons: two authorities, either of which may sign."""

import itertools
import os
import pathlib
import socket
import ssl
import subprocess
import time

# The name that the certificates are for: links have other names.
SERVER_NAME = "idempotencyd"

_CONFIG = """
[ca]
default_ca = this
[this]
dir = {folder}
new_certs_dir = {folder}
database = {folder}/index.txt
rand_serial = yes
unique_subject = no
default_md = sha256
default_days = 30
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[leaf]
basicConstraints = critical,CA:FALSE
subjectAltName = DNS:{name}
[req]
distinguished_name = subject
[subject]
"""
# Processes whose clock is behind have to accept them too.
_BACKDATED_S = 24 * 3600


def _openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


class _Signer:
    """One authority, in a folder of its own."""

    def __init__(self, folder):
        self._folder = folder
        folder.mkdir()
        (folder / "index.txt").touch()
        (folder / "config").write_text(_CONFIG.format(folder=folder, name=SERVER_NAME),
                                       encoding="ascii")
        self.certificate = folder / "authority.pem"
        self._sign(folder.name, self.certificate, folder / "authority.key", "-selfsign",
                   "-extensions", "authority", "-keyfile", str(folder / "authority.key"))

    def _sign(self, subject, certificate, key, *how):
        config = str(self._folder / "config")
        request = str(self._folder / "request")
        _openssl("req", "-new", "-config", config, "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key), "-subj",
                 f"/CN={subject}", "-out", request)
        since = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() - _BACKDATED_S))
        _openssl("ca", "-batch", "-notext", "-config", config, "-startdate", since, "-in", request,
                 "-out", str(certificate), *how)

    def issue(self, subject, certificate, key):
        self._sign(subject, certificate, key, "-cert", str(self.certificate), "-keyfile",
                   str(self._folder / "authority.key"))


class Authority:
    """Certificates and keys, as files in `folder`. Every process trusts the bundle of both."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._folder.mkdir()
        signers = [_Signer(self._folder / f"authority{n}") for n in (1, 2)]
        self.bundle = self._folder / "bundle.pem"
        self.bundle.write_bytes(b"".join(signer.certificate.read_bytes() for signer in signers))
        self._signers = itertools.cycle(signers)
        self._issued = 0
        self.issue("orchestrator")

    def certificate(self, name):
        return self._folder / name / "certificate.pem"

    def key(self, name):
        return self._folder / name / "key.pem"

    def issue(self, name):
        """A new certificate and key for `name`, of the other authority than the last ones. Both
        are replaced in one step. Returns the serial number."""
        self._issued += 1
        new = self._folder / f"{name}.{self._issued}"
        new.mkdir()
        next(self._signers).issue(SERVER_NAME, new / "certificate.pem", new / "key.pem")
        serial = _openssl("x509", "-in", str(new / "certificate.pem"), "-noout", "-serial")
        link = self._folder / f"{name}.new"
        link.symlink_to(new.name)
        os.replace(link, self._folder / name)
        return int(serial.partition("=")[2], 16)

    def context(self):
        """For connections to daemons, with a certificate that they accept."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.bundle)
        context.load_cert_chain(self.certificate("orchestrator"), self.key("orchestrator"))
        context.set_alpn_protocols(["h2"])
        return context

    def served(self, path):
        """The serial number of the certificate that a new connection to the socket receives."""
        context = self.context()
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(10)
            plain.connect(str(path))
            with context.wrap_socket(plain, server_hostname=SERVER_NAME) as connection:
                return int(connection.getpeercert()["serialNumber"], 16)
