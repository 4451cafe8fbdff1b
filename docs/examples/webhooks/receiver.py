"""A receiver of webhooks in Python, without packages: WEBHOOK_SECRET=whsec_... PORT=8080 python3 receiver.py"""
import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

key = base64.b64decode(os.environ.get("WEBHOOK_SECRET", "").removeprefix("whsec_"))
if len(key) < 24:
    raise SystemExit("WEBHOOK_SECRET must be whsec_ and base64")  # an empty one verifies forged messages
MAX_BODY = 64 << 10  # more than a delivery has
handled = set()  # a database belongs here: the same event may come again after days


def verify(headers, body):
    try:
        sent = int(headers.get("Webhook-Timestamp", ""))
        if abs(time.time() - sent) > 300:
            return False
    except (ValueError, OverflowError):  # no number, or one with hundreds of digits
        return False
    signed = f"{headers.get('Webhook-Id', '')}.{sent}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    signatures = headers.get("Webhook-Signature", "").split()
    return any(hmac.compare_digest(want.encode(), got.encode()) for got in signatures)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds in which a request must send something

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > MAX_BODY:  # int takes no thousands of digits
            return self.answer(400)
        body = self.rfile.read(int(length))
        if not verify(self.headers, body):
            return self.answer(401)
        try:
            event = json.loads(body)
            kind, event_id = str(event["type"]), str(event["data"]["id"])
        except (ValueError, TypeError, KeyError, RecursionError):  # signed, and no event
            return self.answer(400)
        if event_id not in handled:
            handled.add(event_id)
            print(kind, event_id, flush=True)  # queue the work here, and do it after the answer
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), Receiver)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
