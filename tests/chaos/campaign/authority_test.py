"""New certificates are those that a server presents, and are trusted."""

import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from tests.chaos.campaign.authority import Authority


class AuthorityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.authority = Authority(self.folder / "certificates")

    def _served_by(self, name):
        """The certificate that a server with the files of `name` presents; it requires one
        too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority.certificate(name), self.authority.key(name))
        context.load_verify_locations(self.authority.bundle)
        context.verify_mode = ssl.CERT_REQUIRED
        with socket.socket(socket.AF_UNIX) as listener:
            path = self.folder / f"{name}.sock"
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()

            def serve():
                plain, _ = listener.accept()
                with context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(1)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                return self.authority.served(path)
            finally:
                thread.join()

    def test_both_authorities_are_trusted(self):
        serials = []
        for _ in range(3):
            serials.append(self.authority.issue("daemon1"))
            self.assertEqual(self._served_by("daemon1"), serials[-1])
        self.assertEqual(len(set(serials)), 3)

    def test_authorities_take_turns(self):
        issuers = []
        for _ in range(2):
            self.authority.issue("daemon1")
            issuers.append(subprocess.run(
                ["openssl", "x509", "-in", str(self.authority.certificate("daemon1")), "-noout",
                 "-issuer"], check=True, capture_output=True, timeout=60).stdout)
        self.assertNotEqual(issuers[0], issuers[1])


if __name__ == "__main__":
    unittest.main()
