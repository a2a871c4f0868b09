"""A gRPC caller that sends data that no gRPC library would: any header, any frame, any pace."""

import collections
import select
import socket

import h2.config
import h2.connection
import h2.events
import h2.exceptions

_READ_BYTES = 64 * 1024


def grpc_message(payload):
    """With its length prefix."""
    return b"\0" + len(payload).to_bytes(4, "big") + payload


class Http2Caller:
    """One connection. The sent data is not checked. Close it."""

    def __init__(self, path, tls=None, server_name=None, window=None, timeout_s=5):
        """Connects to the Unix socket at `path`. `window` is the number of bytes of each answer
        that
        are received before the caller stops reading it; None: all of them."""
        self.answered = set()
        self.refused = set()
        self.bodies = collections.defaultdict(bytes)
        self.closed = False
        self._reads = window is None
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(timeout_s)
        try:
            plain.connect(str(path))
            self._socket = plain if tls is None else tls.wrap_socket(
                plain, server_hostname=server_name)
        except OSError:
            plain.close()
            raise
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(
            header_encoding=None, validate_outbound_headers=False,
            normalize_outbound_headers=False, validate_inbound_headers=False))
        if window is not None:
            self._http.local_settings.initial_window_size = window
        self._http.initiate_connection()
        self._flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closed = True
        self._socket.close()

    def call(self, path, headers=(), messages=(), end=True):
        """Begins a call; `messages` are the bytes of whole messages. Returns its stream."""
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(stream, [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
            (b":authority", b"localhost"), (b"te", b"trailers"),
            (b"content-type", b"application/grpc"), *headers])
        self._flush()
        for message in messages:
            self.send(stream, grpc_message(message))
        if end and not self._is_over(stream):
            self._http.end_stream(stream)
            self._flush()
        return stream

    def send(self, stream, data):
        """Waits for the window while it is full; stops when the connection ends."""
        while data and not self._is_over(stream):
            room = min(self._http.local_flow_control_window(stream),
                       self._http.max_outbound_frame_size, len(data))
            if room == 0:
                if not self.take(2):
                    return
                continue
            self._http.send_data(stream, data[:room])
            data = data[room:]
            self._flush()

    def _is_over(self, stream):
        return self.closed or stream in self.answered or stream in self.refused

    def wait(self, streams, deadline_s=2):
        """Until all are over, nothing arrives for so long, or the connection ends. Returns how
        many got an answer."""
        streams = set(streams)
        while not self.closed and not streams <= self.answered | self.refused:
            if not self.take(deadline_s):
                break
        return len(streams & self.answered)

    def take(self, timeout_s):
        """Reads the available data; False if nothing arrived in time."""
        if self.closed:
            return False
        pending = getattr(self._socket, "pending", lambda: 0)()
        if not pending and not select.select([self._socket], [], [], timeout_s)[0]:
            return False
        try:
            data = self._socket.recv(_READ_BYTES)
            events = self._http.receive_data(data) if data else []
        except (OSError, h2.exceptions.ProtocolError):
            data, events = b"", []
        for event in events:
            self._note(event)
        if self.closed:
            return True
        if not data:
            self.close()
            return True
        self._flush()
        return True

    def _note(self, event):
        if isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            if self._reads and event.flow_controlled_length:
                self._http.acknowledge_received_data(event.flow_controlled_length,
                                                     event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.answered.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.refused.add(event.stream_id)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.close()

    def _flush(self):
        data = self._http.data_to_send()
        if not data or self.closed:
            return
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()
