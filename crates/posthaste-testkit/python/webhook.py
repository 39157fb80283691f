# An endpoint for webhooks: writes each call to the file `calls`, then answers.

import base64
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

calls = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
writing = threading.Lock()


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if b"poison" in body:
            self.close_connection = True
            return
        call = {
            "headers": dict(self.headers.items()),
            "body": base64.b64encode(body).decode(),
        }
        with writing:
            os.write(calls, json.dumps(call).encode() + b"\n")
        self.answer(204)

    def do_HEAD(self):
        self.answer(404)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()
