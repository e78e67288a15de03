#include "ipc/account.h"

#include "ipc/call.h"
#include "ipc/streams.h"

namespace sallyport::ipc {

void Account::give_room(Loop& loop) {
  for (auto each = asking.begin(); each != asking.end();) {
    if (!has_room_for(each->bytes)) return;
    if (!each->call->has_share_for(each->bytes)) {
      ++each;
      continue;
    }
    each->call->hold_room(each->bytes);
    // Not from here: a line of calls that all fail at once would become as deep a stack.
    loop.post([has_room = each->has_room] { has_room->resolve(true); });
    each = asking.erase(each);
  }
}

// ---- of a call ----

void Call::hold_room(std::size_t bytes) {
  if (session_->account_ == nullptr) return;  // it ended
  room_ += bytes;
  session_->promised_ += bytes;
  session_->account_->promised += bytes;
}

bool Call::has_share_for(std::size_t bytes) const {
  const Account* account = session_->account_;
  return account == nullptr || session_->unsent_bytes() + session_->promised_ + bytes <= account->share();
}

bool Call::take_room(std::size_t bytes) {
  const Account* account = session_->account_;
  if (account == nullptr || bytes == 0) return true;
  // Whoever asked before has it first.
  if (!account->asking.empty() || !account->has_room_for(bytes) || !has_share_for(bytes)) return false;
  hold_room(bytes);
  return true;
}

Task<bool> Call::await_room(std::size_t bytes) {
  if (is_given_up()) return Task<bool>::ready(false);
  if (take_room(bytes)) return Task<bool>::ready(true);
  return wait_for_room(bytes);
}

Task<bool> Call::wait_for_room(std::size_t bytes) {
  const auto has_room = std::make_shared<OneShot<bool>>();
  session_->account_->asking.push_back({this, bytes, has_room});
  session_->account_->give_room(session_->shared_.loop());
  on_cancel([has_room] { has_room->resolve(false); });
  const bool is_given = co_await *has_room;
  on_cancel(nullptr);
  if (Account* account = session_->account_) {
    account->asking.remove_if([&](const Account::Asking& each) { return each.has_room == has_room; });
  }
  co_return is_given && !is_given_up();
}

void Call::leave_room() {
  Account* account = session_->account_;
  session_->promised_ -= room_;
  if (room_ == 0 || account == nullptr) return;
  account->promised -= room_;
  account->give_room(session_->shared_.loop());
}

// ---- of a session ----

void Session::update_account() {
  if (account_ != nullptr) {
    const std::size_t unsent = is_closed_ ? 0 : unsent_bytes();
    const bool was_full = account_->is_full();
    account_->unsent += unsent - charged_;
    charged_ = unsent;
    account_->give_room(shared_.loop());
    if (was_full && !account_->is_full()) {
      // Who has reasons of its own to wait goes on waiting, for this too.
      for (Session* session : account_->waiting) session->wake_reader();
      for (Session* session : std::exchange(account_->clogged, {})) session->send_streams();
    }
  }
  if (has_clogged_streams_) send_streams();
}

void Session::leave_account() {
  if (account_ == nullptr) return;
  Account& account = *std::exchange(account_, nullptr);
  account.waiting.erase(this);
  account.clogged.erase(this);
  std::erase(account.queue, this);
  account.asking.remove_if([this](const Account::Asking& each) { return each.call->session_ == this; });
  account.streams -= held_streams_;
  account.unread -= held_unread_;
  for (Session* session : account.waiting) session->wake_reader();
  account.promised -= promised_;
  account.give_room(shared_.loop());
}

void Session::hold_unread(std::size_t bytes) {
  if (account_ == nullptr || bytes == held_unread_) return;
  const bool is_less = bytes < held_unread_;
  account_->unread += bytes - held_unread_;
  held_unread_ = bytes;
  if (!is_less) return;
  for (Session* session : account_->waiting) session->wake_reader();
}

void Session::hold_stream(bool is_held) {
  const std::size_t change = is_held ? 1 : std::size_t{0} - 1;
  held_streams_ += change;
  if (account_ != nullptr) account_->streams += change;
}

bool Session::may_send_streams() {
  if (!is_full()) return true;
  has_clogged_streams_ = true;
  if (account_ != nullptr) account_->clogged.insert(this);
  return false;
}

void Session::send_streams() {
  if (is_closed_ || !may_send_streams()) return;
  has_clogged_streams_ = false;
  shared_.loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->streams_) self->streams_->send_on();
  });
}

bool Session::takes_events(std::size_t most_unsent) const {
  return unsent_bytes() <= most_unsent && (account_ == nullptr || account_->unsent <= account_->share());
}

}  // namespace sallyport::ipc
