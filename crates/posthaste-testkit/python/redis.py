"""Reads streams with redis-py: the URL, and the key of a stream, or * for all. Prints one JSON object per entry."""
import base64, json, sys
import redis

url, key = sys.argv[1:3]
server = redis.Redis.from_url(url)
keys = [key.encode()] if key != "*" else sorted(server.scan_iter(_type="stream"))
for key in keys:
    for _, fields in server.xrange(key):
        body = fields.pop(b"payload")
        headers = {name.decode(): value.decode() for name, value in fields.items()}
        print(json.dumps({"key": key.decode(), "headers": headers, "body": base64.b64encode(body).decode()}))
