"""Certificates of a test, made by openssl: an authority, and what it signs."""

import pathlib
import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


class Authority:
    """Its certificate is `ca.crt` in the folder."""

    def __init__(self, folder, name="ca"):
        self._folder = pathlib.Path(folder)
        self.file = self._folder / f"{name}.crt"
        self._key = self._folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.file)

    def sign(self, name, *alternatives):
        """Writes `name`.crt and `name`.key, with these subject alternative names."""
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                 f"/CN={name}", "-keyout", self._folder / f"{name}.key", "-out", request)
        extensions.write_text(f"subjectAltName={','.join(alternatives)}\n" if alternatives else "")
        _openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.file, "-CAkey",
                 self._key, "-CAcreateserial", "-extfile", extensions, "-out",
                 self._folder / f"{name}.crt")
        return self._folder / f"{name}.crt", self._folder / f"{name}.key"
