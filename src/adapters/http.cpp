#include "adapters/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

constexpr long kConnectMillis = 10'000;
constexpr long kSilentSeconds = 120;                 // a stream that brings nothing for so long is given up
constexpr curl_off_t kMostPatience = 24L * 60 * 60;  // seconds: what a backend says may be any number
constexpr long kConnections = 256;                   // sixteen tenants that take all they may
constexpr long kIdleConnections = 64;

// Whether there was a connection to ask on. Until then nobody has heard of the request.
bool was_connected(CURL* easy) {
  curl_off_t ready_after = 0;
  ::curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &ready_after);
  return ready_after != 0;
}

Error curl_error(CURL* easy, CURLcode code, bool had_begun) {
  if (code == CURLE_OPERATION_TIMEDOUT && was_connected(easy)) {
    return Error::make(Code::timeout, "the backend did not answer in time");
  }
  if (code == CURLE_WRITE_ERROR || code == CURLE_FILESIZE_EXCEEDED) {
    return Error::make(Code::payload_too_large, "the backend answered with more than it may");
  }
  Error error = had_begun ? Error::make(Code::io_error, "the backend broke off in the middle of its answer")
                          : Error::make(Code::unavailable, "the backend cannot be reached; try again");
  error.detail = ::curl_easy_strerror(code);
  if (had_begun) error.details_json = R"({"errno":"ECONNRESET"})";
  error.retryable = true;
  return error;
}

Error given_up(bool was_asked) {
  Error error = Error::make(Code::cancelled, "given up");
  if (!was_asked) error.details_json = R"({"was_asked":false})";
  return error;
}

}  // namespace

// Everything but the queue belongs to the thread.
struct Http::State {
  struct Transfer {
    std::uint64_t id = 0;
    State* state = nullptr;
    HttpRequest request;
    OnPiece on_piece;
    OnDone on_done;
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    HttpResponse response;
    std::size_t received = 0;
  };

  struct Lane {
    std::size_t running = 0;
    std::deque<std::unique_ptr<Transfer>> waiting;
  };

  explicit State(ipc::Loop& on) : loop(on), multi(::curl_multi_init()) {
    ::curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, kConnections);
    ::curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, kIdleConnections);
    thread = std::thread([this] { run(); });
  }
  ~State() {
    is_ending = true;
    ::curl_multi_wakeup(multi);
    thread.join();
    for (const auto& [easy, transfer] : running) release(*transfer);
    ::curl_multi_cleanup(multi);
  }

  void run() {
    while (!is_ending) {
      take_orders();
      int count = 0;
      ::curl_multi_perform(multi, &count);
      take_finished();
      ::curl_multi_poll(multi, nullptr, 0, 1'000, nullptr);
    }
  }

  void take_orders() {
    std::deque<std::unique_ptr<Transfer>> starting;
    std::set<std::uint64_t> cancelling;
    {
      const std::lock_guard lock(mutex);
      starting.swap(to_start);
      cancelling.swap(to_cancel);
    }
    for (auto& transfer : starting) enter(std::move(transfer));
    if (cancelling.empty()) return;
    for (auto& [tenant, lane] : lanes) {
      std::erase_if(lane.waiting, [&](const std::unique_ptr<Transfer>& transfer) {
        const bool is_over = cancelling.contains(transfer->id);
        if (is_over) tell(*transfer, given_up(false));
        return is_over;
      });
    }
    for (auto at = running.begin(); at != running.end();) {
      const auto next = std::next(at);
      if (cancelling.contains(at->second->id)) finish(at->first, given_up(was_connected(at->first)));
      at = next;
    }
  }

  void enter(std::unique_ptr<Transfer> transfer) {
    Lane& lane = lanes[transfer->request.tenant];
    if (lane.running == platform::kMaxTransfersPerTenant) return lane.waiting.push_back(std::move(transfer));
    ++lane.running;
    begin(std::move(transfer));
  }

  void leave(const std::string& tenant) {
    const auto lane = lanes.find(tenant);
    auto& [running_now, waiting] = lane->second;
    if (waiting.empty()) {
      if (--running_now == 0) lanes.erase(lane);
      return;
    }
    auto next = std::move(waiting.front());
    waiting.pop_front();
    begin(std::move(next));
  }

  void begin(std::unique_ptr<Transfer> owned) {
    Transfer& transfer = *owned;
    CURL* easy = transfer.easy = ::curl_easy_init();
    for (const std::string& header : transfer.request.headers) {
      transfer.headers = ::curl_slist_append(transfer.headers, header.c_str());
    }
    ::curl_easy_setopt(easy, CURLOPT_URL, transfer.request.url.c_str());
    ::curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
    ::curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    ::curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    ::curl_easy_setopt(easy, CURLOPT_PROXY, "");
    ::curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    ::curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMillis);
    ::curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(transfer.request.timeout.count()));
    ::curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    ::curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    ::curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &State::receive);
    ::curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    if (!transfer.request.body.empty()) {
      ::curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer.request.body.data());
      ::curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.request.body.size()));
    }
    ::curl_multi_add_handle(multi, easy);
    running.emplace(easy, std::move(owned));
  }

  static std::size_t receive(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = size * count;
    transfer.received += bytes;
    if (transfer.received > transfer.request.most_bytes) return 0;
    long status = 0;
    ::curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer.on_piece && status == 200) {
      transfer.state->loop.post([on_piece = transfer.on_piece, piece = std::string(data, bytes)] { on_piece(piece); });
    } else {
      transfer.response.body.append(data, bytes);
    }
    return bytes;
  }

  void take_finished() {
    int left = 0;
    while (const CURLMsg* message = ::curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* easy = message->easy_handle;
      const CURLcode code = message->data.result;
      Transfer& transfer = *running.at(easy);
      ::curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &transfer.response.status);
      curl_off_t seconds = 0;
      ::curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
      if (seconds > 0) transfer.response.retry_after = Millis(std::min(seconds, kMostPatience) * 1000);
      if (code == CURLE_OK) {
        finish(easy, std::move(transfer.response));
      } else {
        // Without a status it may have been asked all the same: the connection was there, and then no answer came.
        // Or one that is no HTTP, of which the library speaks as of a protocol that it does not know.
        const bool was_asked = code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                               code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY;
        finish(easy, curl_error(easy, code, transfer.response.status != 0 || was_asked));
      }
    }
  }

  void finish(CURL* easy, Result<HttpResponse> result) {
    const auto node = running.extract(easy);
    Transfer& transfer = *node.mapped();
    release(transfer);
    tell(transfer, std::move(result));
    leave(transfer.request.tenant);
  }

  void tell(Transfer& transfer, Result<HttpResponse> result) {
    // Shared: what is posted must be copyable.
    loop.post([on_done = std::move(transfer.on_done),
               shared = std::make_shared<Result<HttpResponse>>(std::move(result))] { on_done(std::move(*shared)); });
  }

  void release(Transfer& transfer) {
    ::curl_multi_remove_handle(multi, transfer.easy);
    ::curl_easy_cleanup(transfer.easy);
    ::curl_slist_free_all(transfer.headers);
  }

  ipc::Loop& loop;
  CURLM* multi;
  std::map<CURL*, std::unique_ptr<Transfer>> running;
  std::map<std::string, Lane> lanes;  // by tenant; those that have none running are not there
  std::atomic<bool> is_ending = false;
  std::mutex mutex;  // guards what follows
  std::deque<std::unique_ptr<Transfer>> to_start;
  std::set<std::uint64_t> to_cancel;
  std::uint64_t last_id = 0;
  std::thread thread;
};

Http::Http(ipc::Loop& loop) : state_(std::make_shared<State>(loop)) {}
Http::~Http() = default;

std::uint64_t Http::start(HttpRequest request, OnPiece on_piece, OnDone on_done) {
  auto transfer = std::make_unique<State::Transfer>();
  transfer->state = state_.get();
  transfer->request = std::move(request);
  transfer->on_piece = std::move(on_piece);
  transfer->on_done = std::move(on_done);
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(state_->mutex);
    id = transfer->id = ++state_->last_id;
    state_->to_start.push_back(std::move(transfer));
  }
  ::curl_multi_wakeup(state_->multi);
  return id;
}

void Http::cancel(std::uint64_t id) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->to_cancel.insert(id);
  }
  ::curl_multi_wakeup(state_->multi);
}

}  // namespace sallyport::adapters
