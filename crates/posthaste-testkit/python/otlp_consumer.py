"""A consumer that traces with OpenTelemetry's SDK: the URL of Redis, the key of a stream, and the collector.

Handles each entry of the stream in a span whose parent is the context that the entry carries.
"""
import sys
import redis
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

url, key, collector = sys.argv[1:4]
provider = TracerProvider(resource=Resource.create({"service.name": "warehouse"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=collector)))
tracer = provider.get_tracer("warehouse")
for _, fields in redis.Redis.from_url(url, decode_responses=True).xrange(key):
    context = TraceContextTextMapPropagator().extract(fields)
    with tracer.start_as_current_span(f"process {key}", context=context, kind=SpanKind.CONSUMER) as span:
        span.set_attribute("messaging.message.id", fields["posthaste-id"])
provider.shutdown()
