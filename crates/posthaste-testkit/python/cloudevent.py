# Reads a CloudEvent with the library that the CloudEvents project publishes: headers as JSON, and the body.
# Prints its attributes, and its data as it understood it.

import json
import sys

from cloudevents.http import from_http

headers = json.loads(sys.argv[1])
event = from_http(headers, sys.argv[2].encode())
print(json.dumps({"attributes": dict(event.get_attributes()), "data": event.get_data()}))
