// The families by name. Each is compiled by itself, from family.cpp.in, and enters itself when the module is loaded.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "dense.hpp"
#include "settings.hpp"

namespace dyncrp {

using StreamPointer = std::unique_ptr<Stream>;

/// Makes streams of one family with its settings.
using Maker = std::function<StreamPointer(std::vector<Mode>, const Rules&)>;

using Families = std::map<std::string, Maker (*)(const Source& settings, const Source& coordinates)>;

inline Families& families() {
    static Families all;
    return all;
}

template <class F>
Maker maker_of(const Source& settings, const Source& coordinates) {
    return
        [told = settings_from<typename F::Settings>(settings), at = settings_from<Coordinates::Settings>(coordinates)](
            std::vector<Mode> modes, const Rules& rules) -> StreamPointer {
            if constexpr (std::is_base_of_v<Stream, F>) {
                return std::make_unique<F>(told, std::move(modes), rules);
            } else {
                return std::make_unique<StreamOf<F>>(told, at, std::move(modes), rules);
            }
        };
}

template <class F>
bool enter() {
    return families().emplace(F::Settings::NAME, maker_of<F>).second;
}

}  // namespace dyncrp
