// Makes a container, runs a command in it, and prints what it wrote.
//
//   cmake -B build && cmake --build build && build/cpp_client "$XDG_RUNTIME_DIR/sallyport/warden.sock"
//   g++ -std=c++20 main.cpp $(pkg-config --cflags --libs sallyport) -o cpp_client
#include <sallyport/client/client.h>

#include <cstdio>
#include <optional>

using namespace sallyport;

namespace {

// Everything that came on a stream, to its end.
Status print_stream(Client& client, std::uint32_t stream) {
  for (;;) {
    SALLYPORT_TRY(const Bytes bytes, client.read_stream(stream));
    if (bytes.empty()) return ok();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  }
}

Status run(const char* socket) {
  SALLYPORT_TRY(const auto client, Client::connect_unix(socket));
  // It ends with this connection.
  SALLYPORT_TRY(const Answer made, client->call("container.create", R"({"config":{"ends_with_session":true}})"));
  const std::string container(made.value().get("container").as_string().value_or(""));

  std::uint32_t output = 0;
  client->on_event([&](const wire::Message& event) {
    if (event.method != "container.started") return;
    output = static_cast<std::uint32_t>(event.params.get("stdout").get("$stream").as_int().value_or(0));
  });
  std::optional<Result<Answer>> answer;
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("container", container);
    json.key("command").begin_array().value("echo").value("hello from inside").end_array().end_object();
  });
  SALLYPORT_TRY(client->start("container.exec", params, [&](Result<Answer> came) { answer.emplace(std::move(came)); }));
  while (!answer && output == 0) SALLYPORT_TRY(client->dispatch(Millis(1000)));
  if (output != 0) SALLYPORT_TRY(print_stream(*client, output));
  while (!answer) SALLYPORT_TRY(client->dispatch(Millis(1000)));
  if (!*answer) return answer->error();
  std::printf("exit code %s\n", (*answer)->value().get("exit_code").to_json().c_str());
  return ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SOCKET\n", argv[0]);
    return 2;
  }
  const Status done = run(argv[1]);
  if (!done) std::fprintf(stderr, "%s\n", done.error().describe().c_str());
  return done ? 0 : 1;
}
