"""web_server.py DIRECTORY CERTIFICATE KEY: serves a directory over HTTP and HTTPS on loopback ports of the kernel's
choice, and says which. /redirect?URL leads elsewhere; a WebSocket is greeted and told what it says. Ends with its
standard input."""
import base64
import hashlib
import http.server
import os
import ssl
import sys
import threading


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("Location", self.path.split("?", 1)[1])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.greet_websocket()
        super().do_GET()

    def greet_websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        # One short masked frame, and the same text back without a mask.
        head = self.rfile.read(6)
        text = bytes(byte ^ head[2 + i % 4] for i, byte in enumerate(self.rfile.read(head[1] & 127)))
        self.wfile.write(bytes([0x81, len(text)]) + text)
        self.close_connection = True

    def log_message(self, *_):
        pass


def main():
    directory, certificate, key = sys.argv[1:]
    os.chdir(directory)
    plain = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    secure = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    for server in plain, secure:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(plain.server_port, secure.server_port, flush=True)
    sys.stdin.read()


main()
