// Names for groups of files, as a search's `types` filter takes them.
#pragma once

#include <array>
#include <string_view>

namespace sallyport::worker {

struct FileType {
  std::string_view name;
  std::string_view glob;  // of file names
};

inline constexpr std::array kFileTypes = {
    FileType{"c", "*.{c,h}"},
    FileType{"cmake", "{*.cmake,CMakeLists.txt}"},
    FileType{"cpp", "*.{C,H,cc,cpp,cxx,h,hh,hpp,hxx,inl,ipp}"},
    FileType{"cs", "*.cs"},
    FileType{"css", "*.{css,scss,sass,less}"},
    FileType{"docker", "{Dockerfile,*.dockerfile}"},
    FileType{"go", "*.go"},
    FileType{"html", "*.{htm,html}"},
    FileType{"java", "*.java"},
    FileType{"js", "*.{js,jsx,mjs,cjs,vue}"},
    FileType{"json", "*.{json,jsonl}"},
    FileType{"kotlin", "*.{kt,kts}"},
    FileType{"lua", "*.lua"},
    FileType{"make", "{[Mm]akefile,GNUmakefile,*.mk,*.mak}"},
    FileType{"md", "*.{md,markdown,mdx}"},
    FileType{"perl", "*.{pl,pm,t}"},
    FileType{"php", "*.php"},
    FileType{"proto", "*.proto"},
    FileType{"py", "*.{py,pyi}"},
    FileType{"ruby", "{*.rb,*.gemspec,Gemfile,Rakefile}"},
    FileType{"rust", "*.rs"},
    FileType{"sh", "*.{sh,bash,zsh}"},
    FileType{"sql", "*.sql"},
    FileType{"swift", "*.swift"},
    FileType{"toml", "{*.toml,Cargo.lock}"},
    FileType{"ts", "*.{ts,tsx,mts,cts}"},
    FileType{"txt", "*.txt"},
    FileType{"xml", "*.{xml,xsd,xsl,svg}"},
    FileType{"yaml", "*.{yml,yaml}"},
    FileType{"zig", "*.zig"},
};

}  // namespace sallyport::worker
