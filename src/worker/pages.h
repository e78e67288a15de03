// The hits of a search as one page of an answer, or as many that are streamed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/grep.h"

namespace sallyport::worker {

// What a hit and a file cost in an answer besides their texts: keys, quotes, numbers.
inline constexpr std::size_t kHitOverhead = 64;

using FoundFiles = std::map<std::string, FileHits, std::less<>>;  // by their paths below the search's root

class Pages {
 public:
  // Both must outlive it. Without `on_page` there is one page, and what does not fit it is left out.
  Pages(const GrepRequest& request, const OnPage& on_page)
      : request_(request), on_page_(on_page), left_(request.limit), room_(request.max_bytes) {}

  bool are_streamed() const { return bool(on_page_); }
  // What paths begin with, as they are shown.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  // Lays files into pages; they lie behind all that were added before.
  Status add(FoundFiles files);
  // Hands over what is on a page so far.
  Status send();
  // Nothing more is to come; `is_cut` if that is because there was no room for it.
  Status finish(bool is_cut, GrepAnswer& answer);

 private:
  bool is_over() const { return !cursor_.empty(); }
  Status add(const std::string& path, FileHits& found);
  bool add_lines(const std::string& path, FileHits& found, bool is_first, std::uint64_t& shown);

  const GrepRequest& request_;
  const OnPage& on_page_;
  std::string prefix_;
  std::vector<GrepFile> page_;
  std::size_t left_;  // of the limit
  std::size_t room_;  // of this page's bytes
  std::uint64_t pages_ = 0;
  std::string last_;    // the last file that was shown as a whole
  std::string cursor_;  // where the next answer goes on; nothing is added behind it
};

}  // namespace sallyport::worker
