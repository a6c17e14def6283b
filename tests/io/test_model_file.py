"""Models as files: exact, atomic, and refusing everything that ``save`` did not write."""

import copy
import errno
import io
import json
import os
import pickle
import stat
import threading
import tracemalloc
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import dyncrp
from cases import DYNAMICS, RULES, THREE_FEATURES
from dyncrp import (
    Bernoulli,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    Stationary,
    combine,
)
from dyncrp import (
    dynamics as dynamics_module,
)
from dyncrp import (
    families as families_module,
)
from dyncrp.dynamics import hyperbolic
from dyncrp.engine.types import MOST_OBSERVATIONS
from dyncrp.io import model_file


def stream(family, n=20):
    rng = np.random.default_rng(0)
    parameters = family.sample_parameters(3, 3, rng)
    return family.sample(parameters[rng.integers(3, size=n)], rng), np.cumsum(rng.exponential(1.0, n))


def said(model, probe):
    return [
        model.log_evidence_,
        model.occupancies_.tobytes(),
        model.centers_.tobytes(),
        model.predict_proba(probe).tobytes(),
        model.score_samples(probe).tobytes(),
    ]


@pytest.fixture
def fitted():
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0)).fit([[0.0, 0.0], [9.0, 9.0], [0.5, 0.0]])


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "model.npz"
    fitted.save(path)
    return path


def contents(path):
    with np.load(path) as file:
        arrays = dict(file)
    del arrays["sha256"]
    return json.loads(arrays.pop("header").tobytes()), arrays


def rewrite(path, header, arrays):
    """Forge a file whose sha256 is right, whatever it holds."""
    text = header if isinstance(header, str) else json.dumps(header)
    members = {"header": np.frombuffer(text.encode(), dtype=np.uint8)} | arrays
    np.savez(path, sha256=model_file._digest(members), **members)


# --- exact ----------------------------------------------------------------------------------------------------------


def check_going_on(model, X, times, path):
    model.fit(X[:12], times=times[:12]).save(path)
    loaded = DynamicalMixture.load(path)
    assert loaded.get_params() == model.get_params()
    assert said(loaded, X[:2]) == said(model, X[:2])
    model.partial_fit(X[12:], times=times[12:])
    loaded.partial_fit(X[12:], times=times[12:])
    assert loaded.labels_.tolist() == model.labels_.tolist()
    assert said(loaded, X[:2]) == said(model, X[:2])


@pytest.mark.parametrize("options", RULES.values(), ids=RULES)
@pytest.mark.parametrize("family", THREE_FEATURES.values(), ids=THREE_FEATURES)
def test_a_loaded_model_goes_on_as_if_never_stopped(family, options, tmp_path):
    model = DynamicalMixture(family, DYNAMICS["sum-of-products"], alpha=1 / 3, **options)
    check_going_on(model, *stream(family), tmp_path / "model.npz")


@pytest.mark.parametrize("dynamics", DYNAMICS.values(), ids=DYNAMICS)
def test_every_dynamics_survives(dynamics, tmp_path):
    family = THREE_FEATURES["gaussian"]
    check_going_on(DynamicalMixture(family, dynamics), *stream(family), tmp_path / "model.npz")


def test_the_arrival_index_goes_on_too(tmp_path):
    X, _ = stream(THREE_FEATURES["gaussian"])
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(3.0)).fit(X[:12])
    model.save(tmp_path / "model")
    loaded = DynamicalMixture.load(tmp_path / "model").partial_fit(X[12:])
    assert said(loaded, X[:2]) == said(model.partial_fit(X[12:]), X[:2])
    with pytest.raises(ValueError, match="clock"):
        loaded.partial_fit(X, times=np.arange(100, 120))


def test_parameters_set_after_fitting_are_not_saved_as_those_of_the_fit(fitted, tmp_path):
    X = [[5.0, 5.0], [3.0, 1.0]]
    fitted.set_params(alpha=99.0, dynamics=Stationary())
    fitted.save(tmp_path / "model")
    loaded = DynamicalMixture.load(tmp_path / "model")
    assert (loaded.alpha, loaded.alpha_) == ("auto", 1.0)
    assert said(loaded.partial_fit(X), X) == said(fitted.partial_fit(X), X)


def test_numpy_numbers_as_parameters_survive(tmp_path):
    model = DynamicalMixture(
        Gaussian(np.float32(0.1), np.int64(100)), Exponential(np.float64(3.0)), np.float32(0.1), n_iter=np.int64(4)
    ).fit([[0.0]])
    model.save(tmp_path / "model")
    assert DynamicalMixture.load(tmp_path / "model").get_params() == model.get_params()


def test_a_path_may_be_a_string_of_any_name(fitted, tmp_path):
    path = str(tmp_path / "model of mine.v1")
    fitted.save(path)
    assert os.listdir(tmp_path) == ["model of mine.v1"]
    assert DynamicalMixture.load(path).n_tables_ == fitted.n_tables_


def test_a_family_from_elsewhere_cannot_be_saved(tmp_path):
    class Mine(Gaussian):
        pass

    model = DynamicalMixture(Mine(1.0, 100.0)).fit([[0.0]])
    with pytest.raises(ValueError, match="cannot be saved"):
        model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_subclass_with_the_name_of_a_built_in_cannot_be_saved(tmp_path):
    subclass = type("Gaussian", (Gaussian,), {})
    with pytest.raises(ValueError, match="cannot be saved"):
        DynamicalMixture(subclass(1.0, 100.0)).fit([[0.0]]).save(tmp_path / "model")


@dataclass(frozen=True, eq=False)
class Foreign(Gaussian):
    """A family without compiled code."""


@dataclass(frozen=True)
class Slow(Exponential):
    """A dynamics of the user's own."""


@dataclass(frozen=True, eq=False)
class Mine(Bernoulli):
    """A family of the user's own."""


def test_a_registered_class_can_be_saved(monkeypatch):
    monkeypatch.setitem(dynamics_module.DYNAMICS, "slow", Slow)
    monkeypatch.setitem(families_module.FAMILIES, "Mine", Mine)
    content = model_file.dumps({"dynamics": Slow(3.0), "family": Mine(1.0, [2.0])}, {})
    config, _ = model_file.loads(content)
    assert config == {"dynamics": Slow(3.0), "family": Mine(1.0, [2.0])}
    assert [type(value) for value in config.values()] == [Slow, Mine]


def test_any_numpy_number_can_be_saved():
    values = [np.longdouble(0.5), np.float16(0.5), np.int8(3), np.bool_(True), np.array([1, 2], dtype=np.longdouble)]
    content = model_file.dumps({"values": values}, {})
    assert model_file.loads(content)[0] == {"values": [0.5, 0.5, 3, True, [1.0, 2.0]]}


@pytest.mark.slow
def test_what_load_would_refuse_is_not_saved():
    with pytest.raises(ValueError, match="'stats' cannot be saved"):
        model_file.dumps({}, {"stats": np.array([0.0, np.inf])})
    deep: list[object] = []
    for _ in range(210):
        deep = [deep]
    with pytest.raises(ValueError, match="200 levels"):
        model_file.dumps({"deep": deep}, {})


def test_a_model_whose_numbers_load_would_refuse_is_not_saved():
    """Such numbers come from forged files only: the engine computes others from them, which may not be finite."""
    model = DynamicalMixture(Gaussian(), Exponential(5.0)).fit(np.zeros((9, 2)))
    arrays = model.engine_.arrays()
    arrays["squares"] = np.full_like(arrays["squares"], np.nan)
    model.engine_.go_on(arrays)
    with pytest.raises(ValueError, match="'squares' cannot be saved: it must hold finite numbers"):
        model.to_bytes()


def test_a_model_of_more_rows_than_load_takes_is_not_saved(saved):
    """Only a forged file has so many that a few more are too many."""
    header, arrays = contents(saved)
    arrays["n_observations"] = np.array(MOST_OBSERVATIONS)
    rewrite(saved, header, arrays)
    model = DynamicalMixture.load(saved)
    content = model.to_bytes()
    model.partial_fit(np.zeros((1, model.n_features_in_)))
    with pytest.raises(ValueError, match="'n_observations' cannot be saved: it must be at most"):
        model.to_bytes()
    assert DynamicalMixture.from_bytes(content).n_observations_ == MOST_OBSERVATIONS


@pytest.mark.parametrize("options", [{}, {"learn_alpha": True}], ids=str)
def test_a_model_goes_on_with_the_modes_of_its_file(options, monkeypatch):
    """Another SciPy finds other modes for the same kernel; 24 modes may be 23 of them, or 22."""
    family, fit = THREE_FEATURES["gaussian"], hyperbolic._hyperbola
    X, times = stream(family, 250)
    model = DynamicalMixture(family, 0.9 * Hyperbolic(5.0) + 0.1 * Stationary(), **options)
    content = model.fit(X[:120], times=times[:120]).to_bytes()
    monkeypatch.setattr(hyperbolic, "_hyperbola", lambda n_modes, horizon: fit(n_modes + 6, horizon))
    loaded = DynamicalMixture.from_bytes(content)
    assert len(loaded.dynamics_.modes().rates) > len(loaded.engine_.model.modes.rates)
    assert loaded.to_bytes() == content
    model.partial_fit(X[120:], times=times[120:])
    loaded.partial_fit(X[120:], times=times[120:])
    assert loaded.labels_.tolist() == model.labels_.tolist()
    assert said(loaded, X[:2]) == said(model, X[:2])
    if not options:
        others = DynamicalMixture(family, loaded.dynamics_).fit(X, times=times)
        with pytest.raises(ValueError, match=r"models\[1\] was saved where .* was a sum of other exponentials"):
            combine([others, loaded])


# --- refusing -------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        DynamicalMixture.load(tmp_path / "model")


def test_a_truncated_file_is_refused(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), 37):
        saved.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"model\.npz"):
            DynamicalMixture.load(saved)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_refused(seed, tmp_path):
    path = tmp_path / "model.npz"
    rng = np.random.default_rng(seed)
    path.write_bytes([b"", b"PK\x03\x04", b"\x93NUMPY"][seed % 3] + rng.bytes(200))
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(path)


@pytest.mark.slow
def test_any_damaged_byte_is_refused_or_harmless(fitted):
    content = fitted.to_bytes()
    positions, harmless = range(0, len(content), 3), 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 + position % 255
        try:
            loaded = DynamicalMixture.from_bytes(bytes(damaged))
        except ValueError:
            continue
        harmless += 1
        assert loaded.to_bytes() == content
    assert harmless < len(positions) / 4  # dates, modes and such in the frame of the zip


def test_a_changed_header_or_array_is_noticed(saved):
    header, arrays = contents(saved)
    text = np.frombuffer(json.dumps(header).replace("100.0", "101.0").encode(), dtype=np.uint8)
    digest = np.load(saved)["sha256"]
    arrays["stats"][0, 0] += 1e-9
    for spoilt in ({"header": text}, arrays, {"sha256": digest[:-1]}):
        genuine = dict(np.load(saved))
        np.savez(saved.with_name("forged.npz"), **{**genuine, **spoilt})
        with pytest.raises(ValueError, match=r"forged\.npz was changed after it was saved"):
            DynamicalMixture.load(saved.with_name("forged.npz"))


@pytest.mark.parametrize(
    "bad", [{"format": "other"}, {"version": 2}, {"version": "1"}, {"config": None}, {"config": 3}]
)
def test_another_format_or_version_is_refused(saved, bad):
    header, arrays = contents(saved)
    rewrite(saved, {**header, **bad}, arrays)
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(saved)


def test_a_newer_version_is_said_to_be_newer_even_if_its_digest_is_another(saved):
    header, arrays = contents(saved)
    text = np.frombuffer(json.dumps(header | {"version": 7, "dyncrp": "2.0"}).encode(), dtype=np.uint8)
    np.savez(saved, header=text, blake=np.zeros(3), **arrays)
    with pytest.raises(ValueError, match=r"version 7; this dyncrp reads version 1 .*; dyncrp '2\.0' wrote it"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("key", ["format", "version", "config"])
def test_an_incomplete_header_is_refused(saved, key):
    header, arrays = contents(saved)
    del header[key]
    rewrite(saved, header, arrays)
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", -1.0),
        ("family", "Gaussian"),
        ("family", {"kind": "Popen", "args": "true"}),
        ("family", {"kind": "Gaussian", "colour": 3}),
        ("family", {"kind": ["Gaussian"]}),
        ("dynamics", {"kind": "Exponential"}),
        ("dynamics", {"kind": "Sum", "terms": 3}),
        ("dynamics", {"kind": "Sum", "terms": []}),
        ("dynamics", {"kind": "Sum", "terms": [3]}),
        ("dynamics", {"kind": "Scaled", "weight": "3", "dynamics": {"kind": "Stationary"}}),
        ("dynamics", {"kind": "Product", "left": {"kind": "Stationary"}, "right": 3}),
        ("dynamics", {"kind": "Oscillatory", "period": 3.0}),
        ("unknown", 1),
    ],
)
def test_bad_parameters_in_a_file_are_refused(saved, name, value):
    header, arrays = contents(saved)
    where = "params" if name == "unknown" else "hyperparameters"
    header["config"][where][name] = value
    rewrite(saved, header, arrays)
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(saved)


def test_missing_arrays_are_refused(saved):
    header, arrays = contents(saved)
    optional = {"mode_total", "squares", "sizes", "first_times", "last_times"}  # for the last bits, and descriptions
    for name in arrays.keys() - optional:
        rewrite(saved, header, {other: array for other, array in arrays.items() if other != name})
        with pytest.raises(ValueError, match=name):
            DynamicalMixture.load(saved)


@pytest.mark.parametrize(
    "spoil",
    [lambda a: a[None], lambda a: np.concatenate([a.ravel()] * 2), lambda a: a.astype(str), lambda a: a * np.nan],
    ids=["deeper", "longer", "strings", "nan"],
)
@pytest.mark.parametrize(
    "name",
    ["squares", "mode_states", "n_tables_posterior", "time", "table_ids", "n_opened", "sizes", "last_times"],
)
def test_wrong_arrays_are_refused(saved, name, spoil):
    header, arrays = contents(saved)
    rewrite(saved, header, {**arrays, name: spoil(arrays[name])})
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("config", [1.5, [], None, {"kind": "Stationary"}])
def test_a_config_that_is_no_object_is_refused(saved, config):
    header, arrays = contents(saved)
    rewrite(saved, header | {"config": config}, arrays)
    with pytest.raises(ValueError, match=r"model\.npz has a damaged header"):
        DynamicalMixture.load(saved)


def test_a_model_cannot_have_seen_so_many_rows_that_one_more_is_too_many(saved):
    header, arrays = contents(saved)
    rewrite(saved, header, {**arrays, "n_observations": np.array(2**63 - 1)})
    with pytest.raises(ValueError, match="ever opened by 9223372036854775807 observations"):
        DynamicalMixture.load(saved)


def test_a_file_from_before_tables_had_sizes_is_read(saved, fitted):
    header, arrays = contents(saved)
    older = {name: array for name, array in arrays.items() if name not in ("sizes", "first_times", "last_times")}
    rewrite(saved, header, older)
    state, before = DynamicalMixture.load(saved).engine_.state, fitted.engine_.state
    assert state.sizes.tolist() == np.rint(before.stats[:, 0]).tolist()
    assert state.first_times.tolist() == state.last_times.tolist() == [before.time] * len(before.ids)
    np.testing.assert_array_equal(state.stats, before.stats)


@pytest.mark.parametrize("name", ["more", "novelty_more", "example_more", "alpha_time", "warmup_more"])
def test_arrays_that_do_not_belong_are_refused(saved, name):
    header, arrays = contents(saved)
    rewrite(saved, header, arrays | {name: np.zeros(3)})
    with pytest.raises(ValueError, match=rf"arrays that this dyncrp does not know, \['{name}'\]"):
        DynamicalMixture.load(saved)


def spoil_modes(arrays, rates=lambda rates: rates, amplitudes=lambda amplitudes: amplitudes):
    spoilt = {"mode_rates": rates(arrays["mode_rates"]), "mode_amplitudes": amplitudes(arrays["mode_amplitudes"])}
    return arrays | spoilt


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"rates": lambda rates: 1.5 * rates}, "not those of Exponential"),
        ({"amplitudes": lambda amplitudes: 1.1 * amplitudes}, "not those of Exponential"),
        ({"rates": lambda rates: -rates}, "do not make a kernel"),
        (
            {"rates": lambda rates: np.append(rates, rates)},
            r"'mode_rates' has shape \(2,\), expected \(M,\) with M = 1",
        ),
        (
            {"rates": lambda rates: rates[:0], "amplitudes": lambda amplitudes: amplitudes[:0]},
            "0 modes do not make a kernel",
        ),
        ({"amplitudes": lambda amplitudes: amplitudes * np.nan}, "'mode_amplitudes' must hold finite numbers"),
        ({"rates": lambda rates: rates[None]}, r"'mode_rates' has shape \(1, 1\)"),
        ({"rates": lambda rates: rates.real.copy()}, "'mode_rates' must hold finite numbers of type complex128"),
    ],
)
def test_modes_that_are_not_those_of_the_dynamics_are_refused(saved, spoilt, message):
    header, arrays = contents(saved)
    rewrite(saved, header, spoil_modes(arrays, **spoilt))
    with pytest.raises(ValueError, match=rf"model\.npz does not hold a DynamicalMixture.*{message}"):
        DynamicalMixture.load(saved)


def test_modes_that_differ_by_rounding_are_taken(saved, fitted):
    header, arrays = contents(saved)
    rewrite(saved, header, spoil_modes(arrays, rates=lambda rates: rates * (1 + 1e-15)))
    assert DynamicalMixture.load(saved).log_evidence_ == fitted.log_evidence_


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config | {"mood": 3}, r"does not know, \['mood'\]"),
        (lambda config: config | {"params": config["params"] | {"mood": 3}}, "mood"),
        (lambda config: config | {"feature_names": {"kind": "Mood"}}, "'Mood'"),
    ],
)
def test_what_a_newer_version_wrote_is_said_to_be_of_that(saved, change, message):
    header, arrays = contents(saved)
    assert header["dyncrp"] == dyncrp.__version__
    rewrite(saved, header | {"config": change(header["config"])}, arrays)
    with pytest.raises(ValueError, match=message) as told:
        DynamicalMixture.load(saved)
    assert "wrote it" not in str(told.value)
    rewrite(saved, header | {"config": change(header["config"]), "dyncrp": "7.1"}, arrays)
    with pytest.raises(ValueError, match=rf"{message}.*; dyncrp '7\.1' wrote it, and this is"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i4", "<u8", "|b1", "<f2", "<M8[s]", "|V8", "<U2", "<c8"])
@pytest.mark.parametrize("name", ["mode_states", "table_ids"])
def test_other_kinds_of_numbers_are_refused(saved, name, dtype):
    header, arrays = contents(saved)
    rewrite(saved, header, arrays | {name: np.zeros(arrays[name].shape, dtype=dtype)})
    with pytest.raises(ValueError, match=f"'{name}' of .* is not what save writes"):
        DynamicalMixture.load(saved)


def test_arrays_by_columns_are_saved_by_rows_and_refused_otherwise(saved):
    by_columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    _, arrays = model_file.loads(model_file.dumps({}, {"a": by_columns}))
    np.testing.assert_array_equal(arrays["a"], by_columns)
    header, arrays = contents(saved)
    rewrite(saved, header, arrays | {"more": by_columns})
    with pytest.raises(ValueError, match=r"'more' of .* is not what save writes"):
        DynamicalMixture.load(saved)


def test_bytes_of_another_order_are_saved_in_ours():
    _, arrays = model_file.loads(model_file.dumps({}, {"a": np.array([1.0, 2.0], dtype=">f8")}))
    assert arrays["a"].dtype.isnative
    assert arrays["a"].flags.writeable
    assert arrays["a"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("family", {"kind": "Bernoulli", "a": 1.0, "b": 1.0}, "given as Gaussian.*and is Bernoulli"),
        ("family", {"kind": "Gaussian", "variance": [1.0] * 3, "prior_variance": 9.0}, "for 3 features, and it has 2"),
        ("alpha", "auto", "alpha"),
        ("alpha", 0, "alpha"),
    ],
)
def test_hyperparameters_must_suit_the_parameters(saved, where, value, message):
    header, arrays = contents(saved)
    header["config"]["hyperparameters"][where] = value
    rewrite(saved, header, arrays)
    with pytest.raises(ValueError, match=message):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clock", "dawn"),
        ("n_features", 3),
        ("n_features", 2.0),
        ("n_features", 10**12),
        ("feature_names", ["a"]),
        ("feature_names", "ab"),
        ("feature_names", [1, 2]),
        ("params", []),
        ("hyperparameters", None),
    ],
)
def test_a_bad_entry_of_the_header_is_refused(saved, name, value):
    header, arrays = contents(saved)
    header["config"] |= {"feature_names": ["a", "b"], name: value}
    rewrite(saved, header, arrays)
    with pytest.raises(ValueError, match=r"model\.npz does not hold a DynamicalMixture"):
        DynamicalMixture.load(saved)


def test_a_learning_alpha_needs_a_kernel_that_is_never_negative_in_a_file_too(tmp_path):
    path = tmp_path / "model.npz"
    DynamicalMixture(Gaussian(1.0, 100.0), LinearODE([1.0, 20.0])).fit([[0.0], [9.0]]).save(path)
    header, arrays = contents(path)
    header["config"]["params"] |= {"learn_alpha": True, "dynamics": {"kind": "Exponential", "timescale": 20.0}}
    header["config"]["prior_alpha"] = 1.0
    alpha = {"alpha_log_sum": np.zeros(181), "alpha_total": np.zeros(1, complex), "alpha_time": np.array(1.0)}
    rewrite(path, header, arrays | alpha)
    with pytest.raises(ValueError, match="never negative"):
        DynamicalMixture.load(path)


def npy(shape, dtype="<f8", data=b""):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("shape", ["(10**15,)", "(1000000000000000,)", "(3000000000, 3000000000)", "(-1,)", "(1,) * 9"])
def test_an_array_that_promises_more_than_it_holds_is_refused_before_there_is_room_for_it(saved, shape):
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("more.npy", npy(shape, data=b"12345678"))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"model\.npz is not a readable dyncrp model"):
        DynamicalMixture.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_a_compressed_file_is_refused_unopened(saved):
    with zipfile.ZipFile(saved, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("more.npy", npy("(10000000,)", data=bytes(80_000_000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match="larger than the file"):
        DynamicalMixture.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_what_compression_does_not_make_smaller_is_refused_too(saved):
    with zipfile.ZipFile(saved, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("more.npy", npy("(1000,)", data=np.random.default_rng(0).bytes(8000)))
    with pytest.raises(ValueError, match=r"'more\.npy' is repeated, compressed"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("name", ["stats.npy", "stats", "stats.txt"])
def test_a_member_that_is_twice_there_or_no_array_is_refused(saved, name):
    with zipfile.ZipFile(saved, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.writestr(name, npy("(1,)", data=bytes(8)))
    with pytest.raises(ValueError, match=rf"'{name}' is repeated"):
        DynamicalMixture.load(saved)


def test_bytes_after_an_array_are_refused(saved):
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("more.npy", npy("(1,)", data=bytes(9)))
    with pytest.raises(ValueError, match=r"'more' of float64 and shape \(1,\) is not what save writes"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("depth", [110, 900, 200_000])
def test_a_hostile_depth_is_refused(saved, depth):
    header, arrays = contents(saved)
    nested = '{"kind": "Scaled", "weight": 1.0, "dynamics": ' * depth + '{"kind": "Stationary"}' + "}" * depth
    rewrite(saved, json.dumps(header).replace('"alpha"', f'"deep": {nested}, "alpha"'), arrays)
    with pytest.raises(ValueError, match=r"model\.npz"):
        DynamicalMixture.load(saved)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_running_out_of_memory_or_stack_is_a_damaged_header(saved, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setitem(families_module.FAMILIES, "Gaussian", fail)
    with pytest.raises(ValueError, match="damaged header"):
        DynamicalMixture.load(saved)


def test_another_npz_is_said_to_be_another(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.zeros(3))
    with pytest.raises(ValueError, match=r"an \.npz file, but not one that save wrote"):
        DynamicalMixture.load(path)
    np.save(tmp_path / "data.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"not an \.npz file"):
        DynamicalMixture.load(tmp_path / "data.npy")


class Trap:
    """Leaves a mark if it is ever unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_pickles_are_refused_unopened(saved, tmp_path):
    mark = str(tmp_path / "mark")
    _, arrays = contents(saved)
    with_object = io.BytesIO()
    np.savez(with_object, header=np.array([Trap(mark)], dtype=object), **arrays)
    for content in (pickle.dumps(Trap(mark)), with_object.getvalue()):
        saved.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.npz"):
            DynamicalMixture.load(saved)
        assert not os.path.exists(mark)


# --- atomic ---------------------------------------------------------------------------------------------------------


def check_failure(saved, fitted, errno_):
    old = saved.read_bytes()
    fitted.partial_fit([[1.0, 1.0]])
    with pytest.raises(OSError, match=rf"{os.strerror(errno_)}.*model\.npz") as info:
        fitted.save(saved)
    assert info.value.errno == errno_
    assert saved.read_bytes() == old
    assert os.listdir(saved.parent) == ["model.npz"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(saved, fitted, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    check_failure(saved, fitted, errno.ENOSPC)


def test_a_disk_that_fills_up_half_way_leaves_the_old_file_and_nothing_else(saved, fitted, monkeypatch):
    class Filling(io.FileIO):
        def write(self, content):
            super().write(bytes(content)[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", Filling)
    check_failure(saved, fitted, errno.ENOSPC)


def test_a_limit_on_the_size_of_files_leaves_the_old_file_and_nothing_else(saved, fitted):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        check_failure(saved, fitted, errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
def test_readers_see_one_save_or_another_while_a_writer_saves(tmp_path):
    """Forty saves, three readers: every load is the whole of one of the models, and never of an earlier one."""
    path = tmp_path / "model.npz"
    model = DynamicalMixture(Gaussian(1e-6, 100.0), Exponential(20.0)).fit(np.arange(3.0)[:, None])
    model.save(path)
    versions = {model.n_observations_: model.to_bytes()}
    done = threading.Event()

    def write():
        for k in range(1, 41):
            model.partial_fit(np.arange(50.0)[:, None] + k / 50)  # each a good deal larger than the one before
            versions[model.n_observations_] = model.to_bytes()
            model.save(path)
        done.set()

    def read():
        seen = []
        while not seen or not done.is_set():
            loaded = DynamicalMixture.load(path)
            assert loaded.to_bytes() == versions[loaded.n_observations_]
            seen.append(loaded.n_observations_)
        return seen

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        pool.submit(write).result()
        histories = [reader.result() for reader in readers]
    assert all(history == sorted(history) for history in histories)
    assert len(set().union(*histories)) > 2
    assert os.listdir(tmp_path) == ["model.npz"]


def test_saving_again_replaces_the_file(saved, fitted):
    fitted.partial_fit([[-9.0, 9.0]]).save(saved)
    assert DynamicalMixture.load(saved).n_tables_ == 3
    assert os.listdir(saved.parent) == ["model.npz"]


def test_a_missing_folder_is_said_to_be_missing(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/model\.npz'$"):
        fitted.save(tmp_path / "nowhere" / "model.npz")


def test_where_a_folder_cannot_be_opened_a_model_is_saved_all_the_same(saved, fitted, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "O_DIRECTORY")
    opened = os.open

    def refuse(path, *flags):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *flags)

    monkeypatch.setattr(os, "open", refuse)
    fitted.partial_fit([[-9.0, 9.0]]).save(saved)
    assert DynamicalMixture.load(saved).n_tables_ == 3


def test_a_link_is_written_through(saved, fitted):
    link = saved.with_name("link.npz")
    link.symlink_to(saved)
    fitted.partial_fit([[-9.0, 9.0]]).save(link)
    assert link.is_symlink()
    assert DynamicalMixture.load(saved).n_tables_ == 3


def test_a_file_keeps_its_mode_and_a_new_one_honours_the_umask(saved, fitted):
    saved.chmod(0o600)
    fitted.save(saved)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        fitted.save(saved.with_name("new"))
        assert stat.S_IMODE(saved.with_name("new").stat().st_mode) == 0o640
    finally:
        assert os.umask(before) == 0o027


def test_the_longest_legal_name(fitted, tmp_path):
    path = tmp_path / ("m" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    fitted.save(path)
    assert DynamicalMixture.load(path).n_tables_ == fitted.n_tables_


def test_bytes_are_what_save_writes(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(0.0, 6.0, (200, 2))
    model = DynamicalMixture(Gaussian(1.0, 36.0), Exponential(30.0)).fit(X[:120])
    model.save(tmp_path / "model")
    assert model.to_bytes() == (tmp_path / "model").read_bytes()
    again = DynamicalMixture.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.partial_fit(X[120:]).labels_, model.partial_fit(X[120:]).labels_)
    assert again.log_evidence_ == model.log_evidence_
    with pytest.raises(ValueError, match=r"this is not a readable dyncrp model"):
        DynamicalMixture.from_bytes(model.to_bytes()[:-30])


# --- what a file leaves out, and what pickles keep --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels_", "responsibilities_", "novelty_", "evidence_"])
def test_a_loaded_model_says_that_its_last_batch_was_not_kept(fitted, name):
    loaded = DynamicalMixture.from_bytes(fitted.to_bytes())
    with pytest.raises(AttributeError, match=f"no {name}"):
        getattr(loaded, name)
    if name != "evidence_":
        assert len(getattr(loaded.partial_fit([[0.0, 0.0]]), name).shape) > 0


def test_feature_names_are_kept(tmp_path):
    frame = pd.DataFrame({"länge": [0.0, 9.0], "b": [0.0, 9.0]})
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit(frame)
    model.save(tmp_path / "model")
    loaded = DynamicalMixture.load(tmp_path / "model").partial_fit(frame)
    assert loaded.feature_names_in_.tolist() == ["länge", "b"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "länge"]])
    assert not hasattr(DynamicalMixture.from_bytes(model.fit(frame.to_numpy()).to_bytes()), "feature_names_in_")


def joblibbed(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "joblib": joblibbed,
    "bytes": lambda model: DynamicalMixture.from_bytes(model.to_bytes()),
}


@pytest.mark.parametrize("options", [{}, {"learn_alpha": True}, {"table_count": "posterior"}], ids=str)
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_every_copy_goes_on_to_the_bit_by_itself(copied, options):
    family = THREE_FEATURES["gaussian"]
    X, times = stream(family, 240)
    model = DynamicalMixture(family, Exponential(5.0), alpha=0.5, **options).fit(X[:150], times=times[:150])
    mine = copied(model)
    mine.partial_fit(X[150:], times=times[150:])
    assert model.n_observations_ == 150
    model.partial_fit(X[150:], times=times[150:])
    assert mine.labels_.tolist() == model.labels_.tolist()
    assert mine.novelty_.tobytes() == model.novelty_.tobytes()
    assert (mine.to_bytes(), mine.alpha_) == (model.to_bytes(), model.alpha_)


@pytest.mark.parametrize("copied", [COPIES[name] for name in ("pickle", "deepcopy", "joblib")])
def test_pickles_keep_what_is_set_and_the_last_batch(copied, fitted):
    fresh = copied(DynamicalMixture(Gaussian(1.0, [2.0, 3.0]), alpha=3.0))
    assert fresh.get_params() == DynamicalMixture(Gaussian(1.0, [2.0, 3.0]), alpha=3.0).get_params()
    with pytest.raises(NotFittedError):
        fresh.predict([[0.0, 0.0]])
    mine = copied(fitted.set_params(family__variance=7.0, alpha=9.0))
    assert (mine.family.variance, mine.alpha, mine.family_.variance, mine.alpha_) == (7.0, 9.0, 1.0, 1.0)
    assert mine.labels_.tolist() == fitted.labels_.tolist()
    assert mine.novelty_.tolist() == fitted.novelty_.tolist()
    assert mine.evidence_ == fitted.evidence_
    X = [[5.0, 5.0], [3.0, 1.0]]
    assert said(mine.partial_fit(X), X) == said(fitted.partial_fit(X), X)
    assert mine.fit(X).alpha_ == 9.0


def test_long_hyperparameters_are_arrays_of_their_own(tmp_path):
    path = tmp_path / "model.npz"
    family = Gaussian(1.0, np.linspace(9.0, 11.0, 101), np.linspace(-1.0, 1.0, 101))
    model = DynamicalMixture(family).fit(np.zeros((2, 101)))
    model.save(path)
    header, arrays = contents(path)
    assert len(json.dumps(header)) < 2000
    name = header["config"]["hyperparameters"]["family"]["prior_mean"]["array"]
    np.testing.assert_array_equal(arrays[name], family.prior_mean)
    assert DynamicalMixture.load(path).family_ == family
    del arrays[name]
    rewrite(path, header, arrays)
    with pytest.raises(ValueError, match=f"damaged header.*{name}"):
        DynamicalMixture.load(path)


def test_a_pipe_or_a_folder_is_not_replaced(tmp_path):
    model = DynamicalMixture(Gaussian(1.0, 9.0)).fit([[0.0]])
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            model.save(target)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
