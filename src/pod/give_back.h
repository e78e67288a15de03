// What a person's terminal is told between programs, so that nothing of one is left to the next.
//
// Much of it a soft reset (DECSTR) does as well, where there is one: tmux, screen and the Linux console have none.
#pragma once

#include <string_view>

namespace sallyport::pod {

// Where another stream goes on: what was cut off must not go on with it.
inline constexpr std::string_view kOutOfSequence = "\x18\x1b\\";
// Before a repaint: out of any sequence and link, no margins, the usual characters, nothing inserted, plain colours,
// cleared.
inline constexpr std::string_view kClear =
    "\x18\x1b\\\x1b]8;;\x1b\\\x1b[!p\x1b[?6l\x1b[?69l\x1b[r\x1b[4l\x1b[?7h\x1b(B\x0f\x1b[0m\x1b[H\x1b[2J";
// When the terminal goes back to its owner: out of any sequence and link, no margins, not reversed, a visible cursor of
// the usual shape, lines that wrap, keys that are not echoed by the terminal itself, no mouse, focus, paste,
// colour-scheme, size or keyboard modes, nothing held back. Margins put the cursor into the corner: saved just before,
// it stays.
inline constexpr std::string_view kGiveBack =
    "\x18\x1b\\\x1b]8;;\x1b\\\x1b[?69l\x1b"
    "7\x1b[r\x1b"
    "8\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    "\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[?2048l\x1b[?9001l\x1b[<99u\x1b[>4;0m\x1b[?5l"
    "\x1b[20l\x1b[4l\x1b[12h\x1b[?1l\x1b>\x1b[?7h\x1b[?25h\x1b[0 q\x1b(B\x0f\x1b[0m\x1b[!p";
// Before that, if the other screen is shown, which has keyboard modes of its own. Some terminals would move the cursor
// where it is not.
inline constexpr std::string_view kLeaveScreen = "\x18\x1b\\\x1b[<99u\x1b[?1049l\x1b[?1047l\x1b[?47l";
inline constexpr std::string_view kEnterScreen = "\x18\x1b\\\x1b[?1049h";
// And its own colours, if the agent set others.
inline constexpr std::string_view kColoursBack =
    "\x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b]113\x1b\\\x1b]114\x1b\\"
    "\x1b]115\x1b\\\x1b]116\x1b\\\x1b]117\x1b\\\x1b]118\x1b\\\x1b]119\x1b\\";
inline constexpr std::string_view kPlain = "\x1b[0m";
inline constexpr std::string_view kNewLine = "\r\n";

}  // namespace sallyport::pod
