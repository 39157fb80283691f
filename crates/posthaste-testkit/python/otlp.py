"""A receiver of OTLP over HTTP, with the decoder of opentelemetry-proto: the port, or 0 for a free one.

Prints its port. Answers GET /spans with what it has received as JSON, GET /headers with the headers of the
last batch. Ends when its standard input does.
"""
import gzip, http.server, json, os, sys, threading
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
STATUS = ["unset", "ok", "error"]
spans, headers = [], {}
lock = threading.Lock()


def plain(attributes):
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in attributes}


def read(request):
    for resource in request.resource_spans:
        service = plain(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "name": span.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "links": [link.span_id.hex() for link in span.links],
                    "kind": KINDS[span.kind],
                    "status": STATUS[span.status.code],
                    "took": span.end_time_unix_nano - span.start_time_unix_nano,
                    "attributes": plain(span.attributes),
                    "resource": service,
                }


class Receiver(http.server.BaseHTTPRequestHandler):
    def answer(self, body, content_type):
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
            return self.send_error(400)
        found = list(read(ExportTraceServiceRequest.FromString(body)))
        with lock:
            spans.extend(found)
            headers.clear()
            headers.update({name.lower(): value for name, value in self.headers.items()})
        self.answer(ExportTraceServiceResponse().SerializeToString(), "application/x-protobuf")

    def do_GET(self):
        with lock:
            body = json.dumps(headers if self.path == "/headers" else spans, default=repr)
        self.answer(body.encode(), "application/json")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
