// How a family is told its settings: by name. Each struct of settings lists its fields in `for_each`.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "numbers.hpp"

namespace dyncrp {

/// Values by name, wherever they come from. To read one that is not there is an error.
class Source {
  public:
    virtual ~Source() = default;
    virtual bool has(const char* name) const = 0;
    virtual void read(const char* name, double& value) const = 0;
    virtual void read(const char* name, Index& value) const = 0;
    virtual void read(const char* name, std::vector<double>& values) const = 0;
    virtual void read(const char* name, std::vector<Index>& values) const = 0;
    /// Look into what has values by name itself: one such thing, or each of several.
    virtual void look_into(const char* name, const std::function<void(const Source&)>& look) const = 0;
};

template <class Settings>
Settings settings_from(const Source& source);

template <class T>
void read(const Source& source, const char* name, T& value) {
    if constexpr (requires { source.read(name, value); }) {
        source.read(name, value);
    } else {
        source.look_into(name, [&](const Source& inner) { value = settings_from<T>(inner); });
    }
}

template <class T>
    requires requires(T settings) { settings.for_each([](const char*, auto&) {}); }
void read(const Source& source, const char* name, std::vector<T>& values) {
    source.look_into(name, [&](const Source& inner) { values.push_back(settings_from<T>(inner)); });
}

/// One of several kinds of settings, by its name.
template <class... Kinds>
void read(const Source& source, const char* name, std::variant<Kinds...>& value) {
    source.look_into(name, [&](const Source& inner) {
        const auto try_kind = [&]<class Kind>(const Kind*) {
            if (!inner.has(Kind::NAME)) return false;
            inner.look_into(Kind::NAME, [&](const Source& found) { value = settings_from<Kind>(found); });
            return true;
        };
        if (!(try_kind(static_cast<const Kinds*>(nullptr)) || ...)) throw std::invalid_argument("unknown settings");
    });
}

template <class Settings>
Settings settings_from(const Source& source) {
    Settings settings;
    settings.for_each([&](const char* name, auto& value) { read(source, name, value); });
    return settings;
}

}  // namespace dyncrp
