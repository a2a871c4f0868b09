"""A plain HTTP service for a test, in its own thread. It records what reaches it."""

import http.server
import threading


class HttpUpstream:
    """`reply(request)` gives (status, headers as a list of pairs, body) for each request; its
    default is 200."""

    def __init__(self, reply=None):
        upstream = self
        self.requests = []
        self._lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with upstream._lock:
                    upstream.requests.append((self.command, self.path, dict(self.headers), body))
                status, headers, content = reply(self) if reply else (200, [], b"reached\n")
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="http-upstream")
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
