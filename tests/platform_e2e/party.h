// A third-party adapter in Python that a test writes: a function `answer(method, params)` that returns a result, or
// raises Refused(code, message, details).
#pragma once

#include <fstream>
#include <string>

#include "support/daemon.h"
#include "wire/crypto.h"

namespace sallyport::testing {

class PythonParty {
 public:
  PythonParty(std::string role, const std::string& body) : role_(std::move(role)), text_(head() + body + tail()) {
    std::ofstream(path()) << text_;
  }

  std::string path() const { return directory_.path() + "/party.py"; }
  // Of a platform whose role it has; `more` follows in its own table.
  std::string config(const std::string& more = "") const {
    return "[platform]\nallow_adapters = [\"party\"]\n[platform.adapters]\n" + role_ +
           " = \"party\"\n[platform.third_party.party]\npath = \"" + path() + "\"\nsha256 = \"" +
           to_hex(wire::sha256(as_bytes(text_))) + "\"\nroles = [\"" + role_ + "\"]\n" + more;
  }

 private:
  static std::string head() {
    return R"py(#!/usr/bin/env python3
import json, os, socket, struct, time
class Refused(Exception): pass
secret = ""
)py";
  }
  std::string tail() const {
    return R"py(
s = socket.socket(fileno=3)
while True:
  head = s.recv(4, socket.MSG_WAITALL)
  if len(head) < 4: break
  m = json.loads(s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
  if m["type"] != "request": continue
  out = {"id": m["id"], "type": "response"}
  p = m.get("params", {})
  if m["method"] == "adapter.init":
    secret = p.get("credential", "")
    out["result"] = {"protocol": 1, "roles": [")py" +
           role_ + R"py("]}
  else:
    try: out["result"] = answer(m["method"], p)
    except Refused as e: out["error"] = {"code": e.args[0], "message": e.args[1], "retryable": False, "details": e.args[2]}
  b = json.dumps(out).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
)py";
  }

  TemporaryDirectory directory_;
  std::string role_, text_;
};

}  // namespace sallyport::testing
