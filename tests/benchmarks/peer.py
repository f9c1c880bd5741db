#!/usr/bin/env python3
"""Speaks ``llama-server``'s health and streaming endpoints as far as the benchmarks use them. Samples nothing."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(body["n_predict"]):
            self._chunk({"content": f"{number} ", "stop": False})
        self._chunk({"content": "", "stop": True, "timings": {"prompt_n": len(body["prompt"]), "prompt_ms": 0.0}})
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: dict[str, object]) -> None:
        data = b"data: %s\n\n" % json.dumps(event).encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: object) -> None:
        return


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
