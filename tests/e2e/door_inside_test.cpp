// The wire's attacks, from where an attacker would be: inside a container, at its own door.
#include <filesystem>
#include <fstream>

#include "containers.h"

namespace sallyport::testing {
namespace {

class DoorInside : public Containers {
 protected:
  // Raw frames, for Python scripts.
  static constexpr const char* kWire = R"(
import fcntl, json, os, socket, struct, sys, termios, time
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["SALLYPORT_DOOR"])
    return s
def frame(body):
    return struct.pack(">I", len(body)) + body
def request(method, params, id="1", **more):
    return frame(json.dumps(dict(id=id, type="request", method=method, params=params, **more)).encode())
def read_exactly(s, count):
    data = b""
    while len(data) < count:
        more = s.recv(count - len(data))
        if not more:
            return None
        data += more
    return data
def answer(s):
    head = read_exactly(s, 4)
    return None if head is None else json.loads(read_exactly(s, struct.unpack(">I", head)[0]))
def call(s, method, params, **more):
    s.sendall(request(method, params, **more))
    return answer(s)
def wait_until_stuck(held):
    before, now = None, [0]
    while sum(now) == 0 or now != before:  # something has come, and nothing more does
        time.sleep(0.2)
        before, now = now, [struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0] for s in held]
)";

  std::string write_script(const std::string& name, const std::string& script) {
    std::ofstream(workspace() + "/" + name) << kWire << script;
    return "python3 " + workspace() + "/" + name;
  }

  // Starts a shell command, and reads what it prints until this is among it.
  bool runs_until_it_says(Client& host, const std::string& id, const std::string& command, std::string_view word) {
    const std::string params = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("container", id).key("command").begin_array();
      json.value("sh").value("-c").value(command).end_array().end_object();
    });
    return host.send_request("exec", "container.exec", params) && says(host, word);
  }
  static bool says(Client& host, std::string_view word) {
    while (const auto body = host.next_body()) {
      const auto chunk = wire::parse_chunk(as_bytes(*body));
      if (!chunk && decode(*body)->type == wire::MessageType::response) break;
      if (!chunk) continue;
      if (as_text(chunk->data).find(word) != std::string_view::npos) return true;
      if (chunk->data.empty()) break;
    }
    return false;
  }
};

TEST_F(DoorInside, BrokenFramesCostTheConnectionAndNothingElse) {
  Client host = connect();
  const std::string id = create(host, "");
  const Ran ran = exec(host, id, write_script("attack.py", R"(
for attack, code in ((struct.pack(">I", 0), "PROTOCOL_ERROR"), (struct.pack(">I", (1 << 20) + 1), "PAYLOAD_TOO_LARGE"),
                     (b"\xff" * 64, "PAYLOAD_TOO_LARGE"), (b"GET / HTTP/1.1\r\n\r\n", "PAYLOAD_TOO_LARGE")):
    s = connect()
    s.sendall(attack)
    told = answer(s)
    assert told["id"] is None and told["error"]["code"] == code, told
    try:
        assert answer(s) is None
    except ConnectionResetError:
        pass
s = connect()
for i in range(8):
    s.sendall(frame(b"{nonsense"))
    assert answer(s)["error"]["code"] == "PROTOCOL_ERROR"
assert answer(s) is None, "the eighth was the last"
s = connect()
s.sendall(struct.pack(">I", 100) + b"half a ")
s.close()
s = connect()
for i in range(20):
    socket.send_fds(s, [request("test.ping", {})], [0, 1, 2])
    told = answer(s)
    if told is None or told["id"] is None:
        break
assert i == 7, i
assert call(connect(), "test.ping", {})["result"] == {"pong": True}
hello = call(connect(), "warden.hello", {})
assert "error" in hello or "pid" not in hello["result"]["peer"], hello
print("fine")
)"));
  EXPECT_EQ(ran.out, "fine\n") << ran.err;
  EXPECT_TRUE(connect().pings());
}

TEST_F(DoorInside, AnswersThatNobodyReadsAreBoundedForAllConnectionsTogether) {
  Client host = connect();
  const std::string id = create(host, "");
  const std::string script = write_script("hog.py", R"(
echo = request("test.echo", {"data": "y" * 1000000})
held = []
for i in range(120):
    s = connect()
    s.setblocking(False)
    held.append(s)
until = time.monotonic() + 4
left = {s: echo * 6 for s in held}
while left and time.monotonic() < until:
    for s in list(left):
        try:
            left[s] = left[s][s.send(left[s]):]
        except BlockingIOError:
            continue
        if not left[s]:
            del left[s]
print("holding", flush=True)
time.sleep(600)
)");
  ASSERT_TRUE(runs_until_it_says(host, id, script, "holding"));
  // 120 connections of 4 MiB each without a bound for all; 64 MiB and what one turn adds with it.
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 200 << 10);
  EXPECT_TRUE(connect().pings());
  EXPECT_EQ(connect().outcome("container.stop", named(id)), "OK");
}

TEST_F(DoorInside, AttackAnswersStillToComeAreBoundedWithThoseThatNobodyReads) {
  Client host = connect();
  const std::string id = create(host, "");
  std::ofstream(workspace() + "/large") << std::string(900'000, 'x');
  // All are asked before the first is answered.
  const std::string script = write_script("hog.py", R"(
held = [connect() for i in range(250)]
for s in held:
    s.sendall(b"".join(request("fs.read", {"path": "large", "max_bytes": 983040}, id=str(i)) for i in range(64)))
wait_until_stuck(held)
print("holding", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
for s in held[3:]: s.close()
for s in held[:3]:
    s.settimeout(20)
    for i in range(64): assert answer(s)["type"] == "response"
again = call(held[0], "fs.read", {"path": "large", "max_bytes": 983040})
print(len(again["result"]["content"]), "read", flush=True)
)");
  ASSERT_TRUE(runs_until_it_says(host, id, "cd " + workspace() + " && " + script, "holding"));
  // 64 MiB, and what the allocator keeps besides.
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 160 << 10);
  // The host has the same worker, and answers of its own.
  Client other = connect();
  const auto read = other.call("fs.read", R"({"container":")" + id + R"(","path":"large","max_bytes":983040})");
  EXPECT_EQ(code_of(read), "OK");
  std::ofstream(workspace() + "/go") << "";
  EXPECT_TRUE(says(host, "900000 read"));
}

TEST_F(DoorInside, AttackCreditIsNotTakenForReading) {
  Client host = connect();
  const std::string id = create(host, "");
  std::ofstream(workspace() + "/huge") << "";
  std::filesystem::resize_file(workspace() + "/huge", 400U << 20);
  const std::string script = write_script("hog.py", R"(
held = [connect() for i in range(4)]
for s in held:
    s.sendall(request("fs.read", {"path": "huge", "stream": True}))
    number = answer(s)["result"]["content"]["$stream"]
    credit = {"type": "event", "method": "stream.credit", "params": {"stream": number, "bytes": 2 ** 30}}
    s.sendall(frame(json.dumps(credit).encode()))
wait_until_stuck(held)
print("holding", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
for s in held[1:]: s.close()
left = 400 << 20
while left > 0:
    size = struct.unpack(">I", read_exactly(held[0], 4))[0]
    read_exactly(held[0], size)
    left -= size - 5
print(left, "left", flush=True)
)");
  ASSERT_TRUE(runs_until_it_says(host, id, "cd " + workspace() + " && " + script, "holding"));
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 100 << 10);
  std::ofstream(workspace() + "/go") << "";
  EXPECT_TRUE(says(host, "0 left"));
}

TEST_F(DoorInside, AttackStreamsThatWaitAreBoundedForAllConnectionsTogether) {
  Client host = connect();
  const std::string id = create(host, "");
  // Each brings all that its first credit lets it, and the worker can write only so many at once.
  const Ran ran = exec(host, id, write_script("hold.py", R"(
import collections
held, codes = [], collections.Counter()
for c in range(12):
    s = connect()
    s.settimeout(20)
    held.append(s)
    for i in range(16):
        s.sendall(request("fs.write", {"path": f"f{c}-{i}", "content": {"$stream": 2 * i + 1}}, id=str(i)))
        for piece in range(4):
            s.sendall(frame(b"\x01" + struct.pack(">I", 2 * i + 1) + b"x" * (1 << 18)))
for s in held:
    s.sendall(request("test.ping", {}, id="last"))
    while (told := answer(s)).get("id") != "last":
        if told["type"] == "response":
            codes[told["error"]["code"] if "error" in told else "OK"] += 1
print(sorted(codes.items()))
for s in held: s.close()
s = connect()
told = {"error": {"code": "RATE_LIMITED"}}  # until the warden has seen that they are gone
stream, until = 1, time.monotonic() + 20
while told.get("error", {}).get("code") == "RATE_LIMITED" and time.monotonic() < until:
    s.sendall(request("fs.write", {"path": "last", "content": {"$stream": stream}}))
    s.sendall(frame(b"\x01" + struct.pack(">I", stream) + b"fine") + frame(b"\x01" + struct.pack(">I", stream)))
    while (told := answer(s))["type"] != "response": pass
    stream += 2
print(told.get("error", "written"))
)"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "[('RATE_LIMITED', 128)]\nwritten\n");
  EXPECT_EQ(exec(host, id, "cat last").out, "fine");
}

TEST_F(DoorInside, AttackConnectionsThatAreRefusedDoNotBuryOtherEvents) {
  Client host = connect(), subscriber = connect();
  const std::string id = create(host, "");
  ASSERT_EQ(subscriber.outcome("warden.subscribe", R"({"events":["session.refused","container.exited"]})"), "OK");
  EXPECT_EQ(exec(host, id, write_script("storm.py", R"(
held = []
for i in range(2000):
    s = connect()
    if i < 256:
        held.append(s)
        if i == 255:
            s.sendall(request("test.ping", {}))
            answer(s)
    else:
        while s.recv(4096): pass
)"))
                .exit_code,
            0);
  EXPECT_EQ(host.outcome("container.stop", named(id)), "OK");
  int refused = 0;
  for (std::string method; method != "container.exited";) {
    const auto event = subscriber.next_message();
    ASSERT_TRUE(event);
    method = event->method;
    refused += method == "session.refused" ? 1 : 0;
  }
  EXPECT_GE(refused, 1);
  EXPECT_LT(refused, 200);
}

TEST_F(DoorInside, ATokenOfOneContainerIsWorthNothingInAnother) {
  Client host = connect();
  std::filesystem::create_directories(daemon().root() + "/profiles");
  std::ofstream(daemon().root() + "/profiles/tokens.toml")
      << "[profile.tokens]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = "
         "[\"/usr/**\"]\nenv = { PATH = \"/usr/bin\" }\nmethods = [\"test.*\", \"token.create\"]\ntoken_methods = "
         "[\"test.echo\"]\n";
  ASSERT_EQ(host.outcome("warden.reload"), "OK");
  const auto make = [&] {
    const auto answer =
        host.call("container.create", R"({"template":"tokens","config":{"workspace":")" + workspace() + "\"}}");
    EXPECT_EQ(code_of(answer), "OK") << (answer && answer->error ? answer->error->message : "");
    return answer ? std::string(answer->result.get("container").as_string().value_or("")) : "";
  };
  const std::string one = make(), other = make();
  const Ran made = exec(host, one, write_script("make.py", R"(
s = connect()
token = call(s, "token.create", {"methods": ["test.echo"], "ttl_ms": 600000})["result"]["token"]
assert "error" in call(s, "test.echo", {"data": 1}), "without one"
assert call(s, "test.echo", {"data": 1}, token=token)["result"] == {"data": 1}
print(token)
)"));
  ASSERT_GT(made.out.size(), 20U) << made.err;
  const std::string use =
      write_script("use.py", "told = call(connect(), 'test.echo', {'data': 1}, token=\"" +
                                 made.out.substr(0, made.out.size() - 1) + "\")\nprint(told['error']['code'])\n");
  EXPECT_EQ(exec(host, other, use).out, "UNAUTHENTICATED\n");
  EXPECT_EQ(exec(host, one, use).out, "UNAUTHENTICATED\n") << "nor in another process of the same";
}

}  // namespace
}  // namespace sallyport::testing
