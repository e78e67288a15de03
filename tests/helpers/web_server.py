"""web_server.py DIRECTORY CERTIFICATE KEY: serves a directory over HTTP and HTTPS on loopback ports of the kernel's
choice, and says which. /redirect?URL leads elsewhere. Ends with its standard input."""
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
        super().do_GET()

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
