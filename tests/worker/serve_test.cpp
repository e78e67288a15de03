#include "worker/serve.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <thread>

#include "wire/wire.h"
#include "worker/sandbox_dir.h"
#include "worker/sha256.h"

namespace sallyport::worker {
namespace {

// A worker on a thread, and the other end of its socket.
class Served {
 public:
  explicit Served(const SandboxDir& box) : Served(box.open()) {}
  explicit Served(Roots roots) : service_(std::move(roots)) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ours_ = UniqueFd(pair[0]);
    thread_ = std::thread([this, theirs = pair[1]] {
      const SystemClock clock;
      const Log quiet(-1, LogFormat::text, LogLevel::error, clock);
      status_ = serve(UniqueFd(theirs), service_, quiet);
    });
  }
  ~Served() {
    ours_.reset();
    if (thread_.joinable()) thread_.join();
  }

  // Hangs up, and waits for the worker's last word.
  Status end() {
    ours_.reset();
    return join();
  }
  Status join() {
    thread_.join();
    return status_;
  }

  int fd() const { return ours_.get(); }
  void send(const Bytes& bytes) { send(as_text(bytes.view())); }
  void send(std::string_view bytes) {
    ASSERT_EQ(::send(ours_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void request(std::string_view id, std::string_view method, std::string_view params) {
    Bytes out;
    ASSERT_TRUE(wire::append_request(out, {.id = id, .method = method, .deadline_ms = {}, .token = {}}, params));
    send(out);
  }
  void event(std::string_view id, std::string_view method, std::string_view params) {
    Bytes out;
    ASSERT_TRUE(wire::append_event(out, id, method, params));
    send(out);
  }
  void chunk(std::uint32_t stream, std::string_view bytes) {
    Bytes out;
    ASSERT_TRUE(wire::append_chunk(out, stream, as_bytes(bytes)));
    send(out);
  }

  // The next frame's body; empty at the end.
  std::string frame() {
    while (true) {
      auto body = reader_.next();
      if (!body) return "error";
      if (*body) return std::string(as_text(**body));
      const auto room = reader_.writable();
      const ssize_t count = ::recv(ours_.get(), room.data(), room.size(), 0);
      if (count <= 0) return {};
      reader_.commit(static_cast<std::size_t>(count));
    }
  }

 private:
  Service service_;
  UniqueFd ours_;
  std::thread thread_;
  Status status_;
  wire::FrameReader reader_;
};

TEST(Serve, ALargeFileComesWithItsHashHoweverItIsAskedFor) {
  SandboxDir box;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  box.write("f", text);
  box.write("latin1", text + "\xe9");
  box.write("escaped", std::string(200'000, '\x01'));
  Served served(box);
  const auto hash_of = [&](const std::string& params) {
    served.request("r", "fs.read", params);
    wire::Decoder decoder;
    const std::string body = served.frame();
    const auto answer = decoder.parse(body);
    return answer ? std::string(answer->root().get("result").get("sha256").as_string().value_or("none")) : body;
  };
  const std::string hash = sha256_hex(text);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(hash_of(R"({"path":"f"})"), hash);
  EXPECT_EQ(hash_of(R"({"path":"f","line_numbers":true,"max_bytes":900000})"), hash);
  EXPECT_EQ(hash_of(R"({"path":"f","max_bytes":1000})"), "none");
  EXPECT_EQ(hash_of(R"({"path":"f","max_bytes":1000,"sha256":true})"), hash);
  EXPECT_EQ(hash_of(R"({"path":"f","sha256":false})"), "none");
  EXPECT_EQ(hash_of(R"({"path":"f","limit":3,"sha256":true})"), hash);
  EXPECT_EQ(hash_of(R"({"path":"latin1","max_bytes":900000})"), sha256_hex(text + "\xe9"));
  EXPECT_EQ(hash_of(R"({"path":"escaped","sha256":true})"), sha256_hex(std::string(200'000, '\x01')));
}

TEST(Serve, AnswersPingsAndEndsCleanlyAtEof) {
  SandboxDir box;
  Served worker(box);
  worker.request("1", "worker.ping", "");
  EXPECT_EQ(worker.frame(), R"({"id":"1","type":"response","result":{"pong":true}})");
  EXPECT_TRUE(worker.end());
}

TEST(Serve, PipelinedRequestsAreAnsweredInOrder) {
  SandboxDir box;
  box.write("f", "x");
  Served worker(box);
  Bytes all;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(wire::append_request(
        all, {.id = std::to_string(i), .method = "fs.stat", .deadline_ms = {}, .token = {}}, R"({"path":"f"})"));
  }
  worker.send(all);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(worker.frame().find("{\"id\":\"" + std::to_string(i) + "\""), 0U);
}

TEST(Serve, ShutdownAnswersWhatCameBeforeItAndReturns) {
  SandboxDir box;
  Served worker(box);
  worker.request("1", "fs.mkdir", R"({"path":"d"})");
  worker.request("2", "worker.shutdown", "");
  EXPECT_NE(worker.frame().find("\"created\":1"), std::string::npos);
  EXPECT_EQ(worker.frame(), R"({"id":"2","type":"response","result":{"pong":true}})");
  EXPECT_TRUE(worker.join());
  EXPECT_EQ(worker.frame(), "");
}

TEST(Serve, AnErrorNamesItsCodeAndTheWorkerGoesOn) {
  SandboxDir box;
  Served worker(box);
  worker.request("1", "fs.read", R"({"path":"../x"})");
  EXPECT_NE(worker.frame().find("POLICY_DENIED"), std::string::npos);
  worker.request("2", "no.such", "");
  EXPECT_NE(worker.frame().find("METHOD_NOT_FOUND"), std::string::npos);
}

TEST(Serve, MalformedJsonIsAnsweredAndTheEighthEndsIt) {
  SandboxDir box;
  Served worker(box);
  Bytes bad;
  ASSERT_TRUE(wire::append_frame(bad, as_bytes("{this is not json")));
  for (int i = 0; i < 8; ++i) {
    worker.send(bad);
    EXPECT_NE(worker.frame().find("\"error\""), std::string::npos);
  }
  EXPECT_EQ(worker.frame(), "");
  EXPECT_FALSE(worker.join());
}

TEST(Serve, ALengthAboveTheCapEndsItBeforeAnythingIsRead) {
  SandboxDir box;
  Served worker(box);
  worker.send(std::string_view("\xff\xff\xff\xff", 4));
  EXPECT_NE(worker.frame().find("\"id\":null"), std::string::npos);
  EXPECT_FALSE(worker.join());
}

TEST(Serve, EofInsideAFrameIsAnError) {
  SandboxDir box;
  Served worker(box);
  worker.send(std::string_view("\0\0\0\x64{\"id", 8));
  EXPECT_FALSE(worker.end());
}

TEST(Serve, SendsAFileAsAStreamWithinItsCredit) {
  SandboxDir box;
  std::string content;
  for (int i = 0; i < 400'000; ++i) content += std::to_string(i) + "\n";
  box.write("big", content);
  Served worker(box);
  worker.request("1", "fs.read", R"({"path":"big","stream":true})");
  EXPECT_NE(worker.frame().find("\"content\":{\"$stream\":2}"), std::string::npos);
  std::string got;
  std::size_t credit = wire::kInitialCredit;
  while (true) {
    const std::string body = worker.frame();
    const auto chunk = wire::parse_chunk(as_bytes(body));
    ASSERT_TRUE(chunk);
    ASSERT_EQ(chunk->stream, 2U);
    if (chunk->data.empty()) break;
    got += as_text(chunk->data);
    ASSERT_LE(got.size(), credit);
    if (got.size() == credit) {
      credit += 500'000;
      worker.event("", "stream.credit", R"({"stream":2,"bytes":500000})");
    }
  }
  EXPECT_EQ(got, content);
}

TEST(Serve, AResetStreamIsNotSentToItsEnd) {
  SandboxDir box;
  box.write("big", std::string(8 << 20, 'x'));
  Served worker(box);
  worker.request("1", "fs.read", R"({"path":"big","stream":true})");
  worker.frame();
  std::size_t got = 0;
  while (got < wire::kInitialCredit) got += worker.frame().size() - wire::kChunkHeaderBytes;
  worker.event("", "stream.reset", R"({"stream":2})");
  worker.request("2", "worker.ping", "");
  EXPECT_NE(worker.frame().find("pong"), std::string::npos);
}

TEST(Serve, AStreamThatNobodyReadsHoldsUpNobody) {
  SandboxDir box;
  box.write("big", std::string(4 << 20, 'x'));
  Served worker(box);
  worker.request("1", "fs.read", R"({"path":"big","stream":true})");
  std::size_t came = 0;
  // All its credit is used up and none is given.
  while (came < wire::kInitialCredit) {
    const std::string body = worker.frame();
    if (const auto chunk = wire::parse_chunk(as_bytes(body))) came += chunk->data.size();
  }
  worker.request("2", "worker.ping", "");
  EXPECT_EQ(worker.frame(), R"({"id":"2","type":"response","result":{"pong":true}})");
  EXPECT_TRUE(worker.end());
}

TEST(Serve, ACrowdOfRequestsIsNoFault) {
  SandboxDir box;
  Served worker(box);
  constexpr int kCrowd = 3 * static_cast<int>(wire::kMaxInFlight);
  Bytes all;
  for (int i = 0; i < kCrowd; ++i) {
    ASSERT_TRUE(wire::append_request(all, {.id = "1", .method = "worker.ping", .deadline_ms = {}, .token = {}}, ""));
  }
  worker.send(all);
  for (int i = 0; i < kCrowd; ++i) ASSERT_FALSE(worker.frame().empty()) << "it ended after " << i;
  EXPECT_TRUE(worker.end());
}

TEST(Serve, WritesAFileFromAStream) {
  SandboxDir box;
  Served worker(box);
  worker.request("1", "fs.write", R"({"path":"f","content":{"$stream":1}})");
  std::string content;
  std::size_t granted = wire::kInitialCredit;
  std::string last;
  while (content.size() < (3U << 20)) {
    const std::string piece(100'000, static_cast<char>('a' + content.size() / 100'000 % 26));
    while (content.size() + piece.size() > granted) {
      const std::string body = worker.frame();
      ASSERT_NE(body.find("stream.credit"), std::string::npos) << body;
      granted += std::stoul(body.substr(body.find("\"bytes\":") + 8));
    }
    worker.chunk(1, piece);
    content += piece;
  }
  worker.chunk(1, "");
  do last = worker.frame();
  while (last.find("stream.credit") != std::string::npos);
  EXPECT_NE(last.find(sha256_hex(content)), std::string::npos) << last;
  EXPECT_EQ(box.read("f"), content);
}

TEST(Serve, AStreamThatIsResetLeavesTheOldFile) {
  SandboxDir box;
  box.write("f", "old");
  Served worker(box);
  worker.request("1", "fs.write", R"({"path":"f","content":{"$stream":1}})");
  worker.chunk(1, "half of the new");
  worker.event("", "stream.reset", R"({"stream":1})");
  EXPECT_NE(worker.frame().find("CANCELLED"), std::string::npos);
  EXPECT_EQ(box.read("f"), "old");
  EXPECT_FALSE(std::filesystem::exists(box.path("d")));
}

// Without it whoever sends would wait for credit that never comes.
TEST(Serve, AStreamThatARefusedRequestNamedIsReset) {
  SandboxDir box;
  box.mkdir("d");
  Served worker(box);
  worker.request("1", "fs.write", R"({"path":"d","content":{"$stream":1}})");
  worker.chunk(1, std::string(100'000, 'x'));
  bool is_answered = false, is_reset = false;
  while (!is_answered || !is_reset) {
    const std::string body = worker.frame();
    ASSERT_FALSE(body.empty());
    is_answered = is_answered || body.find("\"error\":{\"code\"") != std::string::npos;
    is_reset = is_reset || body.find("stream.reset") != std::string::npos;
  }
  // What was under way is no fault, and the next stream is taken.
  worker.chunk(1, "more");
  worker.request("2", "fs.write", R"({"path":"f","content":{"$stream":3}})");
  worker.chunk(3, "new");
  worker.chunk(3, "");
  EXPECT_NE(worker.frame().find("\"id\":\"2\""), std::string::npos);
  EXPECT_EQ(box.read("f"), "new");
}

TEST(Serve, ACancelledSearchEndsAndTheNextRequestIsAnswered) {
  SandboxDir box;
  for (int i = 0; i < 4000; ++i)
    box.write("d" + std::to_string(i % 50) + "/" + std::to_string(i), std::string(20'000, 'a') + "\n");
  Served worker(box);
  Bytes all;
  // No literal to look for and much to try: slow enough to be cancelled.
  ASSERT_TRUE(wire::append_request(all, {.id = "slow", .method = "fs.grep", .deadline_ms = {}, .token = {}},
                                   R"({"pattern":"(a|b)*c(a|b)*d"})"));
  ASSERT_TRUE(wire::append_event(all, "slow", "cancel", ""));
  ASSERT_TRUE(wire::append_request(all, {.id = "next", .method = "worker.ping", .deadline_ms = {}, .token = {}}, ""));
  worker.send(all);
  EXPECT_NE(worker.frame().find("CANCELLED"), std::string::npos);
  EXPECT_NE(worker.frame().find("\"id\":\"next\""), std::string::npos);
}

TEST(Serve, StreamedHitsComeInPagesBeforeTheAnswer) {
  SandboxDir box;
  for (const char* name : {"a", "b", "c"}) box.write(name, "one hit\nnone\nanother hit\n");
  Served worker(box);
  worker.request("1", "fs.grep", R"({"pattern":"hit","stream":true,"max_bytes":200})");
  std::string paths;
  std::size_t pages = 0;
  std::string body = worker.frame();
  for (; body.find("\"event\"") != std::string::npos; body = worker.frame(), ++pages) {
    EXPECT_NE(body.find(R"({"id":"1","type":"event","method":"progress","params":{"matches":[)"), std::string::npos);
    for (std::size_t at = 0; (at = body.find("\"path\":\"", at)) != std::string::npos;) paths += body[at += 8];
  }
  EXPECT_EQ(paths, "aabbcc");
  EXPECT_GT(pages, 2U);
  EXPECT_NE(body.find(R"("result":{"total":6,"pages":)" + std::to_string(pages)), std::string::npos) << body;
}

TEST(Serve, AStreamedSearchThatNobodyReadsCanBeCancelled) {
  SandboxDir box;
  // Far more than the socket holds.
  for (int i = 0; i < 200; ++i) {
    std::string content;
    for (int j = 0; j < 100; ++j) content += std::string(400, 'x') + "\n";
    box.write("d" + std::to_string(i % 20) + "/" + std::to_string(i), content);
  }
  Served worker(box);
  worker.request("1", "fs.grep", R"({"pattern":"x","stream":true,"limit":100000,"max_bytes":50000})");
  EXPECT_NE(worker.frame().find("progress"), std::string::npos);
  worker.event("1", "cancel", "");
  std::size_t came = 0;
  std::string body = worker.frame();
  for (; body.find("\"event\"") != std::string::npos; body = worker.frame()) came += body.size();
  EXPECT_NE(body.find("CANCELLED"), std::string::npos) << body;
  EXPECT_LT(came, 200U * 100 * 400);
  worker.request("2", "worker.ping", "");
  EXPECT_NE(worker.frame().find("pong"), std::string::npos);
}

TEST(Serve, ARequestCancelledBeforeItsTurnIsNotDone) {
  SandboxDir box;
  Served worker(box);
  Bytes all;
  ASSERT_TRUE(wire::append_request(all, {.id = "1", .method = "worker.ping", .deadline_ms = {}, .token = {}}, ""));
  ASSERT_TRUE(wire::append_request(all, {.id = "2", .method = "fs.mkdir", .deadline_ms = {}, .token = {}},
                                   R"({"path":"never"})"));
  ASSERT_TRUE(wire::append_event(all, "2", "cancel", ""));
  worker.send(all);
  EXPECT_NE(worker.frame().find("pong"), std::string::npos);
  EXPECT_NE(worker.frame().find("CANCELLED"), std::string::npos);
  EXPECT_FALSE(box.exists("never"));
}

TEST(Serve, AWriteWhoseStreamStallsCanBeCancelled) {
  SandboxDir box;
  box.write("f", "old");
  Served worker(box);
  worker.request("1", "fs.write", R"({"path":"f","content":{"$stream":1}})");
  worker.chunk(1, "half");
  worker.event("1", "cancel", "");
  EXPECT_NE(worker.frame().find("CANCELLED"), std::string::npos);
  EXPECT_EQ(box.read("f"), "old");
}

TEST(Serve, ADeadlineEndsASearch) {
  SandboxDir box;
  for (int i = 0; i < 500; ++i)
    box.write("d" + std::to_string(i % 50) + "/" + std::to_string(i), std::string(100'000, 'a') + "\n");
  Served worker(box);
  Bytes all;
  ASSERT_TRUE(wire::append_request(all, {.id = "1", .method = "fs.grep", .deadline_ms = 1, .token = {}},
                                   R"({"pattern":"(a|b)*c(a|b)*d"})"));
  worker.send(all);
  EXPECT_NE(worker.frame().find("TIMEOUT"), std::string::npos);
}

TEST(Serve, DescriptorsNobodyAskedForAreNotKept) {
  SandboxDir box;
  const UniqueFd sent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // In a child, so that its descriptors can be counted.
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const auto count_fds = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pair[0]);
    const SystemClock clock;
    const Log quiet(-1, LogFormat::text, LogLevel::error, clock);
    const auto before = count_fds();
    const auto status = serve(UniqueFd(::dup(pair[1])), Service(box.open()), quiet);
    ::_exit(status && count_fds() == before ? 0 : 1);
  }
  ::close(pair[1]);
  Bytes request;
  ASSERT_TRUE(
      wire::append_request(request, {.id = "1", .method = "worker.shutdown", .deadline_ms = {}, .token = {}}, ""));
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{request.data(), request.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = sent.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ASSERT_GT(::sendmsg(pair[0], &message, 0), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(pair[0]);
}

}  // namespace
}  // namespace sallyport::worker
